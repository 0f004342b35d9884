"""What the documentation takes from the package when it is built (mkdocs.yml names this file).

``<!-- commands -->`` becomes the help of every command, ``<!-- public names -->`` the documentation of every name that
``polyref`` exports, with a table of the options that a function declares, and ``<!-- include: PATH -->`` the Markdown
file of that path in the repository. Notebooks become pages with the outputs that they hold.
"""

from __future__ import annotations

import html
import inspect
import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File

import polyref
from polyref.cli.main import cli
from polyref.options import declared

ROOT = Path(__file__).resolve().parent.parent.parent
WIDTH = 110


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each notebook, beside the notebook itself."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            cells = json.loads(file.content_string)["cells"]
            page = file.src_uri.removesuffix(".ipynb") + ".md"
            files.append(File.generated(config, page, content="\n\n".join(map(_cell, cells))))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in the generated parts of a page."""
    markdown = re.sub(r"(\]\((?!\w+:)[^)\s]+)\.ipynb\)", r"\1.md)", markdown)
    if "<!-- commands -->" in markdown:
        context = click.Context(cli, info_name="polyref", max_content_width=WIDTH, terminal_width=WIDTH)
        markdown = markdown.replace("<!-- commands -->", "\n\n".join(_command(cli, context)))
    if "<!-- public names -->" in markdown:
        names = (f"::: polyref.{name}{_options(name)}" for name in polyref.__all__ if name != "__version__")
        markdown = markdown.replace("<!-- public names -->", "\n\n".join(names))
    return re.sub(r"<!-- include: (\S+) -->", lambda found: _included(found[1], page.file.src_uri), markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Show names in docstrings without their Sphinx roles."""
    return re.sub(r":(?:attr|class|data|func|meth|mod):(<code>)~?", r"\1", content)


def _cell(cell: Any) -> str:
    """A cell of a notebook as Markdown, with its outputs."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *map(_output, cell["outputs"])])


def _output(output: Any) -> str:
    """An image, else HTML, else text."""
    shown = {kind: "".join(value) for kind, value in output.get("data", {"text/plain": output.get("text", "")}).items()}
    if "image/png" in shown:
        return f"![{html.escape(shown['text/plain'])}](data:image/png;base64,{shown['image/png'].strip()})"
    if "text/html" in shown:
        # Markdown's HTML ends at a blank line.
        return f'<div class="output">{re.sub(chr(10) + "+", chr(10), shown["text/html"])}</div>'
    return f"```text\n{shown['text/plain']}\n```"


class _Tables(click.HelpFormatter):
    """Writes every section of a command's help as a table."""

    def write_heading(self, heading: str) -> None:
        self.write(f"| {heading} | |\n|---|---|\n")

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 0, col_spacing: int = 0) -> None:
        for name, text in rows:
            cells = (name, text.replace("<", "&lt;"))
            self.write("| `{}` | {} |\n".format(*(cell.replace("|", r"\|") for cell in cells)))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    """Heading, help, usage and options of a command, then of its subcommands."""
    yield f"## {context.command_path}"
    # click marks paragraphs that are not to be filled with a line of \b: examples.
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        literal = paragraph.startswith("\b\n")
        yield f"```sh\n{paragraph[2:]}\n```" if literal else paragraph
    yield f"```text\n{command.get_usage(context)}\n```"
    tables = _Tables()
    command.format_options(context, tables)
    command.format_epilog(context, tables)
    yield tables.getvalue()
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if child := command.get_command(context, name):
                yield from _command(child, click.Context(child, parent=context, info_name=name))


def _options(name: str) -> str:
    """A table of the options that a public function declares; empty where it declares none."""
    kind = getattr(getattr(polyref, name), "__options__", None)
    if kind is None:
        return ""
    rows = [f"\n\n### Options of {name}\n\n| keyword | what it is |", "|---|---|"]
    for one in declared(kind).values():
        what = [one.range, "" if one.default in (None, ()) or callable(one.default) else f"default: `{one.default}`"]
        more = "; ".join(filter(None, [*what, one.otherwise and f"default: {one.otherwise}"]))
        help_text = one.help.rstrip(":") if one.names is None else f"{one.help} {', '.join(one.names())}."
        rows.append(f"| `{one.name}` | {help_text}{f' ({more})' if more else ''} |")
    return "\n".join(rows)


def _included(path: str, page: str) -> str:
    """The file, one heading level down, with its links made relative to the page."""
    text = re.sub(r"^#", "##", (ROOT / path).read_text("utf-8"), flags=re.MULTILINE)

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[1]))
        return f"]({posixpath.relpath(target, posixpath.dirname(posixpath.join('docs', page)))})"

    return re.sub(r"\]\((?!\w+:|#)([^)\s]+)\)", link, text)
