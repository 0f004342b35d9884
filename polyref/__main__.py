"""``python -m polyref`` is the command line."""

from __future__ import annotations

from polyref.cli.main import main

if __name__ == "__main__":
    main()
