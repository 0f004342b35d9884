"""The files that a command reads and writes, as the user named them."""
