"""Language codes of several conventions."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyref.errors import UsageError
from polyref.languages import _TO_SHORT, base, find_pair, is_language, matching, resolve
from polyref.models.checkpoints.text import FairseqDictionary, language_of

NLLB = ["arb_Arab", "arz_Arab", "deu_Latn", "eng_Latn", "lvs_Latn", "nno_Latn", "nob_Latn", "zho_Hans", "zho_Hant"]
MBART = ["ar_AR", "de_DE", "en_XX", "zh_CN"]
M2M100 = ["de", "en", "no", "zh"]


@pytest.mark.parametrize(
    ("code", "known", "expected"),
    [
        ("en", NLLB, "eng_Latn"),
        ("eng_Latn", NLLB, "eng_Latn"),
        ("EN", NLLB, "eng_Latn"),
        ("ar", NLLB, "arb_Arab"),
        ("no", NLLB, "nob_Latn"),
        ("nb", NLLB, "nob_Latn"),
        ("nn", NLLB, "nno_Latn"),
        ("lv", NLLB, "lvs_Latn"),
        ("zho_Hant", NLLB, "zho_Hant"),
        ("zh_Hans", NLLB, "zho_Hans"),
        ("de", MBART, "de_DE"),
        ("eng_Latn", MBART, "en_XX"),
        ("zho_Hans", MBART, "zh_CN"),
        ("en_XX", M2M100, "en"),
        ("nob_Latn", M2M100, "no"),
        ("deu", M2M100, "de"),
    ],
)
def test_a_language_is_found_under_any_of_its_codes(code: str, known: list[str], expected: str) -> None:
    assert resolve(code, known) == expected


def test_what_is_unknown_or_ambiguous_is_refused_with_the_list() -> None:
    with pytest.raises(UsageError, match="'xx' is unknown to the model, expected one of de, en, no, zh"):
        resolve("xx", M2M100)
    with pytest.raises(UsageError, match="no language is named, expected one of"):
        resolve(None, M2M100)
    with pytest.raises(UsageError, match="'zh' may be any of zho_Hans, zho_Hant"):
        resolve("zh", NLLB)
    assert matching("srp_Latn", ["srp_Cyrl"]) == []


def test_every_code_of_nllb_is_itself_and_short_codes_are_found_or_refused() -> None:
    nllb = pytest.importorskip("transformers.models.nllb.tokenization_nllb").FAIRSEQ_LANGUAGE_CODES
    assert len(nllb) == 202
    assert all(resolve(code, nllb) == code for code in nllb)
    several = {short for short in set(_TO_SHORT.values()) if len(matching(short, nllb)) > 1}
    assert several == {"ks", "zh"}
    found = {short for short in set(_TO_SHORT.values()) if len(matching(short, nllb)) == 1}
    assert {"ar", "en", "et", "fa", "lv", "mg", "ms", "nb", "ne", "om", "or", "ps", "sq", "sw", "uz", "yi"} <= found
    assert base("gsw_Latn") == "gsw"


@pytest.mark.parametrize("code", ["en", "no", "iw", "ast", "ns", "yue", "ace_Arab", "zh-CN", "en_XX", "xyz_Latn"])
def test_codes_of_languages(code: str) -> None:
    assert is_language(code)
    assert language_of(f"<{code}>") == code


@pytest.mark.parametrize("word", ["url", "num", "unk", "pad", "sep", "ent", "usr", "eos", "url_link"])
def test_places_of_something_are_no_languages(word: str) -> None:
    assert not is_language(word)
    assert language_of(f"<{word}>") is None


def test_tags_of_a_dictionary(tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("<url> 9\nthe 5\n<en> 1\n<num> 1\n<zho_Hans> 1\n", "utf-8")
    assert FairseqDictionary(tmp_path / "dict.txt").tags() == {"en": 6, "zho_Hans": 8}


WMT = [
    "eng_Latn-arz_Arab", "eng_Latn-ekk_Latn", "eng_Latn-sme_Latn", "eng_Latn-srp_Cyrl", "eng_Latn-zho_Hans",
    "eng_Latn-zho_Hant_TW", "ces_Latn-deu_Latn", "eng_Latn-lld_Latn", "en-cs_CZ", "en-sr_Latn_RS", "en-US-ko-KR",
]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("cs-de", "ces_Latn-deu_Latn"),
        ("cs-de_DE", "ces_Latn-deu_Latn"),
        ("ces_Latn-deu_Latn", "ces_Latn-deu_Latn"),
        ("ces-deu", "ces_Latn-deu_Latn"),
        ("CS-DE", "ces_Latn-deu_Latn"),
        ("en-et", "eng_Latn-ekk_Latn"),
        ("en-se", "eng_Latn-sme_Latn"),
        ("en-lld", "eng_Latn-lld_Latn"),
        ("en-ar", "eng_Latn-arz_Arab"),
        ("en-ar_EG", "eng_Latn-arz_Arab"),
        ("en-ar_MA", None),
        ("en-zh_CN", "eng_Latn-zho_Hans"),
        ("en-zh-TW", "eng_Latn-zho_Hant_TW"),
        ("en-zh_Hant", "eng_Latn-zho_Hant_TW"),
        ("en-sr_Cyrl_RS", "eng_Latn-srp_Cyrl"),
        ("eng_Latn-srp_Latn", "en-sr_Latn_RS"),
        ("eng_Latn-ces_Latn", "en-cs_CZ"),
        ("en-ko", "en-US-ko-KR"),
        ("de-cs", None),
        ("en-de", None),
        ("en", None),
        ("en-de-cs", None),
    ],
)
def test_a_pair_is_found_as_people_type_it(asked: str, found: str | None) -> None:
    assert find_pair(asked, WMT) == found


def test_of_several_pairs_the_nearest_one_is_meant_or_none() -> None:
    for asked, there in (
        ("en-zh", "eng_Latn-zho_Hans, eng_Latn-zho_Hant_TW"),
        ("en-sr", "eng_Latn-srp_Cyrl, en-sr_Lat"),
    ):
        with pytest.raises(UsageError, match=f"set: {asked} may be any of {there}"):
            find_pair(asked, WMT, "set")
    assert find_pair("en-de", ["en-de_DE", "en-de", "eng_Latn-deu_Latn"]) == "en-de"
    assert find_pair("eng-zho_Hant_TW", ["en-zh_Hant", "en-zh_Hant_TW"]) == "en-zh_Hant_TW"
    assert find_pair("en-ar", ["en-arz", "en-arb_Arab"]) == "en-arb_Arab"
    assert find_pair("en-arz", ["en-ar_EG"]) == "en-ar_EG"
