"""Who answers and what is left out: a model of this program is asked, so that nothing waits for a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from polyref.chat import asking
from polyref.chat.answers import Answer, Answers
from polyref.chat.asking import (
    Asker,
    GivenUpError,
    Nobody,
    Patience,
    RefusedError,
    StoppedError,
    TransientError,
    plain,
)
from polyref.chat.requests import Request
from polyref.errors import ModelError

PARTS = {"temperature": 0.5, "seed": 1, "max_tokens": 9, "response_format": {}, "top_p": 0.9}


class Model:
    """Answers with the names of a request's parts, unless ``trouble`` raises something."""

    model = "tiny"

    def __init__(self, trouble: Callable[[Mapping[str, Any]], object] = lambda body: None, **answer: Any) -> None:
        self.asked: list[list[str]] = []
        self.trouble, self.given = trouble, answer

    def answer(self, body: Mapping[str, Any]) -> Answer:
        self.asked.append(sorted(body))
        self.trouble(body)
        return Answer(**{"content": ",".join(sorted(body)), **self.given})


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(asking, "_FIRST_WAIT", 0.0)
    yield


def asker(model: Any, path: Path | None = None, retries: int = 1, **options: Any) -> tuple[Asker, Patience]:
    made = Asker(model, Answers(path), retries=retries, seed=0, **options)
    return made, made.patience()


def request(number: int = 0, text: str = "It is late.", **parts: Any) -> Request:
    return Request(number, {"messages": [{"role": "user", "content": text}], **parts})


def refusing(*names: str) -> Callable[[Mapping[str, Any]], object]:
    def trouble(body: Mapping[str, Any]) -> None:
        if named := [name for name in names if name in body]:
            raise RefusedError("refused (400)", f"no {named[0]}", ["messages", "model", *named])

    return trouble


@pytest.mark.parametrize("name", ["temperature", "seed", "max_tokens", "response_format"])
def test_a_part_that_is_refused_in_the_first_request_is_left_out_of_all(name: str) -> None:
    model = Model(refusing(name))
    asks, patience = asker(model)
    first = asks.begin(request(**PARTS), request(), patience)
    assert first == Answer(",".join(sorted({"messages", *PARTS} - {name})), without=name)
    assert asks.without == (name,)
    assert name not in asks.ask(request(1, **PARTS), patience).content
    assert asks.ask(request(2), patience).without is None, "it has no such part"
    assert [name in asked for asked in model.asked] == [True, False, False, False]
    assert list(asks.report(None))[1:] == [f"the server refuses {name}: requests were sent without"]


def test_parts_are_left_out_one_by_one_and_never_those_of_the_user() -> None:
    asks, patience = asker(Model(refusing("seed", "temperature")))
    assert asks.begin(request(**PARTS), request(), patience).without == "seed,temperature"
    assert asks.without == ("seed", "temperature")
    assert "the server refuses seed, temperature: requests were sent without" in asks.report(None)
    for kept in ({"seed": 1}, {"top_p": 0.9}):  # what is never optional is as if the user asked for it
        asks, patience = asker(Model(refusing(*kept)), body=kept)
        with pytest.raises(
            ModelError, match=r"the first request got no answer: refused \(400\): no .* \(`body` changes"
        ):
            asks.begin(request(**PARTS), request(**PARTS), patience)
    with pytest.raises(Exception, match="`body` names 'n'"):
        asker(Model(), body={"n": 2})


def test_the_first_request_may_fail_by_its_text_and_the_plain_one_is_asked() -> None:
    def trouble(body: Mapping[str, Any]) -> None:
        if "late" in body["messages"][0]["content"]:
            raise RefusedError("refused (400)", "not this text")

    model = Model(trouble, fingerprint="f")
    asks, patience = asker(model)
    assert asks.begin(request(), request(1, "Plain."), patience).fingerprint == "f"
    assert asks.ask(request(), patience) == Answer("not this text", failure="refused (400)"), "it is not asked again"
    assert len(model.asked) == 2
    for given in (request(2), request(3, "half \ud83d")):  # that one is not even sent
        failing, patience = asker(trying := Model(trouble))
        assert failing.begin(given, request(1, "Plain."), patience).failure is None
        assert len(trying.asked) == (2 if given.number == 2 else 1)
    failing, patience = asker(Model(trouble))
    with pytest.raises(ModelError, match=r"the first request got no answer: refused \(400\): not this text"):
        failing.begin(request(), request(1), patience)


def test_a_plain_request_that_failed_before_is_asked_again(tmp_path: Path) -> None:
    answers = Answers(tmp_path / "answers")
    for number in (0, 1):
        answers.add(request(number).key, Answer("sorry", failure="server error 500"))
    answers.close()
    model = Model()
    asks, patience = asker(model, tmp_path / "answers")
    assert asks.begin(request(0), request(1), patience).failure is None and len(model.asked) == 1
    again, patience = asker(model, None)
    again.answers = asks.answers
    assert again.begin(request(1), request(1), patience).failure is None and len(model.asked) == 1, "known"


def test_what_is_known_is_not_asked_again_and_who_answers_is_watched() -> None:
    model = Model(fingerprint="one")
    asks, patience = asker(model)
    asks.begin(request(), request(), patience)
    assert asks.ask(request(), patience) is asks.answers.get(request().key) and len(model.asked) == 1
    asks.ask(request(1), patience)
    assert asks.answers.usage.other == 0
    model.given = {"fingerprint": "two", "prompt_tokens": 1_500, "completion_tokens": 20}
    asks.ask(request(2), patience)
    model.trouble = refusing("seed")
    assert asks.ask(request(3, seed=1), patience).without == "seed"
    model.trouble = refusing("top_p")
    assert asks.ask(request(4, top_p=1), patience) == Answer("no top_p", failure="refused (400)")
    assert list(asks.report((2.0, 30.0), "no top_p")) == [
        "5 requests answered, 0 known before, 0 repairs, 0 sent again, 1 failed; "
        "in all runs 3,000 tokens read, 40 written, cost 0.0072",
        "of a request that failed the server says: no top_p (--body changes requests)",
        "the server changed meanwhile: 2 answers have another system_fingerprint",
    ]
    assert next(asks.report(None)).endswith("in all runs 3,000 tokens read, 40 written")
    fresh, patience = asker(model)  # whose first answer nobody has looked at
    fresh.ask(request(), patience)
    assert fresh.answers.usage.other == 0


def test_what_is_sent_again_is_counted() -> None:
    tries: list[int] = []

    def trouble(body: Mapping[str, Any]) -> None:
        tries.append(1)
        if len(tries) % 3:
            raise TransientError("server error 500")

    asks, patience = asker(Model(trouble), retries=2)
    assert asks.ask(request(), patience).failure is None and asks.answers.usage.retries == 2
    asks, patience = asker(Model(trouble), retries=1)
    assert asks.ask(request(), patience) == Answer(failure="server error 500")
    assert (asks.answers.usage.retries, asks.answers.usage.requests, asks.answers.usage.failures) == (1, 1, 1)


def test_what_nobody_answers_is_put_aside_and_kept_as_no_failure() -> None:
    asks, patience = asker(Nobody("tiny"))
    for number in (1, 0):
        assert asks.ask(request(number), patience) == Answer(failure="not answered in the batch")
    assert list(asks.unanswered.values()) == [request(1), request(0)]
    assert len(asks.answers) == 0 and asks.answers.usage.failures == 2
    with pytest.raises(ModelError, match=r"^the first request got no answer: not answered in the batch$"):
        asks.begin(request(), request(), patience)


def test_a_server_that_asks_for_more_than_a_quarter_of_an_hour_ends_the_run() -> None:
    def insisted(after: float) -> None:
        patience = Patience(1, 0)

        def call() -> str:
            patience.stop()  # so that nothing waits here
            raise TransientError("busy", after=after)

        patience.insist(call, "key")

    with pytest.raises(ModelError, match=r"the server asks to wait 901 seconds \(busy\) \(repeat the command then"):
        insisted(901.0)
    with pytest.raises(StoppedError):
        insisted(900.0)


def test_what_ends_every_request_is_told_when_the_tries_are_over() -> None:
    tries: list[int] = []

    def call() -> str:
        tries.append(1)
        raise TransientError("busy", fatal="no such model")

    with pytest.raises(ModelError, match=r"^no such model \(repeat the command when it is there"):
        Patience(2, 0).insist(call, "key")
    assert len(tries) == 3


def test_waits_double_up_to_a_minute_and_vary_by_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    waits = [[Patience(9, 1).wait(f"{key}", attempt) for key in range(300)] for attempt in range(9)]
    for attempt, found in enumerate(waits):
        usual = min(0.5 * 2**attempt, 60)
        assert usual * 0.5 <= min(found) < usual * 0.55 and usual * 1.45 < max(found) <= usual * 1.5
    assert len({Patience(9, seed).wait(key, attempt) for seed in (1, 2) for key in "ab" for attempt in (7, 8)}) == 8


def test_the_first_reason_to_stop_counts_and_nothing_is_asked_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = Patience(1, 0)
    patience.stop()
    assert patience.reason is None
    first = KeyError("first")
    patience.stop(first)
    patience.stop(KeyError("second"))
    assert patience.reason is first
    with pytest.raises(StoppedError):
        patience.insist(lambda: pytest.fail("asked"), "key")
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)  # the program ends
    with pytest.raises(StoppedError):
        Patience(1, 0).insist(lambda: pytest.fail("asked"), "key")


def test_names_in_signatures() -> None:
    assert plain("org/model:1.0@x+y,z-é_|a b=c") == "org/model:1.0@x+y,z-é__a_b_c"
    assert plain("m" * 200) == "m" * 120
    assert str(GivenUpError("reason", "said")) == "reason: said" and str(GivenUpError("reason")) == "reason"
