"""Run the notebook of the documentation and store its outputs: ``python scripts/docs/notebook.py``."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


def run(folder: Path) -> Any:
    """The notebook with the outputs of a run in a folder."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    metadata = dict(notebook.metadata)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources, record_timing=False).execute()
    # The version of Python that ran it is no part of what it shows.
    notebook.metadata = nbformat.from_dict(metadata)
    return notebook


def main() -> None:
    with TemporaryDirectory() as folder:
        nbformat.write(run(Path(folder)), NOTEBOOK)


if __name__ == "__main__":
    main()
