"""The documentation names files, links and imports that exist, and its site builds."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _imports() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            for node in ast.walk(ast.parse(block)):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                # The how-to pages about plug-ins import what they have just built.
                if any(module.partition(".")[0] == "polyref" for module in modules):
                    yield _name(page), ast.unparse(node)


@pytest.mark.parametrize(("page", "statement"), sorted(set(_imports())))
def test_imports_in_examples_work(page: str, statement: str) -> None:
    exec(statement, {})


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_pages_and_scripts_that_are_named_exist() -> None:
    """In messages and comments of the package, in scripts, and in the documentation itself."""
    files = [path for folder in ("polyref", "scripts", "docs") for path in (ROOT / folder).rglob("*")]
    files = [path for path in files if path.suffix in (".py", ".md", ".json", ".toml")]
    named = {
        (_name(path), found)
        for path in [*files, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
        for found in re.findall(r"\b(?:docs|scripts)/[\w/-]+\.(?:md|py)\b", path.read_text("utf-8"))
    }
    assert len(named) > 10
    assert [pair for pair in sorted(named) if not (ROOT / pair[1]).is_file()] == []


def test_the_page_about_the_house_names_every_room_and_no_other() -> None:
    plan = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w/]+)` \| .* \| `(\w+\.py)` \|$", plan, re.MULTILINE)
    package = ROOT / "polyref"
    assert {room for room, _ in rows} == {
        str(folder.relative_to(package)) for folder in package.rglob("*") if any(folder.glob("[a-z]*.py"))
    }
    assert [room for room, begin in rows if not (package / room / begin).is_file()] == []
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", plan)) - {begin for _, begin in rows}
    assert [name for name in named if not any((root / name).is_file() for root in (package, ROOT))] == []


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    names = (tmp_path / "site" / "reference" / "api.html").read_text("utf-8")
    assert "ReferenceSet.from_texts" in names
    pages = [path.read_text("utf-8") for path in (tmp_path / "site").rglob("*.html")]
    assert not [found for page in pages for found in re.findall(r'<(?:script|link|img)[^>]*"https?://[^"]*"', page)]
