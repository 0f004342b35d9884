"""The page about language models says what is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

from built_package import blocks

from polyref.chat.asking import _GONE, _MOST_PATIENCE
from polyref.chat.requests import parse_body
from polyref.paraphrase.rewriting import RewritingOptions
from polyref.paraphrase.rewriting.requests import load_prompt

PAGE = (
    Path(__file__)
    .resolve()
    .parents[3]
    .joinpath("docs", "how-to", "rewrite-with-a-language-model.md")
    .read_text("utf-8")
)


def test_its_files_can_be_used(tmp_path: Path) -> None:
    (mine,) = blocks(PAGE, "toml")
    (tmp_path / "mine.toml").write_text(mine)
    assert load_prompt(str(tmp_path / "mine.toml")).name == "mine-1"


def test_its_parts_of_requests_are_taken() -> None:
    bodies = re.findall(r"--body '([^']*)'", PAGE)
    assert len(bodies) == 2
    for body in bodies:
        assert RewritingOptions(body=parse_body(body)).body == json.loads(body)


def test_its_numbers_are_those_of_the_program() -> None:
    options = RewritingOptions()
    for words in (
        f"`--timeout` seconds ({options.timeout:g})",
        f"`--retries` ({options.retries})",
        f"`--concurrency` ({options.concurrency})",
        f"`--seed` ({options.seed} by default)",
        f"answered {_GONE} requests in a row",
        f"more than {_MOST_PATIENCE / 60:g} minutes",
        f"temperature {load_prompt('faithful').temperature:g}",
        f"temperature {load_prompt('diverse').temperature:g}",
    ):
        assert words in " ".join(PAGE.split()).replace("`--temperature` and ", ""), words
    assert load_prompt("faithful").digest in PAGE
