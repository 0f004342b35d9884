"""References where there is none: translations of the source, asked of a server or made by translation models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import chat_server
import pytest
import transformers
from chat_server import ChatServer
from rule_paraphraser import RuleParaphraser
from tiny_chat import chat_model
from tiny_seq2seq import TEXT, write_bart, write_m2m

from polyref import score
from polyref.augment import augment
from polyref.augment.filters import filter_chain
from polyref.augment.inputs import translatable
from polyref.augment.pipeline import Tally
from polyref.errors import DataError, UsageError
from polyref.paraphrase import load_paraphraser
from polyref.references import ReferenceSet, Segment

SOURCES = ["The committee will meet again on Friday.", "", "<p>It cost {{sum}} at the old bridge.</p>", "YouTube"]
#: What the server writes: most of it is German.
RULES = (
    "Der Ausschuss sagt heute in der Stadt: {}",
    "Man hört heute in der Stadt: {}",
    "Die Nachbarn sagen heute in der Stadt: {}",
    "Es heißt überall in der Stadt: {}",
)
ENGLISH = "The committee and the people of the town will all of them be here in the house again on Friday."


@pytest.fixture
def german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_server, "RULES", RULES)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "src.en"
    path.write_text("".join(f"{text}\n" for text in SOURCES))
    return path


def without_references(texts: Sequence[str]) -> ReferenceSet:
    return ReferenceSet(tuple(Segment(str(n), (), source=text, doc="d") for n, text in enumerate(texts, 1)))


def test_a_server_is_asked_for_translations(
    polyref: Callable[..., Any], german: None, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    server = ChatServer()
    with server.running() as url:
        command = ("augment", "--source", source, "-l", "en-de", "--model", "openai:tiny", "--base-url", url)
        result = polyref(*command, "-k", "2", "-o", out, "--json", "--price", "1", "2")
        assert result.code == 0, result.err
        asked = len(server.requests)
        again = polyref(*command, "-k", "2", "-o", tmp_path / "again.jsonl", "--answers", f"{out}.answers")
        assert again.code == 0 and len(server.requests) == asked
    assert (tmp_path / "again.jsonl").read_bytes() == out.read_bytes()
    row = json.loads(result.out)["rows"][0]
    assert (row["kept"], row["empty"], row["requests"]["requests"]) == (6, 1, 3) and row["cost"] > 0
    assert row["filter"] == {"good-writer": "openai:tiny"} and "polyref: warning: 1 source empty" in result.err
    made = ReferenceSet.load(out)
    assert [segment.source for segment in made] == SOURCES
    assert [[(ref.text, ref.kind, ref.of, ref.rank) for ref in segment.refs] for segment in made] == [
        [(rule.format(text), "translation", None, rank) for rank, rule in enumerate(RULES[:2])] if text else []
        for text in SOURCES
    ]
    assert not any(segment.originals for segment in made)
    assert made.meta["lang"] == "de" and made.meta["source_lang"] == "en"
    assert made.meta["decoding"] == "translating(translate-1,list)"
    assert "prompt:translate-1:" in made.meta["generator"] and made.meta["generator"].endswith("lang:de|from:en")
    system, question = (message["content"] for message in server.requests[0]["messages"])
    assert system.startswith("You translate texts")
    assert "Translate this text from English (en) in 4 different ways, into German (de):" in question
    assert "markup" not in question and "It is: <p>, {{sum}}, </p>" in str(server.requests)


def test_neighbours_are_shown_and_answers_checked(polyref: Callable[..., Any], german: None, tmp_path: Path) -> None:
    """An answer in the language of the source is none, and what lost a tag is not kept."""
    texts = ["The committee will meet again on Friday.", "<p>Nobody came.</p>", "The last one of them stays."]
    (tmp_path / "set.jsonl").write_text(
        "".join(json.dumps({"id": f"s{n}", "source": text, "refs": []}) + "\n" for n, text in enumerate(texts))
    )
    troubles = {texts[0]: "English", texts[1]: "without tags"}

    class Bad(ChatServer):
        def completion(self, body: dict[str, Any], trouble: str | None, headers: dict[str, str]) -> dict[str, Any]:
            made = super().completion(body, trouble, headers)
            if trouble == "English":
                made["choices"][0]["message"]["content"] = json.dumps({"rewrites": [ENGLISH]})
            return made

    server = Bad(lambda text, attempt, repair: troubles.get(text))
    with server.running() as url:
        result = polyref(
            *("augment", tmp_path / "set.jsonl", "-l", "en-de", "--model", "openai:tiny", "--base-url", url),
            *("-k", "2", "-o", tmp_path / "out.jsonl", "--context", "1"),
        )
    assert result.code == 0, result.err
    first, second, third = ReferenceSet.load(tmp_path / "out.jsonl")
    assert (first.refs, first.extra["failed"]) == ((), "another language")
    assert (second.refs, second.extra["failed"]) == ((), "other tags, placeholders or keys")
    assert [ref.text for ref in third.refs] == [rule.format(texts[2]) for rule in RULES[:2]]
    assert "2 sources without a translation: another language (1)" in result.err
    asked = next(
        body["messages"][1]["content"]
        for body in server.requests
        if f"German (de):\n> {texts[2]}" in str(body["messages"][1]["content"])
    )
    assert f"do not translate them:\n> {texts[1]}" in asked


@pytest.fixture(scope="module")
def m2m(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_m2m(tmp_path_factory.mktemp("m2m") / "tiny")


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_transformers")
def test_a_translation_model_reads_one_language_and_writes_another(
    polyref: Callable[..., Any], tmp_path: Path, m2m: Path
) -> None:
    """What Transformers writes with these two languages; and the languages are part of the signature."""
    model = load_paraphraser(m2m, lang="de", source_lang="en", cache=False)
    tokenizer = transformers.AutoTokenizer.from_pretrained(m2m, src_lang="en")
    assert model.codec.encode(TEXT[0]) == tokenizer(TEXT[0])["input_ids"]
    assert model.prefix == [tokenizer.get_lang_id("de")]
    assert model.signature != load_paraphraser(m2m, lang="de", cache=False).signature
    (tmp_path / "src.en").write_text("".join(f"{text}\n" for text in TEXT))
    result = polyref(
        *("augment", "--source", tmp_path / "src.en", "-l", "en-de", "--model", m2m, "-k", "2", "--no-cache"),
        *("--filter", "none", "-o", tmp_path / "out", "--jobs", "1"),
    )
    assert result.code == 0, result.err
    made = ReferenceSet.load(tmp_path / "out")
    for segment, text in zip(made, TEXT, strict=True):
        expected = model(text, k=4).paraphrases
        assert segment.refs and {ref.text for ref in segment.refs} <= set(expected)
        assert {ref.kind for ref in segment.refs} == {"translation"} and segment.refs[0].logprob is not None
    assert "source:en" in made.meta["generator"]


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_transformers")
def test_models_without_languages_and_causal_ones_translate_too(tmp_path: Path) -> None:
    sources = without_references(TEXT[:2])
    bart = load_paraphraser(write_bart(tmp_path / "bart"), lang="de", source_lang="en", cache=False)
    made = augment(sources, bart, 2, lang="de", source_lang="en", filters="none")
    assert [[ref.text for ref in segment.refs] for segment in made] == [
        bart(text, k=4).paraphrases[:2] for text in TEXT[:2]
    ]
    folder = chat_model(tmp_path / "causal")
    causal, other = (
        load_paraphraser(f"causal:{folder}", lang=lang, source_lang="en", cache=False) for lang in ("de", "fr")
    )
    prompt = transformers.AutoTokenizer.from_pretrained(folder)(
        f"A text in English and its translation into German.\nEnglish: {TEXT[0]}\nGerman:"
    )["input_ids"]
    assert causal.codec.encode(TEXT[0]) == prompt[: len(causal.codec.encode(TEXT[0]))]
    assert len({causal.signature, other.signature, load_paraphraser(f"causal:{folder}").signature}) == 3


def test_sets_in_memory(tmp_path: Path) -> None:
    rules = RuleParaphraser()
    sources = without_references(SOURCES)
    made = augment(sources, rules, 2, lang="en", source_lang="de", filters="none", force=True)
    assert [len(segment.refs) for segment in made] == [2, 0, 2, 2]
    assert {ref.kind for segment in made for ref in segment.refs} == {"translation"}
    more = augment(made, rules, 1, lang="en", source_lang="de", filters="none", force=True)
    for before, after in zip(made, more, strict=True):
        assert after.refs[: len(before.refs)] == before.refs and after.source == before.source
    assert "from:" not in str(made.meta) and more.meta["source_lang"] == ["de", "de"]
    with pytest.raises(UsageError, match="no language to translate into"):
        augment(sources, rules, 2, source_lang="de")
    with pytest.raises(UsageError, match="segment 1 has a human reference, which is paraphrased"):
        augment(["A reference."], rules, 2, lang="en", source_lang="de")
    with pytest.raises(DataError, match="segment 1 has no source"):
        augment(ReferenceSet((Segment("1", ()),)), rules, 2, lang="en", source_lang="de")
    with pytest.raises(DataError, match="the text is English, but it is to be translated from German"):
        augment(without_references([ENGLISH] * 3), rules, 2, lang="en", source_lang="de")


def test_paragraphs_are_translated_whole_or_not_at_all() -> None:
    """No sentence of the source stays where it has no translation."""

    class Lacking(RuleParaphraser):
        single_sentences = True

        def generate(self, texts: Any, k: int, **more: Any) -> Iterator[Any]:
            for found in super().generate(texts, k, **more):
                yield found if "never" not in found.text else type(found)(found.text, ())

    texts = ["<p>One came.</p><p>Two went.</p>", "<p>One came.</p><p>It never stops.</p>"]
    tally = Tally()
    made = augment(without_references(texts), Lacking(), 2, lang="en", source_lang="de", filters="none", tally=tally)
    assert len(made[0].refs) == 2 and all(ref.text.count("<p>") == 2 for ref in made[0].refs)
    assert made[1].refs == ()


def test_translatable_segments_have_their_sources_before_their_references() -> None:
    one, two = translatable(without_references(["One.", "Two."]), 1)
    assert one.refs[0].original and one.refs[0].text == "One." == one.source
    assert one.refs[0].text.after == ("Two.",) and two.refs[0].text.before == ("One.",)
    assert one.refs[0].text.source is None


PAIRS = [
    ("en", "de", "It cost 245 euros.", "Es kostete 245 Euro.", None),
    ("en", "de", "It cost 245 euros.", "Es kostete 254 Euro.", "numbers"),
    ("en", "de", "It cost 1,500 euros.", "Es kostete 1.500 Euro.", None),
    ("en", "de", "He has 2 cats and paid 35 million.", "Er hat zwei Katzen und zahlte 35 Mio.", None),
    ("en", "zh", "Some 350 thousand people came.", "约有35万人前来。", None),
    ("zh", "en", "今年以来有30余万人", "More than 300 thousand people since the year began", None),
    ("en", "de", "We saw it on YouTube yesterday.", "Wir sahen es gestern auf YouTube.", None),
    ("en", "de", "We saw it on YouTube yesterday.", "Wir sahen es gestern auf dem Sofa.", "names"),
    ("en", "ru", "We saw it on YouTube yesterday.", "Мы видели это вчера на Ютубе.", None),
    ("en", "de", "The house at the river is old.", "The house at the river is old.", "untranslated"),
    ("en", "de", "Barack Obama", "Barack Obama", None),
    ("en", "ru", "The house at the river is old.", "Das Haus am Fluss ist alt.", "language"),
    ("en", "zh", "The house at the river is old.", "河边的房子很旧。", None),
    ("en", "ja", "The house at the river is old.", "川沿いの家は古いです。", None),
    ("en", "de", "{a} came before {b}.", "Vor {b} kam {a}.", None),
    ("en", "de", "{a} came before {b}.", "Vor {b} kam er.", "placeholders"),
    ("en", "de", "<p>One.</p><ul>Two.</ul>", "<ul>Eins.</ul><p>Zwei.</p>", "placeholders"),
    ("en", "de", "The house at the river is old.", "Das Haus am Fluss ist alt. " * 12, "length"),
    ("en", "de", "The house at the river is old and nobody lives there. " * 2, "Ja", "length"),
]


@pytest.mark.parametrize(("source_lang", "lang", "text", "candidate", "reason"), PAIRS)
@pytest.mark.parametrize("need", ["good-writer", "small-model"])
def test_translations_are_compared_with_the_source(
    need: str, source_lang: str, lang: str, text: str, candidate: str, reason: str | None
) -> None:
    chain = filter_chain(need, lang, source_lang=source_lang)
    found = chain.start([]).offer(text, candidate)
    assert (found or "").startswith(reason or "") and (found is None) is (reason is None), found
    assert chain.name.startswith(f"{need}(of translations):talk+several+untranslated+numbers+names+")


def test_almost_every_human_translation_passes(data_dir: Path) -> None:
    for pair, least in (("en-de", 0.98), ("zh-en", 0.985)):
        source_lang, lang = pair.split("-")
        folder = data_dir / "wmt22"
        sources = (folder / "sources" / f"{pair}.txt").read_text("utf-8").splitlines()
        references = (folder / "references" / f"{pair}.refA.txt").read_text("utf-8").splitlines()
        chain = filter_chain("small-model", lang, source_lang=source_lang)
        kept = sum(chain.start([]).offer(*both) is None for both in zip(sources, references, strict=True))
        assert kept >= least * len(sources), (pair, kept / len(sources))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "openai:tiny"), "no languages to translate sources between are named"),
        (("-l", "en-de"), "the generator lexical writes paraphrases, and translates nothing"),
        (("-l", "en-de", "--model", "shipped"), "the generator shipped writes paraphrases, and translates nothing"),
        (("-l", "en-de", "--model", "openai:tiny", "--prompt", "diverse"), "which asks for rewrites of references"),
        (("-l", "de-en", "--model", "openai:tiny"), "but it is to be translated from German"),
        (("-l", "en-de", "--model", "openai:tiny", "--filter", "mine.toml"), "compares with references"),
    ],
)
def test_what_cannot_be_translated_is_refused(
    polyref: Callable[..., Any], german: None, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "src.en").write_text(f"{ENGLISH}\n{ENGLISH}\n")
    server = ChatServer()
    with server.running() as url:
        asked = ("--base-url", url) if "openai:tiny" in options else ()
        result = polyref("augment", "--source", tmp_path / "src.en", "-o", tmp_path / "out", *options, *asked)
    assert result.code in (1, 2) and message in result.err and not (tmp_path / "out").exists(), result.err
    assert server.requests == []


def test_a_prompt_of_translations_is_none_of_rewrites(
    polyref: Callable[..., Any], german: None, tmp_path: Path
) -> None:
    (tmp_path / "refs").write_text(f"{ENGLISH}\n")
    result = polyref(
        *(
            "augment",
            tmp_path / "refs",
            "--lang",
            "en",
            "--model",
            "openai:tiny",
            "--base-url",
            "http://localhost:9/v1",
        ),
        *("--prompt", "translate"),
    )
    assert result.code == 2 and "--prompt is translate, which asks for translations" in result.err


def test_scores_count_from_the_first_translation(polyref: Callable[..., Any], tmp_path: Path) -> None:
    rows = [
        ["The board met today.", "The board meets."],
        ["It is raining here."],
        ["Nobody came here.", "None came at all."],
    ]
    for name, refs in (("set", rows), ("some", [*rows[:2], []])):
        lines = (
            {"id": str(n), "source": "x", "refs": [{"text": one, "kind": "translation"} for one in found]}
            for n, found in enumerate(refs)
        )
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    outputs = ["The board met today.", "It is raining hard here.", "None came at all."]
    (tmp_path / "sys").write_text("".join(f"{text}\n" for text in outputs))
    command = ("score", tmp_path / "set", "-i", tmp_path / "sys", "-m", "chrf", "--json")
    result = polyref(*command, "-k", "1", "2")
    assert result.code == 0, result.err
    assert "warning: no human reference: all are added ones, and k counts them from the first" in result.err
    expected = [score({"sys": outputs}, [found[:k] for found in rows], "chrf").rows[0]["score"] for k in (1, 2)]
    assert [row["score"] for row in json.loads(result.out)["rows"]] == pytest.approx(expected)
    (alone,) = json.loads(polyref(*command).out)["rows"]
    assert alone["k"] == 2 and alone["score"] == pytest.approx(expected[1])
    none = polyref(*command, "-k", "0")
    assert none.code == 2 and "-k 0 is the human references alone, and there is no human reference" in none.err
    lacking = polyref("score", tmp_path / "some", "-i", tmp_path / "sys", "-m", "chrf")
    assert lacking.code == 1 and "segment 2 has no reference with k = 2" in lacking.err
    streamed = polyref(*command, "-m", "bleu", "-k", "2")
    assert "no human reference" in streamed.err and streamed.code == 0
    with pytest.raises(UsageError, match="there is no human reference"):
        score({"sys": outputs}, ReferenceSet.load(tmp_path / "set"), "chrf", ks=[0, 1])
    assert "5 translation references, no human reference" in polyref("inspect", tmp_path / "set").out
