"""The report of ``polyref evaluate -o DIR``: one page for people, and the same numbers for programs beside it."""
