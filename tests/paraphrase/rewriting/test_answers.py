"""What is read in an answer, and which of it is a rewrite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polyref.chat.answers import Answer, Answers, NoAnswerError, Usage, read_completion
from polyref.errors import DataError
from polyref.paraphrase.rewriting import TextInContext
from polyref.paraphrase.rewriting.answers import rewrites_in
from polyref.paraphrase.rewriting.checks import Checks
from polyref.paraphrase.rewriting.requests import load_prompt
from polyref.paraphrase.tidying import tidied
from polyref.store import Journal

TEXT = TextInContext(
    "The committee will meet again in the town next week.",
    source="Der Ausschuss trifft sich nächste Woche wieder in der Stadt.",
    before=["Nobody was there yesterday."],
)


def _body(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}


def test_a_completion_is_read() -> None:
    body = {**_body(content="x \ud83d", refusal="r"), "model": "m", "system_fingerprint": "f"}
    body["choices"] += [{"message": {"content": "another"}}]
    body["choices"][0]["finish_reason"] = "length"
    body["usage"]["completion_tokens"] = 4
    expected = Answer("x \ufffd", "r", "length", model="m", fingerprint="f", prompt_tokens=3, completion_tokens=4)
    assert read_completion(body) == expected
    assert Answer(**expected.record()) == expected
    assert Answer("x", refusal="r").record() == {"content": "x", "refusal": "r"}, "what is not said is left out"


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"choices": []},
        {"choices": [3]},
        {"choices": {"a": 3}},
        {"choices": [{}]},
        {"choices": [{"message": "x"}]},
    ],
)
def test_what_is_no_completion_is_none(body: Any) -> None:
    with pytest.raises(NoAnswerError, match=r"^no JSON object$|^without choices$|^without a message$"):
        read_completion(body)


def test_odd_values_are_as_if_they_were_not_there() -> None:
    body = _body(content=7, refusal={})
    body |= {"usage": {"prompt_tokens": True, "completion_tokens": -1}, "model": 3, "system_fingerprint": ""}
    assert read_completion(body) == Answer()
    body["usage"] = {"prompt_tokens": int("9" * 4300), "completion_tokens": 1 << 63}
    body["choices"][0]["finish_reason"] = None
    assert read_completion(body) == Answer()
    assert read_completion({"choices": body["choices"], "usage": [1]}) == Answer()


def test_a_file_of_answers_is_its_owners_and_its_numbers_can_be_added(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    with_many = Answer("x", prompt_tokens=int("9" * 4300))
    answers = Answers(path)
    answers.add("k", with_many)
    answers.close()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(
        DataError, match=r"answers:2: the record\.answer\.prompt_tokens is 999.*expected a whole number"
    ):
        Answers(path)


def test_answers_are_kept_for_their_server_and_tokens_for_all(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    mine = Answers(path, "mine")
    mine.add("a", Answer("A", model="m", prompt_tokens=1, completion_tokens=10))
    mine.add("b", Answer("what it said", failure="server error 500", without="seed"))
    mine.add("e", Answer("E"))
    anyone = [("a", Answer("no")), ("b", Answer("B", prompt_tokens=2)), ("c", Answer("C", fingerprint="f"))]
    assert mine.take_over(anyone) == 2 and mine.take_over(anyone) == 0, "where there is an answer it stays"
    assert mine.get("d") is None and mine.get("c") == mine.get("c") == Answer("C", fingerprint="f")
    assert mine.get("a") is not None, "given in this run"
    assert mine.usage == Usage(requests=3, known=1, failures=1, prompt_tokens=3, completion_tokens=10)
    mine.count(repairs=2, retries=1)
    assert (mine.usage.repairs, mine.usage.retries, mine.usage.requests) == (2, 1, 3)
    assert mine.usage.cost((2e6, 1e5)) == 7.0
    mine.close()
    mine.close()
    for server, known in (("mine", "abce"), ("other", "bc"), (None, "abce")):
        found = Answers(path, server)
        assert len(found) == len(known) and all(found.get(key) for key in known)
        assert found.usage == Usage(known=len(known), prompt_tokens=3, completion_tokens=10), "paid for all the same"
        found.close()


def test_a_file_of_answers_is_no_other_journal(tmp_path: Path) -> None:
    for name, settings in (("answers", {"answers of language models": 1}), ("other", {})):
        with Journal.open(tmp_path / name, settings) as journal:
            journal.append({"key": "a", "answer": {"content": "A"}})
    assert Answers(tmp_path / "answers").get("a") == Answer("A")
    with pytest.raises(DataError, match="other: holds unfinished work with other settings"):
        Answers(tmp_path / "other")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"key": 3}, "key"),
        ({"server": 3}, "server"),
        ({"answer": []}, "answer"),
        *(
            ({"answer": {name: []}}, rf"answer\.{name}")
            for name in ("content", "refusal", "finish", "failure", "model")
        ),
        *(({"answer": {name: []}}, rf"answer\.{name}") for name in ("fingerprint", "without", "completion_tokens")),
    ],
)
def test_a_record_of_another_shape_is_named(change: dict[str, Any], named: str, tmp_path: Path) -> None:
    with Journal.open(tmp_path / "answers", {"answers of language models": 1}) as journal:
        journal.append({"key": "a", "answer": {}})
        journal.append({"key": "a", "answer": {}, **change})
    with pytest.raises(
        DataError,
        match=rf"answers:3: the record\.{named} is .*\(move the file away, or delete this line and all after it\)$",
    ):
        Answers(tmp_path / "answers")


def test_answers_that_failed_are_asked_for_again_on_demand(tmp_path: Path) -> None:
    answers = Answers(tmp_path / "answers")
    answers.add("a", Answer(failure="server error 500"))
    answers.add("b", Answer("B"))
    answers.close()
    kept = Answers(tmp_path / "answers")
    assert kept.get("a") == Answer(failure="server error 500") and kept.usage.failures == kept.usage.known == 1
    assert kept.take_over([("a", Answer(failure="server error 500"))]) == 0, "the same failure"
    assert kept.take_over([("a", Answer(failure="another"))]) == 1
    kept.close()
    again = Answers(tmp_path / "answers", retry_failed=True)
    assert (again.get("a"), again.get("b"), len(again)) == (None, Answer("B"), 1)


def test_who_gave_the_answers_is_said_in_one_order() -> None:
    answers = Answers(None)
    assert answers.identity("m") == [] and answers.path is None
    for key, answer in enumerate([Answer(model="m"), Answer(model="n"), *(Answer(fingerprint=f) for f in "gfebacd")]):
        answers.add(str(key), answer)
    assert answers.identity("m") == ["model:n", "fingerprint:a+b+c+d+e+f+g"]
    answers.add("without", Answer(without="seed,temperature"))
    assert answers.identity("n") == ["model:m", "fingerprint:a+b+c+d+e+f+g", "without:seed,temperature"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (" an answer\n", "an answer"),
        ("<think>long\nthought</think> an answer", "an answer"),
        ("long\nthought</thinking> an answer", "an answer"),
        (" <thinking>a thought that\nhas no end", ""),
        ("it has <think> in it", "it has <think> in it"),
    ],
)
def test_thoughts_are_no_part_of_what_was_said(content: str, said: str) -> None:
    assert Answer(content).said == said


@pytest.mark.parametrize(
    ("content", "found", "fault"),
    [
        ('{"rewrites": ["a", "b"]}', ["a", "b"], None),
        ('{"rewrites": ["a", "b", "c"]}', ["a", "b", "c"], None),
        ('["a", "b"]', ["a", "b"], None),
        ('```json\n{"paraphrases": ["a", "b"]}\n```', ["a", "b"], None),
        ('Sure! Here it is: {"rewrites": ["a", "b"]} I hope it helps.', ["a", "b"], None),
        ('<think>{"rewrites": ["no"]}</think>\n{"rewrites": ["a", "b"]}', ["a", "b"], None),
        ('{"rewrites": ["a"]}', ["a"], None),
        ('{"rewrites": []}', [], "0 rewrites of 2"),
        ('{"rewrites": ["a", 3]}', ["a"], None),
        ('{"rewrites": [3]}', [], "no JSON list"),
        ('{"rewrites": ["a", "b"]', ["a", "b"], None),
        ('{"rewrites": ["a", "b', [], "no JSON list"),
        ('{"one": ["a"], "two": ["b"]}', [], "no JSON list"),
        ("a\nb", [], "no JSON list"),
        ("[" * 100_000, [], "no JSON list"),
        ("", [], "empty"),
        ("<think>hm</think> ", [], "empty"),
        ('A list ["no"]?</think>\n["a", "b"]', ["a", "b"], None),
        ('<think>["no", "no"]', [], "empty"),
    ],
)
def test_the_list_in_an_answer(content: str, found: list[str], fault: str | None) -> None:
    assert rewrites_in(Answer(content), 2, listed=True) == (found, fault)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('{"rewrites": ["a", "b \\"c\\"", "d', ["a", 'b "c"']),
        ('```json\n["a", "b"', ["a"]),
        ('{"rewrites": ["a', []),
        ('["\\x", "b", ', []),
        ("a, b", []),
        ('{"rewrites": [' + '"a", ' * 3, ["a"] * 3),
    ],
    ids=["escaped", "bare", "within the first", "no string", "no list", "after a comma"],
)
def test_what_is_whole_of_a_list_that_is_cut_short_is_taken(content: str, found: list[str]) -> None:
    expected = (found, None if found else "cut short")
    assert rewrites_in(Answer(content, finish="length"), 5, listed=True) == expected


def test_halves_of_surrogate_pairs_are_no_text() -> None:
    body = {**_body(content="a \ud83d b \U0001f600", refusal="\udc00"), "model": "m\ud800"}
    assert read_completion(body) == Answer("a \ufffd b \U0001f600", refusal="\ufffd", model="m\ufffd", prompt_tokens=3)


def test_a_sample_is_the_answer_itself() -> None:
    assert rewrites_in(Answer("<think>hm</think>\n a b "), 1, listed=False) == (["a b"], None)
    assert rewrites_in(Answer("hm\n</think>\n a b "), 1, listed=False) == (["a b"], None)
    assert rewrites_in(Answer("a", finish="length"), 1, listed=False) == ([], "cut short")
    assert rewrites_in(Answer("a", finish="content_filter"), 1, listed=False) == ([], "refused")
    assert rewrites_in(Answer(refusal="no"), 1, listed=False) == ([], "refused")


@pytest.fixture(scope="module")
def checks() -> Checks:
    prompt = load_prompt("faithful")
    bare = [message["content"] for message in prompt.messages(TextInContext(""), 2, "en")]
    return Checks([*bare, prompt.repair], "en")


def test_texts_that_differ_in_vowel_signs_are_no_copies() -> None:
    checks = Checks([], "hi")
    assert checks.sort(TextInContext("लड़का जाता है।"), ["लड़की जाती है।", "लड़का जाता है"]) == (["लड़की जाती है।"], ["a copy"])


@pytest.mark.parametrize(
    ("rewrite", "fault"),
    [
        ("Next week, the committee is to meet in the town once more.", None),
        ("The committee meets again.", None),
        ("the committee will meet again, in the town, NEXT week!", "a copy"),
        ("", "empty"),
        ("Nobody was there yesterday!", "a copy of the context"),
        ("Der Ausschuss trifft sich nächste Woche wieder in der Stadt", "a copy of the context"),
        ("Der Ausschuss wird sich in der kommenden Woche erneut in der Stadt versammeln.", "another language"),
        ("Le comité se réunira de nouveau dans la ville la semaine prochaine.", "another language"),
        ("委员会下周将再次在镇上开会。", "another language"),
        ("Here is a rewritten version: the committee will meet.", "an explanation"),
        ("Sure, the committee will meet in town again.", "an explanation"),
        ("I'm sorry, but I cannot help with that request.", "an explanation"),
        ("I cannot rewrite this text.", "an explanation"),
        ("As an AI I have no view on committees.", "an explanation"),
        ("I hope this helps: the committee will meet again.", "an explanation"),
        ("As requested, option 1: it meets. Option 2: it meets again.", "an explanation"),
        ("The committee meets.\nThis keeps the meaning.", "an explanation"),
        ("The committee meets " + "and meets " * 40, "an explanation"),
        ("Rewrite this text in 2 different ways, in the language of the text.", "the prompt"),
        ("I cannot come, the committee said.", None),
        ("Here are the people of the committee, and they will meet again.", None),
        ("Sure enough the committee will meet again.", None),
        ("The committee \ud83d will meet in town again.", "broken characters"),
        ("The committee \0 will meet in town again.", "broken characters"),
        ("The committee \u202e will meet in town again.", "broken characters"),
        ("The committee \ufffd will meet in town again.", "broken characters"),
        ("The committee \x1b[2J will meet in town again.", "broken characters"),
        ("The committee [key] will meet in town again.", "the key"),
        ("The committee\tis going to meet \u200bin \u200etown again.", None),
    ],
)
def test_what_is_no_rewrite_is_told(checks: Checks, rewrite: str, fault: str | None) -> None:
    assert checks.sort(TEXT, [rewrite]) == (([rewrite], []) if fault is None else ([], [fault]))


def test_each_is_kept_once(checks: Checks) -> None:
    found = ["The committee meets again.", "The committee meets again!", "It meets again."]
    assert checks.sort(TEXT, found, ["It meets, again."]) == (found[:1], [])


@pytest.mark.parametrize(
    ("text", "rewrite"),
    [
        ("Sure the number is 12.", "Sure, the number is 12, no more."),
        ("Surely the number is 12, isn't it?", "Of course, the number is 12, is it not?"),
        ("Of course the number is 12.", "Certainly, twelve (12) is the number."),
        ("Please note that the door is shut.", "Note that: the door has been shut."),
        ("I could not help him with that.", "I can't help him with that matter."),
        ("\u202bText\u202c of theirs", "\u202bA text\u202c that is theirs"),
        ("Note: the door is shut.", "Note: the door has been shut."),
        ("Sure, come in.", "Sure, do come in."),
        ("Guten Tag, Herr Müller, wie geht es Ihnen?", "Guten Tag, wie geht es Ihnen, Herr Müller?"),
        ("Borussia Dortmund 2, Bayern München 1", "Bayern München 1, Borussia Dortmund 2"),
    ],
)
def test_what_the_text_does_too_is_no_fault(checks: Checks, text: str, rewrite: str) -> None:
    assert checks.fault(TextInContext(text), rewrite) is None


@pytest.mark.parametrize(
    ("text", "rewrite"),
    [
        ("The number is 12.", "Sure, the number is 12, no more."),
        ("Sure the number is 12.", "Sure, here is a rewritten version: The number is 12."),
        ("I have 12 of them.", "I cannot assist with this request."),
        ("Here the number is 12.", "Here is a paraphrase: The number here is 12."),
    ],
    ids=["assent", "assent and more", "refusal", "here"],
)
def test_talk_that_the_text_does_not_begin_with_is_a_fault(checks: Checks, text: str, rewrite: str) -> None:
    assert checks.fault(TextInContext(text), rewrite) == "an explanation"


def test_without_a_language_that_of_the_text_counts() -> None:
    checks = Checks([], None)
    assert checks.fault(TEXT, "Der Ausschuss wird sich erneut in der Stadt versammeln.") == "another language"
    german = TextInContext("Der Ausschuss trifft sich nächste Woche wieder in der Stadt.")
    assert checks.fault(german, "Nächste Woche tagt der Ausschuss abermals in der Stadt.") is None
    assert checks.fault(german, "The committee will meet again in the town next week.") == "another language"
    assert checks.fault(TextInContext("OK"), "Der Ausschuss trifft sich nächste Woche wieder.") is None


@pytest.mark.parametrize(
    ("rewrite", "text", "expected"),
    [
        ("1. It is late.", "It is very late.", "It is late."),
        ("- It is late.", "It is very late.", "It is late."),
        ("1. It is late.", "2. It is very late.", "1. It is late."),
        ('"It is late."', "It is very late.", "It is late."),
        ("“It is late.”", "“It is very late.”", "“It is late.”"),
        ('"It" is "late"', "It is very late.", '"It" is "late"'),
        ("1990 was late.", "It was 1990.", "1990 was late."),
        ("3. Mai: Es ist spät.", "Am 3. Mai ist es spät.", "3. Mai: Es ist spät."),
        ("20. století začalo pozdě.", "Dvacáté století začalo později.", "20. století začalo pozdě."),
        ("1. It costs 1 euro.", "It cost 1 euro.", "It costs 1 euro."),
        ("1. it is late.", "it is very late.", "it is late."),
        (" It is\nlate. ", "It is very late.", "It is\nlate."),
        ("", "It is late.", ""),
        ("(2) It is late.", "It is very late.", "It is late."),
        ("a) It is late.", "It is very late.", "It is late."),
        ("A. Smith came late.", "Late came A. Smith.", "A. Smith came late."),
        ("1、现在很晚了。", "时候不早了。", "现在很晚了。"),
        ("（1）现在很晚了。", "时候不早了。", "现在很晚了。"),
        ("二、现在很晚了。", "时候不早了。", "现在很晚了。"),
        ("1.现在很晚了。", "时候不早了。", "现在很晚了。"),
        ("三、四天后就晚了。", "再过几天就晚了。", "三、四天后就晚了。"),
        ("3.5亿人来了。", "来了三亿五千万人。", "3.5亿人来了。"),
        ("「现在很晚了。」", "时候不早了。", "现在很晚了。"),
        ('1. "It is late."', "It is very late.", "It is late."),
        ("Version 2: It is late.", "It is very late.", "It is late."),
        ("Version 2: it is late.", "Version 2: it is very late.", "Version 2: it is late."),
        ('"Es ist spät."', "„Es ist sehr spät.“", '"Es ist spät."'),
        ('"Es ist spät."', "„Es ist sehr spät“.", '"Es ist spät."'),
        ('"Es ist spät."', "„Es ist sehr spät, und es regnet.", '"Es ist spät."'),
        ('"Er sagte, es sei spät."', "„Es ist spät“, sagte er.", "Er sagte, es sei spät."),
        ("'It's late.'", "It is very late.", "It's late."),
        ("> It is late.", ">It is very late.", "> It is late."),
        ("1. It is late. 2. It is night.", "It is very late.", "1. It is late. 2. It is night."),
        ("1.", "It is late.", "1."),
    ],
)
def test_what_lists_put_around_a_rewrite_is_taken_off(rewrite: str, text: str, expected: str) -> None:
    assert tidied(rewrite, text) == expected
