"""Every encoder-decoder of Transformers, as its users save it: lists equal ``generate``, long texts are cut."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_families import FAMILIES, NAMES, POSITIONS, SPEECH, write_family
from tiny_seq2seq import TEXT, token_logprobs

from polyref.cli.generating import decoding_from
from polyref.errors import ModelError, UsageError
from polyref.models.scorers import load_scorer
from polyref.paraphrase import SearchOptions, SearchParaphraser, load_paraphraser

pytestmark = pytest.mark.usefixtures("quiet_transformers")

TEXTS = [TEXT[0], "mill", " ".join(TEXT[1:4])]
BEAM = 4
#: Saved settings: several at once, so that their order counts too.
SETTINGS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "lengths": lambda pad, eos: {
        "max_length": 14,
        "min_length": 4,
        "length_penalty": 0.6,
        "early_stopping": True,
        "no_repeat_ngram_size": 3,
        "bad_words_ids": [[pad], [9], [5, 6]],
    },
    "repetitions": lambda pad, eos: {
        "max_new_tokens": 11,
        "min_new_tokens": 3,
        "repetition_penalty": 1.3,
        "encoder_no_repeat_ngram_size": 2,
        "suppress_tokens": [8, 14],
        "begin_suppress_tokens": [11],
    },
    "forced": lambda pad, eos: {
        "max_length": 13,
        "forced_bos_token_id": 7,
        "forced_eos_token_id": eos,
        "exponential_decay_length_penalty": [4, 1.2],
        "encoder_repetition_penalty": 1.2,
        "begin_suppress_tokens": [11],
        "renormalize_logits": True,
        "early_stopping": "never",
    },
    "ends": lambda pad, eos: {
        "max_length": 12,
        "min_length": 3,
        "eos_token_id": [eos, 12, 20, 31],
        "sequence_bias": [[[6], 2.0], [[7, 8], -3.0]],
        "remove_invalid_values": True,
        "length_penalty": -0.5,
    },
}


def save(name: str, folder: Path, settings: str) -> None:
    model = write_family(name, folder)
    config = model.generation_config
    config.max_new_tokens = None  # SeamlessM4T has a number of its own
    config.update(num_beams=BEAM, **SETTINGS[settings](config.pad_token_id, config.eos_token_id))
    config.save_pretrained(folder)


def loaded(folder: Path) -> SearchParaphraser:
    found = load_paraphraser(folder)
    assert isinstance(found, SearchParaphraser)
    return found


def equal_to_generate(folder: Path) -> None:
    """Also in a batch, where the sentences are of different lengths."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    paraphraser = loaded(folder)
    options = SearchOptions(semantics="hf", beam=BEAM, min_len=0)
    if model.generation_config.min_length or model.generation_config.min_new_tokens:
        options = SearchOptions(semantics="hf", beam=BEAM)
    lists = list(paraphraser.paraphrase(TEXTS, BEAM, decoding=options))
    for text, batched in zip(TEXTS, lists, strict=True):
        (found,) = paraphraser.paraphrase([text], BEAM, decoding=options)
        assert [one.tokens for one in found.hypotheses] == [one.tokens for one in batched.hypotheses]
        ids = torch.tensor([paraphraser.codec.encode(text)])
        with torch.inference_mode():
            expected = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                num_beams=BEAM,
                num_return_sequences=BEAM,
                do_sample=False,
                return_dict_in_generate=True,
                output_scores=True,
            )
        rows = expected.sequences.tolist()
        scores = [hypothesis.score for hypothesis in found.hypotheses]
        assert scores == pytest.approx(expected.sequences_scores.tolist(), abs=3e-5, rel=1e-5)
        for hypothesis, row in zip(found.hypotheses, rows, strict=True):
            assert list(hypothesis.tokens) == row[1 : 1 + len(hypothesis.tokens)]
            # What follows is padding: Transformers takes a padding token of number 0 for none.
            assert set(row[1 + len(hypothesis.tokens) :]) <= {paraphraser.model.pad, paraphraser.model.eos}


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", sorted(set(FAMILIES) & set(NAMES)))
def test_lists_equal_generate_with_the_saved_settings(name: str, settings: str, tmp_path: Path) -> None:
    save(name, tmp_path, settings)
    equal_to_generate(tmp_path)


def test_no_family_is_forgotten() -> None:
    assert set(NAMES) <= set(FAMILIES) | SPEECH  # earlier versions have fewer
    assert not set(FAMILIES) & SPEECH


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SPEECH))
def test_models_of_speech_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(f'{{"model_type": "{name}"}}')
    with pytest.raises(ModelError, match=f"model type is '{name}', no encoder-decoder that Transformers") as caught:
        load_paraphraser(tmp_path)
    assert "\n" not in str(caught.value)


def hf(paraphraser: SearchParaphraser, **options: Any) -> str:
    return paraphraser.describe_decoding(SearchOptions(semantics="hf", beam=BEAM, **options), BEAM)


@pytest.mark.slow
def test_the_signature_shows_what_was_saved_and_changes_something(tmp_path: Path) -> None:
    write_family("t5", tmp_path)
    plain = f"search(beam={BEAM},groups=1,semantics=hf)"
    assert hf(loaded(tmp_path)) == plain
    write_settings(tmp_path, repetition_penalty=1.0, num_beams=9, temperature=0.3, top_k=5, min_length=0, max_length=42)
    assert hf(loaded(tmp_path)) == plain.replace("groups=1", "groups=1,max_len_b=40")
    write_settings(tmp_path, length_penalty=2.0, min_new_tokens=6, eos_token_id=[1, 7], bad_words_ids=[[0]])
    paraphraser = loaded(tmp_path)
    told = "+generation(bad_words_ids=[[0]],eos_token_id=[1,7])"
    assert hf(paraphraser) == plain.replace("groups=1", "groups=1,lenpen=2.0,min_len=6") + told
    # What is asked for goes first, also where it is what would hold anyway.
    assert hf(paraphraser, lenpen=0.5, min_len=2) == plain.replace("groups=1", "groups=1,lenpen=0.5,min_len=2") + told
    assert hf(paraphraser, fixed=("lenpen", "min_len")) == plain + told
    _, decoding = decoding_from(BEAM, {"semantics": "hf", "lenpen": 1.0, "min_len": 1})
    assert paraphraser.describe_decoding(decoding, BEAM) == plain + told
    assert hf(paraphraser, min_len_a=0.5).startswith(plain.replace("groups=1", "groups=1,lenpen=2.0,min_len_a=0.5"))
    # Long values are told by their hash, and other values have other hashes.
    shown = set()
    for last in (30, 31):
        write_settings(tmp_path, suppress_tokens=[*range(10, 29), last])
        shown.add(hf(loaded(tmp_path)))
    assert len(shown) == 2 and all(text.startswith(f"{plain}+generation(suppress_tokens=sha:") for text in shown)
    # Only beam search as Transformers does it follows them.
    for other in (SearchOptions(beam=BEAM), SearchOptions(beam=BEAM, semantics="hf", sampling=True), None):
        assert "generation" not in loaded(tmp_path).describe_decoding(other, BEAM)


def write_settings(folder: Path, **settings: Any) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"pad_token_id": 0, "eos_token_id": 1, **settings}))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"do_sample": True}, UsageError, "have do_sample True, which the search does not have .*generation_config"),
        ({"guidance_scale": 1.5}, UsageError, "guidance_scale 1.5, which the search does not have"),
        ({"stop_strings": ["."]}, UsageError, "stop_strings"),
        ({"bad_words_ids": [3]}, ModelError, "the model's generation settings cannot be used: .*bad_words_ids"),
        ({"length_penalty": "long"}, ModelError, "cannot be used: `lenpen` is 'long', expected a number"),
        ({"early_stopping": "soon"}, ModelError, "must be a boolean or .never., but is soon"),
    ],
)
def test_what_cannot_be_honoured_is_refused_in_one_line(
    settings: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    write_family("t5", tmp_path)
    write_settings(tmp_path, **settings)
    with pytest.raises(error, match=message) as caught:
        loaded(tmp_path).paraphrase(TEXTS, 2, decoding=SearchOptions(semantics="hf", beam=2))
    assert "\n" not in str(caught.value)


def test_a_broken_file_of_settings_is_one_error(tmp_path: Path) -> None:
    write_family("t5", tmp_path)
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(ModelError, match=r"generation_config\.json: no generation settings that Transformers can read"):
        load_paraphraser(tmp_path)


def test_older_folders_keep_the_settings_with_the_model(tmp_path: Path) -> None:
    write_family("bart", tmp_path)
    (tmp_path / "generation_config.json").unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"forced_eos_token_id": 2, "length_penalty": 0.6, "num_beams": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert hf(loaded(tmp_path)).endswith("groups=1,lenpen=0.6,semantics=hf)+generation(forced_eos_token_id=2)")


def test_marian_never_writes_padding(tmp_path: Path) -> None:
    """Its folders forbid it; nothing else does."""
    model = write_family("marian", tmp_path)
    with torch.no_grad():
        model.final_logits_bias[:, model.config.pad_token_id] = 20.0
    options = SearchOptions(semantics="hf", beam=2, max_len_b=5)
    for forbidden in (None, [[model.config.pad_token_id]]):
        model.generation_config.bad_words_ids = forbidden
        model.save_pretrained(tmp_path)
        (found,) = loaded(tmp_path).paraphrase(TEXTS[:1], 2, decoding=options)
        written = {token for one in found.hypotheses for token in one.tokens}
        assert (model.config.pad_token_id in written) == (forbidden is None)


@pytest.mark.parametrize("settings", [{"moe_eval_capacity_token_fraction": 0.5}, {"second_expert_policy": "sampling"}])
def test_experts_that_depend_on_the_batch_or_on_chance_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    write_family("nllb-moe", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | settings))
    ((name, value),) = settings.items()
    with pytest.raises(ModelError, match=f"the model has {name} {value}, expected"):
        load_paraphraser(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FAMILIES) & set(NAMES)))
def test_texts_that_are_too_long_are_cut_and_flagged(name: str, tmp_path: Path) -> None:
    write_family(name, tmp_path)
    paraphraser = loaded(tmp_path)
    longest = paraphraser.max_source
    text = " ".join(["heron"] * (3 * POSITIONS))
    limited = longest < 1024
    assert limited != (name in ("t5", "mt5", "umt5", "longt5", "switch_transformers"))
    assert longest == (48 if name == "led" else POSITIONS) or not limited
    beginning = " ".join(["heron"] * (longest - 1)) if limited else text
    options = SearchOptions(beam=2, max_len_b=4)
    cut, whole = paraphraser.paraphrase([text, beginning], 2, decoding=options)
    assert (cut.truncated, whole.truncated) == (limited, False)
    assert cut.paraphrases and cut.paraphrases == whole.paraphrases


@pytest.mark.slow
@pytest.mark.parametrize("name", ["switch_transformers", "nllb-moe", "led"])
def test_forced_scores_equal_the_models_own(name: str, tmp_path: Path) -> None:
    model = write_family(name, tmp_path)
    scorer = load_scorer(tmp_path)
    jobs = [(scorer.source(text), scorer.target(TEXT[4])) for text in TEXTS]
    for (source, target), found in zip(jobs, scorer.score(jobs), strict=True):
        assert found == pytest.approx(token_logprobs(model, list(source), list(target)), abs=3e-5, rel=1e-5)


@pytest.mark.slow
def test_groups_and_several_processes_follow_the_saved_settings_too(tmp_path: Path) -> None:
    save("bart", tmp_path, "repetitions")
    options = SearchOptions(semantics="hf", beam=6, groups=3, strength=0.7)
    lists = list(loaded(tmp_path).paraphrase(TEXTS, 6, decoding=options))
    for found in lists:
        for one in found.hypotheses:
            assert not {8, 14} & set(one.tokens) and one.tokens[0] != 11 and 4 <= len(one.tokens) <= 11
    with contextlib.closing(load_paraphraser(tmp_path, jobs=2)) as several:
        assert several.describe(options, 6) == loaded(tmp_path).describe(options, 6)
        found = list(several.paraphrase(TEXTS, 6, decoding=options))
    assert [nbest.paraphrases for nbest in found] == [nbest.paraphrases for nbest in lists]
