"""Models converted for CTranslate2: its lists are those of Transformers' beam search over the same model."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers
from tiny_hf_folders import FAMILIES
from tiny_models import TEXT

from polyref.errors import ModelError, UsageError
from polyref.paraphrase import DiverseBeam, SearchOptions, load_paraphraser

ctranslate2 = pytest.importorskip("ctranslate2")

pytestmark = pytest.mark.usefixtures("quiet_transformers")
#: Of every family that its converter takes, the language to write.
CONVERTED = {"t5": None, "bart": None, "marian": None, "nllb": "en"}
BEAM = 4
Folders = Callable[[str], tuple[Path, Path]]


@pytest.fixture(scope="module")
def spm() -> bytes:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4), model_writer=out, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    return out.getvalue()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, spm: bytes) -> Folders:
    """A Hugging Face folder of a family, and the same converted; each once, on first use."""
    made: dict[str, tuple[Path, Path]] = {}

    def get(name: str) -> tuple[Path, Path]:
        if name not in made:
            place = tmp_path_factory.mktemp("ctranslate2")
            torch.manual_seed(11)
            folder = FAMILIES[name](place / name, spm).folder
            if name == "bart":
                # Folders of the original models say so; Transformers 5 writes it no more, and the converter asks.
                config = json.loads((folder / "config.json").read_text())
                config |= {"normalize_before": False, "normalize_embedding": True}
                (folder / "config.json").write_text(json.dumps(config))
            made[name] = folder, place / "converted" / name
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                ctranslate2.converters.TransformersConverter(str(folder)).convert(str(made[name][1]))
        return made[name]

    return get


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("name", CONVERTED)
@pytest.mark.parametrize("lenpen", [1.0, 0.5])
def test_lists_equal_beam_search_of_transformers(folders: Folders, name: str, lenpen: float) -> None:
    folder, converted = folders(name)
    paraphraser = load_paraphraser(f"{converted},{folder}", backend="ctranslate2", lang=CONVERTED[name])
    options = SearchOptions(beam=BEAM, min_len=0, max_len_b=9, lenpen=lenpen)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tag = None
    if CONVERTED[name]:
        tokenizer.src_lang = "eng_Latn"
        tag = tokenizer.convert_tokens_to_ids("eng_Latn")
    for found in paraphraser.paraphrase(TEXT, BEAM, decoding=options):
        with torch.inference_mode():
            expected = model.generate(
                **tokenizer([found.text], return_tensors="pt"),
                num_beams=BEAM,
                num_return_sequences=BEAM,
                max_new_tokens=9,
                length_penalty=lenpen,
                forced_bos_token_id=tag,
                output_scores=True,
                return_dict_in_generate=True,
            )
        ends = (model.config.pad_token_id, model.config.eos_token_id)
        rows = [[token for token in row if token not in ends] for row in expected.sequences[:, 1:].tolist()]
        assert [list(one.tokens[:-1]) for one in found.hypotheses] == rows
        kept = [[token for token in row if token != tag] for row in rows]
        texts = [tokenizer.decode(row, skip_special_tokens=True).strip() for row in kept]
        assert found.paraphrases == texts
        # Its converter takes the padding out of Marian's vocabulary, and so out of the probabilities.
        room = 1e-2 if name == "marian" else 2e-4
        scores = [one.score for one in found.hypotheses]
        assert scores == pytest.approx(expected.sequences_scores.tolist(), abs=room, rel=1e-5)


def test_a_list_does_not_depend_on_its_neighbours(folders: Folders) -> None:
    folder, converted = folders("t5")
    paraphraser = load_paraphraser(f"ctranslate2:{converted},{folder}")
    together = paraphraser([*TEXT, "", TEXT[0]], 5)
    assert together[:-2] == [paraphraser(text, 5) for text in TEXT]
    assert together[-1] == together[0] and together[-2].paraphrases == []
    for found in together[:-2]:
        assert 1 <= len(found.paraphrases) == len(set(found.paraphrases)) <= 5
        assert all(one.score is not None and one.score <= 0 for one in found.hypotheses)


def test_pieces_of_sentencepiece_are_as_good_as_the_hugging_face_tokeniser(
    folders: Folders, spm: bytes, tmp_path: Path
) -> None:
    folder, converted = folders("t5")
    for file in converted.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "spiece.model").write_bytes(spm)
    own = load_paraphraser(f"ctranslate2:{tmp_path}")
    theirs = load_paraphraser(f"ctranslate2:{converted},{folder}")
    assert own.signature != theirs.signature
    texts = ["the small river", "ducks near the bridge"]
    for one, other in zip(own(texts, 4), theirs(texts, 4), strict=True):
        assert [found.tokens for found in one.hypotheses] == [found.tokens for found in other.hypotheses]
        assert one.paraphrases and one.paraphrases[0] == other.paraphrases[0]
    named = load_paraphraser(f"ctranslate2:{converted},{tmp_path / 'spiece.model'}")
    assert named(texts[0], 4).paraphrases == own(texts[0], 4).paraphrases


def test_long_texts_are_cut_to_the_positions_and_flagged(folders: Folders) -> None:
    folder, converted = folders("bart")
    paraphraser = load_paraphraser(f"ctranslate2:{converted},{folder}")
    whole, cut = paraphraser(["ducks", " ".join(TEXT * 4)], 2)
    assert (whole.truncated, cut.truncated) == (False, True)
    assert cut.paraphrases


def test_the_signature_says_what_ran(folders: Folders) -> None:
    folder, converted = folders("t5")
    paraphraser = load_paraphraser(f"ctranslate2:{converted},{folder}")
    assert paraphraser.signature.startswith("t5|sha:")
    assert paraphraser.signature.endswith(f"|backend:ctranslate2-{ctranslate2.__version__}")
    whole = "ctranslate2(beam=10,lenpen=1.0,min_len=0,max_len_a=1.5,max_len_b=10,no_repeat_ngram=0)"
    assert paraphraser.describe_decoding(None, 10) == whole
    rounded = load_paraphraser(f"ctranslate2:{converted},{folder}", dtype="int8")
    assert rounded.signature == f"{paraphraser.signature}|dtype:int8"
    assert rounded(TEXT[0], 4).paraphrases


@pytest.mark.parametrize(
    ("decoding", "message"),
    [
        (DiverseBeam(groups=2), "`groups` is 2, but CTranslate2 has plain beam search alone"),
        (DiverseBeam(strength=0.5), "`strength` is 0.5, but CTranslate2 has plain"),
        (DiverseBeam(closeness=1), "`closeness` is 1"),
        (SearchOptions(beam=4, groups=2), "`groups` is 2, but CTranslate2's beam search does not have it"),
        (SearchOptions(sampling=True), "`sampling` is True, but CTranslate2's beam search does not have it"),
        (SearchOptions(semantics="hf"), "`semantics` is 'hf'"),
        (SearchOptions(lenpen=99), "`lenpen` is 99, expected at most 50"),
    ],
)
def test_what_it_does_not_have_is_refused_in_one_line(folders: Folders, decoding: Any, message: str) -> None:
    folder, converted = folders("t5")
    with pytest.raises(UsageError, match=message) as caught:
        load_paraphraser(f"ctranslate2:{converted},{folder}").paraphrase(TEXT, 4, decoding=decoding)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_loaded_is_one_error(folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, converted = folders("t5")
    with pytest.raises(ModelError, match=r"no model\.bin.*a folder that its converters wrote"):
        load_paraphraser(folder, backend="ctranslate2")
    with pytest.raises(ModelError, match=r"no tokeniser: neither .*ctranslate2:DIR,TOKENISER"):
        load_paraphraser(converted, backend="ctranslate2")
    with pytest.raises(UsageError, match=r"`dtype` is 'float16', expected one of .*float32.* for CTranslate2 on cpu"):
        load_paraphraser(f"ctranslate2:{converted},{folder}", dtype="float16")
    with pytest.raises(UsageError, match=r"`prism_a` is 0\.5, but the generator ctranslate2 takes no such option"):
        load_paraphraser(f"ctranslate2:{converted},{folder}", prism_a=0.5)
    for file in converted.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "model.bin").write_bytes((converted / "model.bin").read_bytes()[:1000])
    with pytest.raises(ModelError, match="CTranslate2 cannot load it"):
        load_paraphraser(f"ctranslate2:{tmp_path},{folder}")
    (tmp_path / "shared_vocabulary.json").write_text("{}")
    with pytest.raises(ModelError, match=r"shared_vocabulary\.json: found an object, expected a list"):
        load_paraphraser(f"ctranslate2:{tmp_path},{folder}")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ModelError, match=r"CTranslate2 is not installed.*pip install ctranslate2"):
        load_paraphraser(f"ctranslate2:{converted},{folder}")


def test_a_language_is_asked_for_where_there_are_several(folders: Folders) -> None:
    folder, converted = folders("nllb")
    with pytest.raises(UsageError, match="no language is named, expected one of"):
        load_paraphraser(f"ctranslate2:{converted},{folder}")
    german = load_paraphraser(f"ctranslate2:{converted},{folder}", lang="de")
    english = load_paraphraser(f"ctranslate2:{converted},{folder}", lang="en")
    assert "deu_Latn" in german.languages
    assert german.signature.endswith("|lang:deu_Latn") and english.signature.endswith("|lang:eng_Latn")
    begun = load_paraphraser(f"ctranslate2:{converted},{folder}", prefix="deu_Latn")
    assert begun.signature.endswith("|prefix:deu_Latn")
    options = SearchOptions(beam=2, max_len_b=6)
    first = {
        paraphraser.lang: {one.tokens[0] for one in paraphraser(TEXT[0], 2, decoding=options).hypotheses}
        for paraphraser in (german, english)
    }
    assert all(len(tokens) == 1 for tokens in first.values()) and first["de"] != first["en"]
