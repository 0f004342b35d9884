"""The notebook of the documentation runs from top to bottom, and shows what it promises."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parent.parent / "docs/notebook.ipynb"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def nbformat() -> Any:
    return pytest.importorskip("nbformat", reason="needs nbformat, nbclient and ipykernel")


@pytest.fixture(scope="module")
def ran(nbformat: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The code cells after a run in a folder of their own."""
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="needs ipykernel")
    pytest.importorskip("matplotlib", reason="the notebook draws a plot")
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        # The kernel is of this environment, whatever is installed for the user.
        for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "TMPDIR"):
            (folder / name).mkdir()
            patch.setenv(name, str(folder / name))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(NOTEBOOK.parent.parent), os.environ.get("PYTHONPATH", "")]))
        client = nbclient.NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
        )
        client.execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _outputs(cells: list[Any], kind: str) -> list[str]:
    return [output.data[kind] for cell in cells for output in cell.outputs if kind in output.get("data", {})]


def test_it_is_kept_without_outputs(nbformat: Any) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) > 8
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


def test_sets_scores_and_results_have_rich_displays(ran: list[Any]) -> None:
    shown = _outputs(ran, "text/html")
    assert len(shown) >= 5
    for part in ("made by polyref-en", "self-BLEU", "parBLEU k=10", "<caption>Kendall"):
        assert any(part in html for html in shown), part
    assert not [output for cell in ran for output in cell.outputs if output.output_type == "error"]


def test_the_plot_is_drawn(ran: list[Any]) -> None:
    (image,) = _outputs(ran, "image/png")
    assert len(image) > 5000


def test_nothing_is_warned_of(ran: list[Any]) -> None:
    said = [output.text for cell in ran for output in cell.outputs if output.get("name") == "stderr"]
    assert not [text for text in said if "Warning" in text]
