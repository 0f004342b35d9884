"""No option is ignored in silence: it changes what a command writes, or the command refuses it.

Each option that a command declares is tried beside calls of that command, one at a time. A new option needs a value in
``VALUES``, where its type does not give one, and a call in which it can have an effect.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from chat_server import ChatServer
from fuzzed_sets import xml_release
from wmt_items import rows_of, write_items

from polyref.cli.main import cli, main

MINIMAL = Path(__file__).resolve().parent.parent / "eval" / "minimal"
ADDED = "set/paraphrases/de-en.refA.jsonl"
SPEED = "how fast, and where: no result depends on it"
ALLOWS = "lets pass what is refused otherwise, and here nothing is"
BATCH = "the command that writes a batch is the one that reads it, then with effect"

#: Option, or ``CALL OPTION`` -> why it may be without effect. What has a reason of its own is not tried.
SILENT = {
    **dict.fromkeys(("threads", "jobs", "engine", "memory", "cache", "concurrency", "esim_batch"), SPEED),
    **dict.fromkeys(("timeout", "retries", "retry_failed"), "counts where a server does not answer"),
    **dict.fromkeys(("force", "allow_missing", "plain_http", "gemba_plain_http"), ALLOWS),
    **dict.fromkeys(("augment batch preset", "augment batch select", "augment batch dropped"), BATCH),
    **dict.fromkeys(
        ("evaluate peers exclude", "evaluate peers top", "evaluate peers exclude_outliers"),
        "leaves fewer systems than peers need",
    ),
    **dict.fromkeys(("score alone target_lang", "score alone effective_order"), "prints scores, which stay the same"),
    "augment batch price": BATCH,
    "score lists language": "stands in the set, of which scores show texts alone",
    "quiet": "leaves out what has to be said, which tests/cli/test_quiet.py has",
    "show": "opens a browser",
}
#: Option, or ``COMMAND OPTION``, or ``CALL OPTION`` -> a value that is not the default.
VALUES = {
    **dict.fromkeys(("k", "ks", "examples", "sample", "context"), "1"),
    **dict.fromkeys(("width", "confidence_n", "paired_ar_n", "paired_bs_n", "seed", "resamples", "perm_both"), "7"),
    **dict.fromkeys(
        ("alpha", "power", "blend", "smooth_value", "laser_lm_weight", "confidence", "peer_dropout"), "0.3"
    ),
    **dict.fromkeys(("lenpen", "temperature", "sampling_topp", "prism_a", "peer_subwords", "strength"), "0.3"),
    **dict.fromkeys(("peer_low", "peer_high", "sampling_epsilon"), "0.1"),
    **dict.fromkeys(("num_refs", "gamma", "bleu_max_ngram_order", "top", "placebo", "esim_batch", "closeness"), "2"),
    **dict.fromkeys(("bertscore_layer", "laser_lm_layer", "peer_samples", "no_repeat_ngram", "prism_b"), "2"),
    **dict.fromkeys(
        ("chrf_char_order", "chrf_beta", "unkpen", "min_len", "nbest", "groups", "sampling_topk", "peer_nbest"), "3"
    ),
    **dict.fromkeys(("chrf_word_order", "min_len_a", "max_len_a", "gpus"), "1"),
    **dict.fromkeys(("beam", "max_len_b"), "6"),
    **dict.fromkeys(("metrics", "metric", "evaluate metrics"), "ter"),
    **dict.fromkeys(("form", "input_form", "to"), "tsv"),
    **dict.fromkeys(("bertscore_model", "laser_lm_model", "esim_encoder"), "bert"),
    **dict.fromkeys(("prism_model", "bartscore_model", "peer_model"), "bart"),
    **dict.fromkeys(("metricx_model", "metricx_tokenizer", "comet_model", "comet_encoder"), "mt5"),
    **dict.fromkeys(("gemba_base_url", "gemba_answers", "gemba_template", "gemba_model", "gemba_body"), "x"),
    **dict.fromkeys(("gemba_max_tokens", "gemba_concurrency", "gemba_retries"), "2"),
    **dict.fromkeys(("gemba_timeout", "gemba_price_in", "gemba_price_out"), "2.5"),
    "address": "auto",
    "answers": "out/kept",
    "augment peers": "peer.en",
    "base_url": "http://localhost:9/v1",
    "bartscore_prompt": "the",
    "baseline": "bleu",
    "batch": "write out/requests.jsonl",
    "bertscore_measure": "recall",
    "bertscore_rescale": "baseline.tsv",
    "body": '{"top_p":0.9}',
    "candidates": "candidates.en",
    "collection": "d",
    "da": "nowhere",
    "darr": "set/darr/de-en.tsv",
    "device": "meta",
    "dropped": "out/refused",
    "encoding": "utf-16",
    "esim_model": "esim",
    "evaluate darr sys_gold": "mqm",
    "exclude": "Alpha",
    "references": "set.jsonl",
    "fields": "x=reference",
    "gold": "darr",
    "inputs": "c.en",
    "inspect dropped": "dropped.jsonl",
    "judgements": "darr=set/darr/de-en.tsv",
    "lang": "de",
    "language": "de",
    "laser_lm_lm": "gpt",
    "max_tokens": "9",
    "model": "lexical:other.tsv",
    "mqm": "nowhere",
    "mqm_weights": "minor=2",
    "name": "y",
    "output": "out/elsewhere",
    "pair": "de-fr",
    "pairs": "de-fr",
    "peer_seed": "7",
    "peers": "leave-one-out",
    "prefix": "the",
    "preset": "none",
    "augment peers preset": "strict",
    "price": "1 1",
    "prompt": "diverse",
    "reference": "refZ",
    "ref": "refB",
    "score bartscore bartscore_direction": "recall",
    "score forms input_form": "json",
    "scores": "nowhere",
    "segments": "3",
    "segments_out": "out/segments",
    "select": "mmr",
    "sentences": "all",
    "smooth_method": "floor",
    "source": "sources",
    "source_lang": "de",
    "statistics": "spearman",
    "sys_gold": "wmt-z",
    "evaluate systems": "set",
    "target_lang": "zh",
    "test_set": "nowhere",
    "testset": "u",
    "tokenize": "char",
    "convert refs to": "json",
    "without_reference": "prism-src",
    "year": "2022",
    "combine": "mean",
    "score prism combine": "max",
    **dict.fromkeys(("score bartscore combine", "score esim combine"), "max"),
}
_SCORE = "score a.ref b.ref -i a.en b.en"
_MEASURED = "evaluate set -l de-en --ref refA -n 5 -m"
_SUBMITTED = "submit set -l de-en --ref refA --name x --testset t -o out/sub -m bleu --year"
_BART = "paraphrase a.ref --model bart --lang en -k 2 --jobs 1 --json"
#: Name of a call, which begins with the command -> the call.
CALLS = {
    "score": _SCORE,
    "score ter": "score a.ref -i a.en -m ter",
    "score chrf": "score a.ref -i a.en -m chrf",
    "score json": f"{_SCORE} --json",
    "score latex": f"{_SCORE} -f latex",
    "score alone": f"{_SCORE} -b",
    "score sentence": "score a.ref b.ref -i a.en b.en c.en -sl --combine mean",
    "score set": "score set.jsonl -i a.en b.en -m bleu chrf ter",
    "score forms": "score set.jsonl -i sys.tsv",
    "score ci": f"{_SCORE} -ci -cin 20",
    "score par": f"{_SCORE} -par -parn 20 -m chrf",
    "score pbs": f"{_SCORE} -pbs -pbsn 20",
    "score expected": "score set.jsonl -i a.en -m bleu --combine expected",
    "score blend": "score set.jsonl -i a.en -m bleu --combine blend",
    "score file": "score a.ref -i a.en -o out/scores",
    "score made": "score a.ref -i a.en -m parbleu --model lexical:table.tsv -q",
    "score lists": "score a.ref -i a.en -m parbleu --candidates candidates.en -q",
    "score peers": "score a.ref b.ref -i a.en b.en c.en -sl --combine mean --peers leave-one-out",
    "score bertscore": f"{_SCORE} -m bertscore --bertscore-model bert --bertscore-layer 1 --no-cache --jobs 1",
    "score prism": f"{_SCORE} -m prism --prism-model bart --no-cache --jobs 1",
    "score bartscore": f"{_SCORE} -m bartscore --bartscore-model bart --no-cache --jobs 1",
    "score peer": f"{_SCORE} -m peer --peer-model m2m --no-cache --jobs 1 --source sources --source-lang de "
    "--target-lang en",
    "score esim": f"{_SCORE} -m esim --esim-model esim --no-cache",
    "score laser": f"{_SCORE} -m laser-lm --laser-lm-model bert --laser-lm-lm gpt --no-cache --jobs 1",
    "evaluate": f"{_MEASURED} bleu chrf --gold mqm",
    "evaluate refs": f"{_MEASURED} bleu --gold mqm --refs {ADDED}",
    "evaluate json": f"{_MEASURED} bleu --gold mqm --json",
    "evaluate 0": "evaluate set -l de-en --ref refA --gold mqm -m bleu -n 0",
    "evaluate darr": f"{_MEASURED} bleu --gold darr",
    "evaluate stored": f"{_MEASURED} length --gold mqm",
    "evaluate peers": f"{_MEASURED} bleu --gold mqm --peers leave-one-out --combine mean",
    "evaluate xml": "evaluate release -l de-en --ref refA --gold mqm -n 5 -m bleu --test-suites",
    "submit": f"{_SUBMITTED} 2023",
    "submit refs": f"{_SUBMITTED} 2023 --refs {ADDED}",
    "submit 2025": f"{_SUBMITTED} 2025",
    "submit 2026": "submit items.jsonl --name x -o out/sub -m bleu --year 2026",
    "inspect": "inspect large.jsonl",
    "inspect json": "inspect large.jsonl --json",
    "inspect page": "inspect set.jsonl -o -",
    "inspect plain": "inspect large.en",
    "info": "info lexical:table.tsv",
    "cache info": "cache info",
    "convert refs": "convert refs set.jsonl out/set.tsv",
    "convert refs plain": "convert refs a.ref b.ref out/set.jsonl",
    "demo": "demo --model lexical -o out/demo",
    "paraphrase lexical": "paraphrase a.ref --model lexical:table.tsv",
    "paraphrase bart": _BART,
    "paraphrase lenpen": f"{_BART} --lenpen 0.7",
    "paraphrase draw": f"{_BART} --sampling",
    "paraphrase hf": f"{_BART} --semantics hf",
    "paraphrase fairseq": f"{_BART} --semantics fairseq",
    "paraphrase server": "paraphrase a.ref --model openai:x --base-url URL -k 2 -o out/made",
    "augment lexical": "augment a.ref --model lexical:table.tsv -o out/made",
    "augment bart": "augment a.ref --model bart --jobs 1 -k 2 -o out/made --filter none",
    "augment several": "augment a.ref --model lexical:table.tsv bart --jobs 1 -k 2 -o out/made --filter none",
    "augment candidates": "augment a.ref --candidates candidates.en -o out/made",
    "augment measured": "augment a.ref --candidates candidates.en -o out/made --filter measure.toml",
    "augment peers": "augment a.ref --peers peer.en candidates.en -o out/made",
    "augment server": "augment a.ref --model openai:x --base-url URL -k 2 -o out/made",
    "augment batch": "augment a.ref --model openai:x --batch write out/requests.jsonl -k 2",
}
TEXTS = {
    "a.ref": """The big dog barks at 3 cats, says the old man.
She wants to buy a big house in the city. It is not a cheap house.
Nobody has seen the new children at school this week.
""",
    "b.ref": """The old man says that the large dog barks at 3 cats.
She would like to buy a large house in the city. It costs a lot.
No one saw the new children at school this week.
""",
    "a.en": """The old Man says the big dog barked at three cats.
She wants to buy a large house in the city - it isn't cheap.
Nobody saw new children at the school.
""",
    "b.en": "big dogs bark .\nShe bought the big old house, which was cheap!\nThis week no child was seen.\n",
    "c.en": "one dog\nshe has a House\nSchool was out.\n",
    "peer.en": """The old man says the huge dog is barking at 3 cats.
She wants to buy a huge house in the city. It is expensive.
Nobody has met the new children at school this week.
""",
    "candidates.en": """The large dog barks at 3 cats, says the old man.
She wants to buy a huge house in the city. It is not a cheap house.
Nobody has seen the new kids at school this week.
""",
    "sources": "der Hund\ndas Haus\ndie Kinder\n",
    "table.tsv": "big\tlarge\t0.5\nbig\thuge\t0.3\nhouse\tbuilding\t0.2\nchildren\tkids\t0.4\n",
    "other.tsv": "big\tvast\t0.5\n",
    "measure.toml": '[embedding]\nmodel = "bert"\nmin = -0.9\n',
    "dropped.jsonl": '{"id": "1", "text": "x", "reason": "copy"}\n',
    "baseline.tsv": "LAYER,P,R,F\n0,0.1,0.1,0.1\n1,0.2,0.2,0.2\n2,0.3,0.3,0.3\n3,0.3,0.3,0.3\n",
    "large.en": "".join(f"Line {n} of the text says something about the number {n * n}.\n" for n in range(12)),
}


def _commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield before + name, command


COMMANDS = dict(_commands(cli))


def _options(command: str) -> list[click.Option]:
    return [one for one in COMMANDS[command].params if isinstance(one, click.Option)]


def _command(call: str) -> str:
    return next(name for name in COMMANDS if f"{CALLS[call]} ".startswith(f"{name} "))


def _spellings(call: str, option: click.Option) -> list[list[str]]:
    """How the option is given: with one value, or in each of its two ways."""
    if option.is_flag or option.count:
        return [[flag] for flag in (max(option.opts, key=len), *option.secondary_opts)]
    for key in (f"{call} {option.name}", f"{_command(call)} {option.name}", option.name):
        if key in VALUES:
            return [[max(option.opts, key=len), *VALUES[key].split()]]
    assert isinstance(option.type, click.Choice), f"VALUES has nothing for {option.opts[0]} of {_command(call)}"
    default = option.default if isinstance(option.default, tuple) else (option.default,)
    return [[max(option.opts, key=len), next(one for one in reversed(option.type.choices) if one not in default)]]


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the calls read: texts, sets, small models."""
    folder = tmp_path_factory.mktemp("ignored")
    pairs = zip(TEXTS["a.ref"].splitlines(), TEXTS["peer.en"].splitlines(), strict=True)
    small = [{"reference": one, "paraphrases": [other, f"{other} Now."]} for one, other in pairs]
    large = [{"reference": one, "paraphrases": [f"{one} Now."]} for one in TEXTS["large.en"].splitlines()]
    table = "".join(f"{line}\n" for line in ["output", *TEXTS["a.en"].splitlines()])
    for name, text in {**TEXTS, "set.jsonl": _lines(small), "large.jsonl": _lines(large), "sys.tsv": table}.items():
        (folder / name).write_text(text, "utf-8")
    texts = [TEXTS[name].splitlines() for name in ("sources", "a.ref", "a.en", "b.en")]
    write_items(folder / "items.jsonl", rows_of("de-en", texts[0], dict(zip("ab", texts[2:], strict=True)), texts[1]))
    shutil.copytree(MINIMAL, folder / "set")
    shutil.copytree(MINIMAL / "human-scores", folder / "release" / "human-scores")
    (folder / "release" / "set.de-en.xml").write_text(xml_release(MINIMAL), "utf-8")
    return folder


@pytest.fixture(scope="module")
def models(made: Path) -> Path:
    """Small models beside them."""
    from esim_fixtures import write_model
    from tiny_encoders import bert, gpt
    from tiny_seq2seq import write_bart, write_m2m

    bert(made / "bert")
    gpt(made / "gpt")
    write_bart(made / "bart")
    write_m2m(made / "m2m")
    write_model(made / "esim", made / "encoder")
    return made


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ChatServer().running() as url:
        yield url


#: The exit code, what is printed on both streams, and the files.
Left = tuple[int, str, str, Mapping[str, bytes]]


def _left(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Left:
    """What a command leaves behind; its files are in ``out``."""
    shutil.rmtree("out", ignore_errors=True)
    Path("out").mkdir()
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with monkeypatch.context() as patch, warnings.catch_warnings(), pytest.raises(SystemExit) as stop:
        warnings.simplefilter("always")  # not once a place
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        main(words)
    files = {str(path): path.read_bytes() for path in sorted(Path("out").rglob("*")) if path.is_file()}
    return int(stop.value.code or 0), out.buffer.getvalue().decode(), err.getvalue(), files


def _is_slow(call: str) -> bool:
    """Whether it needs a model or a server."""
    return not {"bart", "m2m", "bert", "esim", "measure.toml", "openai:x", "demo"}.isdisjoint(CALLS[call].split())


@pytest.mark.parametrize("call", [call for call in CALLS if not _is_slow(call)])
def test_no_option_is_ignored(call: str, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _check(call, made, "", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("call", [call for call in CALLS if _is_slow(call)])
def test_no_option_of_networks_is_ignored(
    call: str, models: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _check(call, models, server, monkeypatch)


def _check(call: str, folder: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Try every option beside a call."""
    monkeypatch.chdir(folder)
    words = CALLS[call].replace("URL", server).split()
    plain = _left(words, monkeypatch)
    assert plain[0] == 0, plain[2]
    ignored, unnamed = [], []
    for option in _options(_command(call)):
        if {*option.opts, *option.secondary_opts} & {*words} or {option.name, f"{call} {option.name}"} & SILENT.keys():
            continue
        ways = _spellings(call, option)
        found = [_left([*words, *way], monkeypatch) for way in ways]
        if all(one == plain for one in found):
            ignored.append(max(option.opts, key=len))
        said = [one[2] for one in found if one[0] == 2]
        named = {*option.opts, *ways[0]}
        unnamed += [one for one in said if not any(word in one for word in named)]
    assert ignored == []
    assert unnamed == []


def test_lists_hold_nothing_that_is_not_there() -> None:
    known = {option.name for command in COMMANDS for option in _options(command)}
    keys = {*VALUES, *SILENT}
    there = {*known, *(f"{command} {option.name}" for command in COMMANDS for option in _options(command))}
    there |= {f"{call} {option.name}" for call in CALLS for option in _options(_command(call))}
    assert keys <= there
    # Every command that has options is called.
    assert {_command(call) for call in CALLS} == {command for command in COMMANDS if _options(command)}


@pytest.mark.slow
def test_threads_reach_the_network_of_a_filter(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.chdir(models)
    call = "augment a.ref --candidates candidates.en --threads"
    before = torch.get_num_threads()
    try:
        assert _left(f"{call} {before + 1} --filter measure.toml".split(), monkeypatch)[0] == 0
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    code, _, said, _ = _left(f"{call} 2 --filter default".split(), monkeypatch)
    assert code == 2 and "--threads has no use: --candidates loads no generator, and the filter has no network" in said


@pytest.mark.slow
def test_a_generator_is_given_what_it_has_a_use_for(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models)
    call = "augment a.ref -k 2 -o out/made --filter none --jobs 1 --lang en"
    for option in ("--dtype bfloat16", "--memory 100", "--threads 1"):
        assert _left(f"{call} --model lexical:table.tsv bart {option}".split(), monkeypatch)[0] == 0
        code, _, said, _ = _left(f"{call} --model lexical:table.tsv {option}".split(), monkeypatch)
        assert code == 2 and f"{option.split()[0]} is " in said
        assert "but the generator lexical takes no such option" in said
