"""A model behind a server: what is asked, what is made of the answers, and of answers that do not come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import FINGERPRINT, ODD, RULES, ChatServer
from heard import Heard

from polyref import load_paraphraser
from polyref.chat.server import Server
from polyref.errors import ModelError, UsageError
from polyref.paraphrase import DiverseBeam
from polyref.paraphrase.rewriting import RewritingOptions, TextInContext
from polyref.paraphrase.rewriting.rewriter import Rewriter
from polyref.paraphrase.sentences import by_sentences
from polyref.progress import listening
from polyref.references import ReferenceSet

TEXT = "The committee will meet again in the town next week."
Asking = Callable[..., tuple[Rewriter, ChatServer]]
#: What goes wrong in an answer, and what it is called.
FAULTS = {
    "copies": "a copy",
    "empty": "empty",
    "German": "another language",
    "the prompt": "the prompt",
    "explains": "an explanation",
    "prose": "no JSON list",
    "refuses": "refused",
    "cut short": "cut short",
}
#: What goes wrong before there is an answer, and what it is called.
FAILURES = {
    "429": "rate limit",
    "500": "server error 500",
    "503": "server error 503",
    "half a JSON": "broken answer (no whole JSON)",
    "hangs up": "connection lost",
    "slow": "timeout",
}


def rewrites(*numbers: int, text: str = TEXT) -> list[str]:
    return [RULES[number].format(text) for number in numbers]


@pytest.mark.slow
def test_every_text_is_counted_when_its_answer_is_there(asking: Asking) -> None:
    rewriter, _ = asking()
    heard = Heard()
    with listening(heard):
        list(rewriter.paraphrase([TEXT, "", f"{TEXT} Or later."], 2, progress=True))
        list(rewriter.paraphrase([TEXT], 2))
    assert heard.pieces == [("rewriting", "texts", 3, 0, [1, 1, 1])]


@pytest.mark.slow
def test_a_list_in_one_answer(asking: Asking) -> None:
    rewriter, server = asking(seed=0)
    found = rewriter(TEXT, k=3)
    assert found.paraphrases == rewrites(0, 1, 2) and found.failure is None
    assert [one.score for one in found.hypotheses] == [None] * 3
    _, body = server.requests
    assert body["model"] == "tiny" and body["temperature"] == 0.7 and body["seed"] == 0
    schema = body["response_format"]["json_schema"]["schema"]["properties"]["rewrites"]
    assert schema["minItems"] == schema["maxItems"] == 3
    assert body["messages"][0]["role"] == "system" and f"\n> {TEXT}\n" in body["messages"][1]["content"]
    assert "(en)" in body["messages"][1]["content"]


@pytest.mark.slow
def test_samples_have_seeds_of_their_own(asking: Asking) -> None:
    rewriter, server = asking(form="samples", seed=3, temperature=1.5)
    assert rewriter(TEXT, k=3).paraphrases == rewrites(3, 4, 5)
    assert [body["seed"] for body in server.requests[1:]] == [3, 4, 5]
    assert all("response_format" not in body and body["temperature"] == 1.5 for body in server.requests)
    # Two samples that are alike are one paraphrase, and nobody's fault.
    assert len(rewriter("Prices rose fast last year.", k=9).paraphrases) == len(RULES)
    assert not rewriter.answers.usage.repairs


def test_parts_of_the_request_can_be_added_and_taken_out(asking: Asking) -> None:
    rewriter, server = asking(body={"top_p": 0.9, "max_tokens": None, "max_completion_tokens": 7}, max_tokens=5)
    assert rewriter(TEXT, k=1).paraphrases == rewrites(0)
    assert server.requests[1]["top_p"] == 0.9 and server.requests[1]["max_completion_tokens"] == 7
    assert "max_tokens" not in server.requests[1]
    plain, _ = asking()
    assert plain.signature != rewriter.signature


@pytest.mark.slow
def test_the_signature_says_who_answers_and_what_was_asked(asking: Asking) -> None:
    rewriter, _ = asking(seed=5, temperature=0.25)
    parts = rewriter.signature.split("|")
    assert parts[:3] == ["openai:tiny", "model:tiny-2026", f"fingerprint:{FINGERPRINT}"]
    assert parts[4:] == ["temperature:0.25", "seed:5", "lang:en"]
    assert rewriter.describe(None, 3).endswith("|rewriting(faithful-1,list)")
    others = [
        {"prompt": "diverse"},
        {"seed": 6},
        {"temperature": 0.5},
        {"temperature": 0.25000001},
        {"max_tokens": 9},
        {"context": 1},
    ]
    signatures = {asking(**{"seed": 5, "temperature": 0.25, **other})[0].signature for other in others}
    assert len({*signatures, rewriter.signature}) == len(others) + 1
    assert asking(form="samples")[0].describe(None, 3) != asking()[0].describe(None, 3)
    # How patiently, and how many at a time, does not matter.
    assert asking(seed=5, temperature=0.25, concurrency=2, timeout=9.0)[0].signature == rewriter.signature


def test_a_search_is_refused(asking: Asking) -> None:
    rewriter, _ = asking()
    with pytest.raises(UsageError, match="`jobs` is 2, but openai runs in one process"):
        load_paraphraser("openai:tiny", jobs=2)
    with pytest.raises(UsageError, match=r"openai:tiny does not search: it has rewriting\(faithful-1,list\)"):
        rewriter(TEXT, decoding=DiverseBeam(beam=8))


def test_source_and_neighbours_are_shown(asking: Asking) -> None:
    rewriter, server = asking()
    text = TextInContext(
        TEXT, source="Der Ausschuss trifft sich.", before=["It was late.", "All left."], after=["Soon."]
    )
    assert rewriter(text, k=1).paraphrases == rewrites(0)
    asked = server.requests[1]["messages"][1]["content"]
    for shown in ("> Der Ausschuss trifft sich.", "> It was late.\n> All left.", "> Soon."):
        assert shown in asked
    # The same text elsewhere is another request; in the same place it is asked for once.
    rewriter([TEXT, text, TEXT, TextInContext(TEXT, before=["Other."])], k=1)
    assert len(server.requests) == 4


def test_a_word_in_place_of_a_key_is_left_in_answers(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    rewriter, server = asking()
    monkeypatch.setenv("OPENAI_API_KEY", "town")
    named = Server("tiny", str(rewriter._options.base_url))
    body = rewriter.requests.first(TextInContext(TEXT), 1)[0].body
    assert "in the town" in named.answer(body).content
    assert server.headers[-1]["authorization"] == "Bearer town"
    monkeypatch.setenv("OPENAI_API_KEY", "in the town next")
    assert "again [key] week" in Server("tiny", str(rewriter._options.base_url)).answer(body).content


def test_empty_texts_are_not_sent(asking: Asking) -> None:
    rewriter, server = asking()
    assert [found.paraphrases for found in rewriter(["", " \t", TEXT], k=1)] == [[], [], rewrites(0)]
    assert len(server.requests) == 2


@pytest.mark.slow
@pytest.mark.parametrize("trouble", FAULTS)
def test_a_faulty_answer_is_repaired_by_a_second_request(asking: Asking, trouble: str) -> None:
    def once(text: str, attempt: int, repair: bool) -> str | None:
        return trouble if text == TEXT and not repair else None

    rewriter, server = asking(once)
    assert rewriter(TEXT, k=3).paraphrases == rewrites(0, 1, 2)
    first, second = server.requests[1:]
    assert second["messages"][:2] == first["messages"]
    assert [message["role"] for message in second["messages"][2:]] == ["assistant", "user"]
    assert f"cannot be used: {FAULTS[trouble]}." in second["messages"][3]["content"]
    assert rewriter.answers.usage.repairs == 1


@pytest.mark.slow
@pytest.mark.parametrize("trouble", FAULTS)
def test_what_cannot_be_repaired_fails_with_its_reason(asking: Asking, trouble: str) -> None:
    rewriter, server = asking(lambda text, attempt, repair: trouble if text == TEXT else None)
    found, other = rewriter([TEXT, "Prices rose fast last year."], k=3)
    assert len(other.paraphrases) == 3 and other.failure is None
    assert len(server.requests) == 4
    assert (found.paraphrases, found.failure) == ([], FAULTS[trouble])


@pytest.mark.parametrize("trouble", [None, "wrong count", "cut within", "400"])
def test_there_is_one_call_a_reference(
    polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [f"This is the sentence with number {number}." for number in range(8)]
    Path("refs").write_text("".join(f"{text}\n" for text in texts))
    server = ChatServer(lambda text, attempt, repair: trouble if text == texts[0] else None)
    with server.running() as url:
        command = ["augment", "refs", "--lang=en", "-o", "out", "-k", 3, "--filter", "none", "--json"]
        command += ["--model", "openai:tiny", "--base-url", url]
        result = polyref(*command)
        row = result.json()["rows"][0]
        # Where the first text is not taken, a plain sentence shows whether others are.
        assert len(server.requests) == 8 + (trouble == "400")
        assert row["requests"]["requests"] == len(server.requests) and row["requests"]["known"] == 0
        assert row["kept"] == {None: 24, "wrong count": 22, "cut within": 24, "400": 21}[trouble], result.err
        again = polyref(*command)
        assert len(server.requests) == 8 + (trouble == "400") and again.code == 0
    lines = [json.loads(line) for line in Path("out").read_text().splitlines()]
    assert f"openai:tiny|model:tiny-2026|fingerprint:{FINGERPRINT}|" in lines[0]["meta"]["generator"]
    assert lines[1]["refs"][0].get("failed") == ("request not accepted (400)" if trouble == "400" else None)


def test_a_generator_knows_who_answers_from_its_first_text() -> None:
    with ChatServer().running() as url:
        rewriter = load_paraphraser("openai:tiny", lang="en", rewriting=RewritingOptions(base_url=url))
        assert "fingerprint" not in rewriter.signature
        split = by_sentences(rewriter, "en", "all")
        split.prepare(["", f"{TEXT} Prices rose fast last year."], 1)
        assert f"fingerprint:{FINGERPRINT}" in split.signature == rewriter.signature
        assert rewriter.answers.usage.requests == 1  # type: ignore[attr-defined]
        split(f"{TEXT} Prices rose fast last year.", k=1)
        assert rewriter.answers.usage.requests == 2  # type: ignore[attr-defined]


def test_one_rewrite_is_enough_not_to_ask_again(asking: Asking) -> None:
    rewriter, server = asking(lambda text, attempt, repair: "wrong count" if text == TEXT else None)
    found = rewriter(TEXT, k=3)
    assert found.paraphrases == rewrites(0) and found.failure is None
    assert len(server.requests) == 2 and not rewriter.answers.usage.repairs


@pytest.mark.parametrize("form", ["list", "samples"])
@pytest.mark.parametrize("trouble", sorted(ODD))
def test_odd_characters_are_a_fault_of_their_rewrite_and_are_paid_for_once(
    polyref: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
    form: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("refs").write_text(f"{TEXT}\n")
    server = ChatServer(lambda text, attempt, repair: trouble if text == TEXT else None)
    with server.running() as url:
        command = ["augment", "refs", "--lang=en", "-o", "out", "-k", 1, "--model", "openai:tiny", "--base-url", url]
        command += ["--filter", "none", "--answer-form", form, "--json", "--retries", 1]
        first = polyref(*command)
        assert first.code == 0, first.err
        asked, kept = len(server.requests), Path("out").read_bytes()
        again = polyref(*command)
        assert again.code == 0 and len(server.requests) == asked
    assert Path("out").read_bytes() == kept
    (segment,) = ReferenceSet.load("out")
    if form == "list":
        assert asked == 1 and [ref.text for ref in segment.refs] == [TEXT, *rewrites(1)]
    else:  # every sample has them, and its repair too
        assert asked == 4 and [ref.text for ref in segment.refs] == [TEXT]
        assert first.json()["rows"][0]["failed"] == {"broken characters": 1}
        assert json.loads(Path("out").read_text().splitlines()[1])["refs"][0]["failed"] == "broken characters"


@pytest.mark.slow
@pytest.mark.parametrize("trouble", FAILURES)
def test_a_request_without_an_answer_is_sent_again(asking: Asking, trouble: str) -> None:
    def once(text: str, attempt: int, repair: bool) -> str | None:
        return trouble if text == TEXT and attempt == 0 else None

    rewriter, server = asking(once, timeout=2.0)
    assert rewriter(TEXT, k=2).paraphrases == rewrites(0, 1)
    assert server.requests[1] == server.requests[2] and len(server.requests) == 3
    assert rewriter.answers.usage.retries == 1 and not rewriter.answers.usage.repairs


@pytest.mark.slow
@pytest.mark.parametrize("trouble", FAILURES)
def test_what_never_gets_an_answer_fails_and_is_asked_again_only_on_demand(
    asking: Asking, trouble: str, tmp_path: Path
) -> None:
    broken = [True]

    def trouble_of(text: str, attempt: int, repair: bool) -> str | None:
        return trouble if text == TEXT and broken[0] else None

    rewriter, server = asking(trouble_of, timeout=1.5, retries=1, answers=tmp_path / "answers")
    found, other = rewriter([TEXT, "Prices rose fast last year."], k=2)
    assert (found.paraphrases, found.failure) == ([], FAILURES[trouble])
    assert len(other.paraphrases) == 2
    assert list(server.attempts.values()).count(2) == 1
    broken[0] = False
    assert rewriter(TEXT, k=2).failure == FAILURES[trouble]
    options = rewriter._options
    rewriter.answers.close()
    again = load_paraphraser("openai:tiny", lang="en", rewriting=options)
    assert again(TEXT, k=2).failure == FAILURES[trouble]
    again.answers.close()  # type: ignore[attr-defined]
    on_demand = load_paraphraser(
        "openai:tiny", lang="en", rewriting=RewritingOptions(**{**vars(options), "retry_failed": True})
    )
    assert on_demand(TEXT, k=2).paraphrases == rewrites(0, 1)
    on_demand.answers.close()  # type: ignore[attr-defined]


def test_a_redirection_is_an_error_of_its_call(asking: Asking) -> None:
    rewriter, server = asking(lambda text, attempt, repair: "302" if text == TEXT else None)
    found, other = rewriter([TEXT, "Prices rose fast last year."], k=2)
    assert found.failure == "redirected (302)" and len(other.paraphrases) == 2
    assert len(server.requests) == 3


def test_a_line_that_failed_says_so_in_its_row(polyref: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "refs").write_text(f"{TEXT}\nPrices rose fast last year.\n")
    command = ["paraphrase", tmp_path / "refs", "--lang", "en", "--model", "openai:tiny", "-k", 1]
    server = ChatServer(lambda text, attempt, repair: "400" if text == TEXT else None)
    with server.running() as url:
        result = polyref(*command, "--base-url", url)
    assert result.code == 0, result.err
    failed, fine = map(json.loads, result.out.splitlines())
    assert failed["failed"] == "request not accepted (400)" and "failed" not in fine and fine["paraphrases"]
    assert "of a request that failed the server says: error 400, Bearer none (--body changes requests)" in result.err


@pytest.mark.parametrize("part", ["temperature", "seed", "max_tokens", "response_format"])
def test_a_part_that_the_server_refuses_by_name_is_left_out(asking: Asking, tmp_path: Path, part: str) -> None:
    server = ChatServer()
    server.refuses = (part,)
    with server.running() as url:
        options = {"base_url": url, "answers": tmp_path / "answers"}
        rewriter, _ = asking(**options)
        found = rewriter(TEXT, k=1)
        assert found.paraphrases == rewrites(0), found.failure
        # The first request finds it out, and the others know.
        assert [part in body for body in server.requests] == [True, False, False]
        assert f"|without:{part}|" in rewriter.signature and rewriter.asker.without == (part,)
        rewriter.close()
        later, _ = asking(**options)
        later("Prices rose fast last year.", k=1)
        assert later.signature == rewriter.signature
        assert [part in body for body in server.requests] == [True, False, False, False]


def test_several_parts_can_be_refused_and_those_of_the_user_are_not_left_out(asking: Asking) -> None:
    server = ChatServer()
    server.refuses = ("temperature", "max_tokens")
    with server.running() as url:
        rewriter, _ = asking(base_url=url)
        assert rewriter(TEXT, k=1).paraphrases == rewrites(0)
        assert rewriter.asker.without == ("temperature", "max_tokens")
        server.refuses = ("top_p",)
        with pytest.raises(ModelError, match=r"not accepted \(400\): error 400 top_p, .*\(`body` changes or takes out"):
            asking(base_url=url, body={"top_p": 0.9})


def test_a_part_that_one_request_may_not_have_is_left_out_of_that_one(asking: Asking) -> None:
    rewriter, server = asking(lambda text, attempt, repair: "400 seed" if text == TEXT else None)
    assert rewriter(TEXT, k=1).failure == "request not accepted (400)"
    assert ["seed" in body for body in server.requests] == [True, True, False]
    rewriter("Prices rose fast last year.", k=1)
    assert "seed" in server.requests[-1] and not rewriter.asker.without


def test_a_request_that_is_not_accepted_fails_alone(asking: Asking) -> None:
    rewriter, server = asking(lambda text, attempt, repair: "400" if text == TEXT else None)
    found, other = rewriter([TEXT, "Prices rose fast last year."], k=2)
    assert found.failure == "request not accepted (400)" and len(other.paraphrases) == 2
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("401", r"does not accept the key \(401\).*set OPENAI_API_KEY"),
        ("404", r"no such model or address \(404\).*base_url"),
        ("429 insufficient_quota", r"the account is empty \(429\)"),
        ("400", r"the first request got no answer: request not accepted \(400\): error 400, .*`body`"),
        ("307", r"the first request got no answer: redirected \(307\)"),
    ],
)
def test_what_concerns_every_request_ends_the_run(asking: Asking, trouble: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        asking(lambda text, attempt, repair: trouble)
    if trouble not in ("400", "307"):
        rewriter, _ = asking(lambda text, attempt, repair: trouble if text == TEXT else None)
        with pytest.raises(ModelError, match=message):
            rewriter(["Prices rose fast last year.", TEXT], k=1)


def test_a_server_that_is_not_there_is_named(asking: Asking) -> None:
    with pytest.raises(ModelError, match=r"the server http://127.0.0.1:9/v1/ cannot be reached: .*no answer is lost"):
        asking(base_url="http://127.0.0.1:9/v1", retries=0)


@pytest.mark.slow
def test_a_server_that_answers_nothing_any_more_ends_the_run(asking: Asking) -> None:
    rewriter, server = asking(lambda text, attempt, repair: "500" if "number" in text else None, retries=0)
    texts = [f"This is the sentence with number {number}." for number in range(40)]
    with pytest.raises(ModelError, match="did not answer the last 16 requests"):
        rewriter(texts, k=1)
    assert len(server.requests) < 40


def test_a_server_that_wants_to_be_left_alone_for_hours_is_left_alone(asking: Asking) -> None:
    from polyref.chat.asking import Patience, TransientError

    def call() -> None:
        raise TransientError("rate limit", after=7200.0)

    with pytest.raises(ModelError, match=r"the server asks to wait 7200 seconds \(rate limit\)"):
        Patience(3, 0).insist(call, "key")


def test_waits_double_and_vary_with_the_seed() -> None:
    from polyref.chat.asking import Patience

    waits = [Patience(3, 0).wait("key", attempt) for attempt in range(12)]
    assert waits == [Patience(9, 0).wait("key", attempt) for attempt in range(12)]
    assert waits != [Patience(3, 1).wait("key", attempt) for attempt in range(12)]
    assert waits != [Patience(3, 0).wait("other", attempt) for attempt in range(12)]
    for attempt, wait in enumerate(waits):
        middle = min(0.5 * 2**attempt, 60)
        assert 0.5 * middle <= wait <= 1.5 * middle


@pytest.mark.slow
def test_results_depend_neither_on_concurrency_nor_on_order(asking: Asking) -> None:
    troubles = [None, "wrong count", "429", None, "refuses"]

    def some(text: str, attempt: int, repair: bool) -> str | None:
        return None if attempt or repair or "number" not in text else troubles[len(text) % 5]

    texts = [f"This is the sentence with number {10**number}." for number in range(12)]
    rewriter, server = asking(some, concurrency=1)
    alone = rewriter(texts, k=2)
    assert server.most == 1
    many, server = asking(some, concurrency=6)
    server.delay = 0.02
    assert many(texts, k=2) == alone
    assert 2 <= server.most <= 6
    assert many(texts[::-1], k=2) == alone[::-1]


@pytest.mark.slow
def test_a_generator_that_is_left_early_can_be_used_again(asking: Asking) -> None:
    rewriter, _ = asking()
    texts = [f"This is the sentence with number {number}." for number in range(30)]
    lists = rewriter.paraphrase(texts, 1)
    assert next(lists).paraphrases == rewrites(0, text=texts[0])
    lists.close()  # type: ignore[attr-defined]
    assert len(rewriter(texts, k=1)) == 30


@pytest.mark.slow
@pytest.mark.parametrize("ended", ["closed", "left", "failed"])
def test_what_has_ended_asks_nothing_more(asking: Asking, ended: str) -> None:
    def some(text: str, attempt: int, repair: bool) -> str | None:
        return "401" if ended == "failed" and text.endswith(" 1.") else "refuses" if "number" in text else None

    rewriter, server = asking(some, form="samples", concurrency=4)
    server.delay = 0.05
    lists = rewriter.paraphrase([f"This is the sentence with number {number}." for number in range(60)], 5)
    if ended == "failed":
        with pytest.raises(ModelError, match="does not accept the key"):
            list(lists)
    else:
        next(lists)
        (rewriter if ended == "closed" else lists).close()  # type: ignore[union-attr]
    asked, answered = len(server.requests), sum(server.given.values())
    assert asked < 60 and answered == (asked if ended != "failed" else asked - 1)
    assert len(rewriter.answers) == answered
    time.sleep(0.3)
    assert len(server.requests) == asked
    if ended == "closed":
        with pytest.raises(UsageError, match="openai:tiny was closed and asks nothing more"):
            next(lists)
        with pytest.raises(UsageError, match="openai:tiny was closed and asks nothing more"):
            rewriter("Prices rose fast last year.", k=1)
        assert len(server.requests) == asked


@pytest.mark.slow
def test_a_program_that_fails_asks_nothing_more() -> None:
    """Its list is neither read to the end nor closed: an uncaught error keeps it alive until the threads have ended."""
    server = ChatServer()
    server.delay = 0.1
    with server.running() as url:
        program = f"""
import time
from polyref import load_paraphraser
from polyref.paraphrase.rewriting import RewritingOptions
texts = [f"This is the sentence with number {{number}}." for number in range(60)]
options = RewritingOptions(base_url={url!r}, concurrency=2)
lists = load_paraphraser("openai:tiny", lang="en", rewriting=options).paraphrase(texts, 1)
next(lists)
time.sleep(0.05)  # less than an answer takes: the threads have asked, and wait
raise SystemError
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "SystemError" in done.stderr and "Traceback" not in done.stderr.split("SystemError")[1]
    assert 2 <= len(server.requests) <= 5


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("openai:ti\udcffny", {}, "the model's name is 'ti.udcffny', which cannot be sent"),
        ("openai:ti\nny", {}, "the model's name is 'ti.nny', which cannot be sent"),
        ("openai:tiny", {"body": {"user": "\ud83d"}}, "`body` holds what JSON cannot"),
        ("openai:tiny", {"body": {"top_p": float("nan")}}, "`body` holds what JSON cannot"),
        ("openai:tiny", {"body": {"stop": {"a"}}}, "`body` holds what JSON cannot"),
        ("openai:tiny", {"body": {"n": 2}}, "`body` names 'n', which polyref sets"),
    ],
    ids=["model, half a pair", "model, line feed", "half a pair", "nan", "set", "n"],
)
def test_what_cannot_be_sent_is_refused_before_anything_is_asked(
    model: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        load_paraphraser(model, lang="en", rewriting=RewritingOptions(**options))


def test_a_text_that_is_none_fails_alone(asking: Asking) -> None:
    rewriter, server = asking()
    found, other = rewriter([f"{TEXT} \ud83d", TEXT], k=1)
    assert found.failure == "half of a surrogate pair cannot be sent" and other.paraphrases == rewrites(0)
    assert len(server.requests) == 2


@pytest.mark.parametrize("key", ["sk-\u00e4", "sk-a\nb"], ids=["not ASCII", "two lines"])
def test_a_key_that_is_none_is_refused_without_saying_it(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UsageError, match="OPENAI_API_KEY has characters that no key has") as caught:
        Server("tiny", "http://127.0.0.1:9/v1")
    assert "sk-" not in str(caught.value)


def test_an_address_that_holds_the_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    with pytest.raises(UsageError, match="`base_url` holds the key") as caught:
        Server("tiny", "http://127.0.0.1:9/sk-0123456789/v1")
    assert "sk-0" not in str(caught.value)


#: How a key stands in the bytes of an answer; the list of rewrites is JSON in JSON.
SPELT = {
    "plain": b"sk-abc/def",
    "slash": b"sk-abc\\/def",
    "slash within": b"sk-abc\\\\/def",
    "number": b"\\u0073k-abc/de\\u0066",
    "number within": b"\\\\u0073k-abc\\\\u002Fdef",
    "after a line feed": b"\\\\nsk-abc/def",
}


@pytest.mark.parametrize("form", ["list", "samples"])
@pytest.mark.parametrize("spelt", SPELT)
def test_a_short_key_is_crossed_out_however_it_is_spelt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spelt: str, form: str
) -> None:
    key = "sk-abc/def"
    monkeypatch.setattr("chat_server.RULES", (f"People say: {{}} Bearer {key}", *RULES[1:]))
    server = ChatServer(lambda text, attempt, repair: f"400 Bearer {key}" if text.startswith("Prices") else None)
    server.spells = {key.encode(): SPELT[spelt]}
    with server.running() as url:
        monkeypatch.setenv("OPENAI_API_KEY", key)
        options = RewritingOptions(base_url=url, form=form, answers=tmp_path / "answers")
        rewriter = load_paraphraser("openai:tiny", lang="en", rewriting=options)
        assert isinstance(rewriter, Rewriter)
        found, failed = rewriter([TEXT, "Prices rose fast last year."], k=2)
        rewriter.close()
    assert found.paraphrases == rewrites(1)
    assert failed.failure == "request not accepted (400)" and "[key]" in rewriter.said
    kept = (tmp_path / "answers").read_text()
    assert "[key]" in kept and "k-abc" not in kept and "k-abc" not in repr((found, failed, rewriter.said))


def test_a_server_that_changes_is_noticed(asking: Asking) -> None:
    rewriter, server = asking()
    rewriter(TEXT, k=1)
    assert not rewriter.answers.usage.other
    server.fingerprint = "fp_later"
    rewriter(TEXT, k=2)
    assert rewriter.answers.usage.other == 1


@pytest.mark.parametrize("library", ["openai", "py3langid.langid"])
def test_a_library_that_is_not_installed_is_named(
    asking: Asking, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    from polyref.paraphrase.rewriting.checks import _identifier

    _identifier.cache_clear()
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModelError, match=r"cannot be imported: .*pip install openai py3langid"):
        asking()


@pytest.mark.slow
def test_answers_of_one_server_do_not_count_for_another(asking: Asking, tmp_path: Path) -> None:
    for number in range(2):
        rewriter, server = asking(answers=tmp_path / "answers")
        assert rewriter(TEXT, k=1).paraphrases == rewrites(0)
        assert len(server.requests) == 2 and len(rewriter.answers) == 2, number
        rewriter.answers.close()


def test_no_server_is_asked_that_nobody_named(polyref: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "refs").write_text(f"{TEXT}\n")
    result = polyref("augment", tmp_path / "refs", "--lang=en", "--model", "openai:tiny")
    assert result.code == 2 and "--model openai:NAME needs a server" in result.err
    assert load_paraphraser("openai:tiny")(TEXT, k=1).failure == "not answered in the batch"


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x/v1", "http://", "http://me:secret@x/v1", "http://x/v1?key=secret"]
)
def test_addresses_that_are_none_or_hold_a_key_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="`base_url`") as caught:
        load_paraphraser("openai:tiny", lang="en", rewriting=RewritingOptions(base_url=url))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompt", "diverse"], "--prompt is an option of language models"),
        (["--model", "openai:m", "--price", "nan", "1"], "--price is nan 1.0, expected two numbers from 0"),
        (["--model", "openai:m", "--price", "1", "-2"], "--price is 1.0 -2.0, expected two numbers from 0"),
        (["--model", "openai:x", "--base-url", "http://x", "--beam", "7"], "--beam is an option of a search"),
        (["--model", "openai:x", "--base-url", "http://x", "--batch", "write", "b"], "--batch write asks no server"),
        (
            ["--model", "openai:x", "--batch", "write", "b", "--body", "[]"],
            "--body is '\\[\\]', expected a JSON object",
        ),
        (
            ["--model", "openai:x", "--batch", "write", "b", "--body", '{"n": 2}'],
            "--body names 'n', which polyref sets",
        ),
        (["--model", "openai:x", "--batch", "write", "b", "--prompt", "mine"], "mine: no such prompt"),
        (
            ["--model", "openai:x", "--base-url", "http://x", "--jobs", "2"],
            "--jobs is 2, but language models are asked",
        ),
        (["--model", "openai:", "--batch", "write", "b"], "no model is named"),
    ],
)
def test_options_that_do_not_fit(
    polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("refs").write_text(f"{TEXT}\n")
    result = polyref("augment", "refs", "-o", "out", "--lang", "en", *arguments)
    assert result.code in (1, 2)
    import re

    assert re.search(message, result.err), result.err
    assert not Path("out").exists()


@pytest.mark.slow
def test_the_key_is_nowhere_but_in_the_header(tmp_path: Path) -> None:
    """A server that says the key back, in answers and in errors, to a client that logs all it can."""
    key = "sk-the-key-of-the-tests-0123456789"

    def some(text: str, attempt: int, repair: bool) -> str | None:
        return {"1": "the key", "2": "500", "3": "400"}.get(text[-2])

    refs = tmp_path / "refs"
    refs.write_text("".join(f"This is the sentence with number {number}.\n" for number in range(4)))
    environment = {**os.environ, "OPENAI_API_KEY": key, "OPENAI_LOG": "debug", "OMP_NUM_THREADS": "1"}
    said = ""
    for trouble in (some, lambda *about: "401"):
        server = ChatServer(trouble)
        with server.running() as url:
            command = ["augment", str(refs), "--lang=en", "-k1", "--model", "openai:tiny"]
            command += ["--base-url", url, "--retries", "0"]
            out = tmp_path / ("out" if trouble is some else "refused")
            done = subprocess.run(
                [sys.executable, "-m", "polyref", *command, "--filter", "none", "-o", str(out), "--json"],
                capture_output=True,
                text=True,
                env=environment,
                cwd=tmp_path,
            )
        said += done.stdout + done.stderr
        assert all(headers["authorization"] == f"Bearer {key}" for headers in server.headers)
        assert done.returncode == (0 if trouble is some else 1), done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"out", "out.answers"}
    # A rewrite in which it was crossed out is none.
    assert "[key]" in (tmp_path / "out.answers").read_text() and '"failed": "the key"' in (tmp_path / "out").read_text()
    assert "does not accept the key (401)" in said and "[key]" in said
    assert key not in said
    assert not [path for path in files if key.encode() in path.read_bytes()]


@pytest.mark.slow
def test_the_set_says_what_it_is_made_of(
    polyref: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("refs").write_text(f"{TEXT}\n\nPrices rose fast last year.\n")
    Path("src").write_text("Der Ausschuss.\n\nDie Preise.\n")
    server = ChatServer(lambda text, attempt, repair: "refuses" if text.startswith("Prices") else None)
    with server.running() as url:
        command = ["augment", "refs", "--lang=en", "-k", 2, "-o", "out", "--model", "openai:tiny", "--base-url", url]
        command += ["--source", "src", "--context", 1, "--seed", 4, "--temperature", 0.5, "--price", 2, 10, "--json"]
        command += ["--filter", "none"]
        result = polyref(*command)
        assert result.code == 0, result.err
        asked = len(server.requests)
        again = polyref(*command, "--select", "mmr")
        assert again.code == 0 and len(server.requests) == asked
    lines = [json.loads(line) for line in Path("out").read_text().splitlines()]
    meta = lines[0]["meta"]
    assert meta["seed"] == 4 and [one["name"] for one in meta["inputs"]] == ["refs", "src"]
    for part in (
        "openai:tiny",
        "prompt:faithful-1:",
        "temperature:0.5",
        "seed:4",
        "context:1",
        f"fingerprint:{FINGERPRINT}",
    ):
        assert part in meta["generator"]
    assert [ref.get("generator") for ref in lines[1]["refs"]] == [None, "openai:tiny", "openai:tiny"]
    assert len(lines[3]["refs"]) == 1
    row = result.json()["rows"][0]
    assert row["failed"] == {"refused": 1} and row["short"] == 1
    assert "1 reference failed and got no paraphrases: refused (1)" in result.err
    usage = row["requests"]
    assert usage["requests"] == asked == 3 and usage["repairs"] == 1 and usage["known"] == 0
    assert row["cost"] == round((usage["prompt_tokens"] * 2 + usage["completion_tokens"] * 10) / 1e6, 6) > 0
    assert again.json()["rows"][0]["requests"]["known"] == 3
    texts = {body["messages"][1]["content"] for body in server.requests}
    assert any("> Der Ausschuss.\n" in text and "Prices" not in text for text in texts)
