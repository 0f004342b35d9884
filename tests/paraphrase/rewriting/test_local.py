"""Chat models of this machine: a tiny one with random weights, asked as any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_chat import ENDS, POSITIONS, TEMPLATE, chat_model

from polyref import load_paraphraser
from polyref.errors import ModelError, UsageError
from polyref.paraphrase.rewriting import RewritingOptions
from polyref.paraphrase.rewriting.local import LocalChat
from polyref.paraphrase.rewriting.rewriter import Rewriter

TEXTS = ["The committee will meet again.", "Prices rose fast last year.", "Nobody has seen the ferry."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_model(tmp_path_factory.mktemp("chat") / "tiny")


def _body(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 12, "temperature": 0.0, **more}


def test_greedy_is_what_transformers_gives(folder: Path) -> None:
    chat = LocalChat(folder, "cpu", "float32")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    for text in TEXTS:
        prompt = tokenizer(f"<|user|>{text}<|end0|><|assistant|>", return_tensors="pt", add_special_tokens=False)
        config = transformers.GenerationConfig(max_new_tokens=12, do_sample=False, repetition_penalty=1.0)
        expected = model.generate(**prompt, generation_config=config)[0, prompt["input_ids"].shape[1] :]
        answer = chat.answer(_body(text))
        assert answer.content == tokenizer.decode(expected, skip_special_tokens=True).strip()
        assert answer.prompt_tokens == prompt["input_ids"].shape[1] and answer.completion_tokens == len(expected)
        assert answer.finish == ("stop" if expected[-1] < len(ENDS) else "length")


def test_samples_depend_on_the_request_alone(folder: Path) -> None:
    chat = LocalChat(folder, "cpu", "float32")
    bodies = [_body(text, temperature=1.0, seed=seed) for text in TEXTS for seed in (0, 1)]
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = [chat.answer(body).content for body in bodies]
    assert torch.equal(torch.get_rng_state(), state)
    assert len(set(first)) > len(TEXTS)
    torch.manual_seed(99)
    assert [chat.answer(body).content for body in reversed(bodies)] == first[::-1]
    assert chat.answer(_body(TEXTS[0], temperature=1.0, seed=0, top_k=1)) == chat.answer(_body(TEXTS[0]))


def test_answers_in_other_numbers_are_other_answers(folder: Path, tmp_path: Path) -> None:
    """One file of answers serves two types: neither reads what the other wrote."""
    made = []
    for dtype in ("float32", "bfloat16"):
        options = RewritingOptions(answers=tmp_path / "answers.jsonl", max_tokens=4)
        paraphraser = load_paraphraser(f"chat:{folder}", dtype=dtype, rewriting=options)
        assert isinstance(paraphraser, Rewriter)
        paraphraser(TEXTS[0], k=1)
        made.append((paraphraser.answers.usage.requests, paraphraser.signature))
        paraphraser.close()
    assert made[0][0] == made[1][0] > 0 and made[0][1] != made[1][1]


@pytest.mark.parametrize("body", [{"seed": None}, {"seed": 5}, {"temperature": None}, {"temperature": 0}])
def test_samples_that_would_all_be_the_same_are_refused(folder: Path, body: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="all samples would be the same"):
        load_paraphraser(f"chat:{folder}", rewriting=RewritingOptions(form="samples", body=body))
    load_paraphraser(f"chat:{folder}", rewriting=RewritingOptions(body=body))


@pytest.mark.slow
def test_a_prompt_longer_than_the_model_fails_alone(folder: Path) -> None:
    paraphraser = load_paraphraser(f"chat:{folder}", rewriting=RewritingOptions(max_tokens=4))
    long, short = paraphraser(["word " * POSITIONS, TEXTS[0]], k=1)
    assert long.failure == "longer than the model reads"
    assert short.failure != long.failure  # the tiny model says anything


@pytest.mark.slow
def test_it_is_a_generator_like_any_other(
    folder: Path, tmp_path: Path, polyref: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("refs").write_text("".join(f"{text}\n" for text in TEXTS))
    command = ["augment", "refs", "--lang=en", "-k2", "--model", f"chat:{folder}"]
    command += ["--answer-form", "samples", "--max-tokens", 30]
    result = polyref(*command, "-o", "out", "--temperature", 0.9, "--seed", 3, "--filter", "none", "--json")
    assert result.code == 0, result.err
    assert polyref(*command, "-o", "again", "--temperature", 0.9, "--seed", 3, "--filter", "none").code == 0
    assert Path("out").read_bytes() == Path("again").read_bytes()
    signature = result.json()["signature"]
    assert (
        signature.startswith("chat:tiny@")
        and "|temperature:0.9|seed:3|max_tokens:30|lang:en|rewriting(faithful-1,samples)" in signature
    )
    row = result.json()["rows"][0]
    assert row["references"] == 3 and row["kept"] > 0
    assert row["requests"]["requests"] >= 12
    known = polyref(*command, "-o", "out", "--temperature", 0.9, "--seed", 3, "--filter", "none", "--json")
    assert known.json()["rows"][0]["requests"]["requests"] == 0


def test_what_is_no_chat_model_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no folder with a Hugging Face model"):
        load_paraphraser(f"chat:{tmp_path}")
    with pytest.raises(ModelError, match="its tokeniser has no chat template"):
        load_paraphraser(f"chat:{chat_model(tmp_path / 'bare', None)}")
    broken = TEMPLATE + "{{ raise_exception('no system messages, please') }}"
    paraphraser = load_paraphraser(f"chat:{chat_model(tmp_path / 'strict', broken)}")
    assert paraphraser(TEXTS[0], k=1).failure == "refused by the chat template"
    for options, message in (
        ({"base_url": "http://localhost:8000/v1"}, "`base_url` is given, but the model of chat:DIR runs here"),
        ({"body": {"logit_bias": {}}}, "`body` names 'logit_bias', which a model of this machine does not take"),
    ):
        with pytest.raises(UsageError, match=message):
            load_paraphraser(f"chat:{folder}", rewriting=RewritingOptions(**options))
    with pytest.raises(UsageError, match="`prefix` is '<en>', but the generator chat takes no such option"):
        load_paraphraser(f"chat:{folder}", prefix="<en>")
