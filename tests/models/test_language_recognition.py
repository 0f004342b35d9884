"""Texts in other languages are told from English ones, and no English file of the evaluation data is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyref.errors import DataError
from polyref.models.language_recognition import known_languages, language_name, other_language
from polyref.references import ReferenceSet

TEXTS = {
    "en": [
        "The council will meet again in the old town hall on Friday.",
        "Nobody knows who left the boxes in front of the museum, but they were all empty.",
    ],
    "de": [
        "Der Rat trifft sich am Freitag wieder im alten Rathaus, um über die Brücke zu reden.",
        "Niemand weiß, wer die Kisten vor dem Museum gelassen hat, aber sie waren alle leer.",
    ],
    "fr": [
        "Le conseil se réunira de nouveau vendredi dans la vieille mairie avec les habitants.",
        "Personne ne sait qui a laissé les caisses devant le musée, mais elles sont vides.",
    ],
    "es": [
        "El consejo se reunirá otra vez el viernes en la antigua casa de la ciudad.",
        "Nadie sabe quién dejó las cajas en la puerta del museo, pero todas están sin cosas.",
    ],
    "cs": [
        "Rada se znovu sejde v pátek na staré radnici a bude jednat o mostu, který je zavřený.",
        "Nikdo neví, kdo nechal krabice před muzeem, ale byly to jen prázdné krabice od bot.",
    ],
    "nl": [
        "De raad komt vrijdag weer bij elkaar in het oude stadhuis om over de brug te praten.",
        "Niemand weet wie de dozen voor het museum heeft gezet, maar ze waren niet vol.",
    ],
    "fi": [
        "Neuvosto kokoontuu perjantaina, ja se on jo päättänyt, että silta ei ole enää auki.",
        "Kukaan ei tiedä, kuka jätti laatikot, mutta ne olivat tyhjiä, kun hän tuli, joten se on outoa.",
    ],
    "ru": ["Совет снова соберётся в пятницу в старой ратуше.", "Никто не знает, кто оставил ящики у музея."],
    "uk": ["Рада знову збереться в п'ятницю, і це не все.", "Ніхто не знає, хто це був і що він залишив."],
    "el": ["Το συμβούλιο θα συνεδριάσει ξανά την Παρασκευή."],
    "zh": ["市议会将于星期五在旧市政厅再次开会。"],
    "ja": ["市議会は金曜日に旧市庁舎で再び会合を開く。"],
    "ko": ["시의회는 금요일에 옛 시청에서 다시 모인다."],
    "ar": ["سيجتمع المجلس مرة أخرى يوم الجمعة في مبنى البلدية القديم"],
    "fa": ["شورا روز جمعه بار دیگر در ساختمان قدیمی شهرداری که در مرکز است جلسه دارد و این را اعلام کرد"],
    "he": ["המועצה תתכנס שוב ביום שישי בבניין העירייה הישן"],
    "hi": ["परिषद शुक्रवार को पुराने टाउन हॉल में फिर से बैठक करेगी और यह तय है।"],
    "th": ["สภาจะประชุมอีกครั้งในวันศุกร์"],
    "gu": ["કાઉન્સિલ શુક્રવારે ફરી મળશે"],
}


@pytest.mark.parametrize("code", TEXTS)
def test_languages_are_told_from_english(code: str) -> None:
    found = other_language(TEXTS[code], ["en"])
    assert (found.code if found else "en") == code


@pytest.mark.parametrize("code", TEXTS)
def test_a_language_is_no_other_one(code: str) -> None:
    assert other_language(TEXTS[code], [code]) is None
    assert other_language(TEXTS[code], ["en", "de", code]) is None


def test_english_is_told_from_others() -> None:
    for code in TEXTS.keys() - {"en"}:
        found = other_language(TEXTS["en"], [code])
        assert found is not None, code
        # Of a foreign script, any language in it may be named; English has most function words.
        assert found.name == "English"


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["42", "3.14 %"],
        ["Ja"],
        ["Guten Tag!"],
        ["你好"],
        ["München", "Zürich", "Köln", "Düsseldorf", "Wien"],
        ["Los Angeles, Las Vegas, El Paso and La Jolla play Del Mar."],
        ["Los Angeles", "Las Vegas", "El Paso", "La Jolla", "Del Mar", "San José"],
        ["Le Mans, La Rochelle, Les Sables, Des Moines and Du Bois: Une Vie, Au Revoir."],
        ["Die Welt, Das Boot, Der Spiegel, Ein Herz, Und Tschüss and Mit Dir were on sale."],
        ["Ludwig van Beethoven", "Vincent van Gogh", "Simone de Beauvoir", "Leonardo da Vinci", "Juan de la Cruz"],
        ["def f(x): return x + 1", "for i in range(10): print(i)"],
        ["😀 😀 😀", "→ ← ↑"],
        ["α + β = γ"],
        ["The word 市议会 means city council, and 市政厅 is the town hall."],
        ["He said: Der Rat trifft sich am Freitag wieder. That was all that he had to say about it, and he left."],
        [*TEXTS["en"] * 2, *TEXTS["de"]],
        [*TEXTS["en"] * 3, *TEXTS["zh"]],
    ],
)
def test_without_clear_evidence_nothing_is_said(texts: list[str]) -> None:
    assert other_language(texts, ["en"]) is None


def test_models_that_may_know_the_language() -> None:
    assert other_language(TEXTS["de"], []) is None
    assert other_language(TEXTS["de"], ["xx"]) is None
    assert other_language(TEXTS["de"], ["en", "xx"]) is None
    assert other_language(TEXTS["de"], ["eng_Latn", "deu_Latn"]) is None
    # Danish and Norwegian, Croatian and Bosnian are too close to tell.
    norwegian = ["Rådet skal møtes igjen på fredag, og det er ikke alt.", "De var ikke der, men han så det."]
    assert other_language(norwegian, ["da"]) is None


def test_names() -> None:
    assert [language_name(code) for code in ("de", "deu_Latn", "zh_CN", "xx")] == ["German", "German", "Chinese", "xx"]


def test_the_table() -> None:
    """Codes are in the form that languages are compared by; words are lower case and once there."""
    languages = known_languages()
    assert len({language.name for language in languages.values()}) == len(languages)
    for code, language in languages.items():
        assert language.code == code and len(code) == 2
        assert language.scripts
        assert all(word == word.lower() for word in language.words)


def _languages(path: Path, place: str) -> str:
    source, target = path.name.split(".")[0].split("-")
    return source if place == "sources" else target


def test_the_evaluation_data(data_dir: Path) -> None:
    """Every file of references and sources is in its language; no English file is taken for another."""
    wrong, seen = [], set()
    for place in ("references", "sources"):
        for path in sorted(data_dir.glob(f"*/{place}/*-*.txt")):
            expected = _languages(path, place)
            found = other_language(path.read_text("utf-8").split("\n"), ["en"])
            seen.add(expected)
            if (found.code if found else "en") != expected:
                wrong.append((path.name, expected, found))
    assert wrong == []
    assert seen >= {"en", "de", "cs", "zh", "ru", "lt", "gu", "es"}


def test_english_sets_with_paraphrases(data_dir: Path) -> None:
    texts = ReferenceSet.load(data_dir / "wmt22/paraphrases/zh-en.refA.jsonl").texts()
    assert all(other_language([text], ["en"]) is None for refs in texts[::50] for text in refs)
    assert all(other_language(list(refs), ["en"]) is None for refs in texts[::5])
    german = ReferenceSet.load(data_dir / "wmt22/paraphrases/en-de.refA.jsonl").texts()
    found = other_language([text for refs in german for text in refs], ["en"])
    assert found is not None and found.code == "de"


@pytest.mark.slow
def test_messages() -> None:
    from polyref import load_paraphraser
    from polyref.augment import augment
    from polyref.metrics.api import score

    german = TEXTS["de"]
    model = load_paraphraser()
    for call in (lambda: model.check_texts(german, file="refs.de"), lambda: augment(german, model)):
        with pytest.raises(DataError, match=r"the text is German, but polyref-en is to write English \(name a `model`"):
            call()
    with pytest.raises(DataError, match="the references are German, but the model of BERTScore is for English"):
        score(german, german, "bertscore")
    assert score(german, german, "bertscore", force=True).rows[0]["score"] == pytest.approx(1)
    assert score(german, german, "chrf").rows[0]["score"] == pytest.approx(100)
