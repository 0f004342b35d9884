"""The notebook of the documentation runs from top to bottom, and shows what it stored."""

from __future__ import annotations

import os
from typing import Any

import pytest
from shown import assert_shown

pytestmark = pytest.mark.slow

nbformat = pytest.importorskip("nbformat", reason="needs nbformat, nbclient and ipykernel")
for needed in ("nbclient", "ipykernel", "matplotlib"):
    pytest.importorskip(needed, reason=f"needs {needed}")
notebook = pytest.importorskip("docs.notebook")


def _code(found: Any) -> list[Any]:
    return [cell for cell in found.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def stored() -> list[Any]:
    found = nbformat.read(notebook.NOTEBOOK, as_version=4)
    nbformat.validate(found)
    return _code(found)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The code cells after a run in a folder of their own."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        # The kernel is of this environment, whatever is installed for the user.
        for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "TMPDIR"):
            (folder / name).mkdir()
            patch.setenv(name, str(folder / name))
        root = str(notebook.NOTEBOOK.parent.parent)
        patch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
        return _code(notebook.run(folder))


def _texts(cell: Any) -> list[str]:
    """What a cell prints, and what it displays as text and as HTML."""
    printed = [output.text for output in cell.outputs if output.get("name") == "stdout"]
    displayed = [output.get("data", {}) for output in cell.outputs]
    return printed + [data[kind] for data in displayed for kind in ("text/plain", "text/html") if kind in data]


def _images(cells: list[Any]) -> list[str]:
    displayed = [output.get("data", {}) for cell in cells for output in cell.outputs]
    return [data["image/png"] for data in displayed if "image/png" in data]


def test_every_output_is_the_stored_one(stored: list[Any], ran: list[Any]) -> None:
    assert len(stored) == len(ran) > 8
    compared = 0
    for kept, found in zip(stored, ran, strict=True):
        assert kept.execution_count == found.execution_count
        for expected, printed in zip(_texts(kept), _texts(found), strict=True):
            assert_shown(expected, printed)
            compared += 1
    assert compared >= 14


def test_sets_scores_and_results_have_rich_displays(stored: list[Any]) -> None:
    shown = [text for cell in stored for text in _texts(cell)]
    for part in ("made by lexical", "self-BLEU", "parBLEU k=10", "<caption>Kendall"):
        assert any(part in text for text in shown), part


def test_the_plot_is_drawn(stored: list[Any], ran: list[Any]) -> None:
    for cells in (stored, ran):
        (image,) = _images(cells)
        assert len(image) > 5000


def test_nothing_fails_or_is_warned_of(stored: list[Any], ran: list[Any]) -> None:
    outputs = [output for cell in (*stored, *ran) for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
