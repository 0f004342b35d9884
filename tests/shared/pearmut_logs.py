"""Logs of Pearmut made of an evaluation set, with what real ones hold that must be left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from polyref.eval.data.evaluation_set import EvalSet

Screen = dict[str, Any]


def screen(user: str, number: object, items: Sequence[dict[str, Any]], annotation: object) -> Screen:
    return {"annotation": annotation, "actions": [], "item": list(items), "user_id": user, "item_i": number}


def mark(score: object, spans: int = 1) -> dict[str, Any]:
    span = {"start_i": 0, "end_i": 2, "category": None, "severity": "major"}
    return {"score": score, "error_spans": [span] * spans, "textfield": None}


def pearmut_log(evalset: EvalSet, gold: str) -> list[Screen]:
    """A screen a document and annotator: two annotators whose mean is the gold, and a third who started anew."""
    judged = evalset.gold(gold, include_human=True).segment
    outputs = dict(zip(judged, evalset.outputs(list(judged)), strict=True))
    assert evalset.documents is not None and evalset.source is not None
    places: dict[tuple[str, str], list[int]] = {}
    for segment, document in enumerate(evalset.documents):
        places.setdefault(document, []).append(segment)
    tutorial = {"item_id": "esa_#_tutorial_#_1", "src": "x", "tgt": {"A": "y"}}
    check = {"item_id": "attention_check_7", "src": "x", "tgt": {"A": "y"}}
    log = [
        screen("u1", "welcome_0", [tutorial], [{"A": mark(1)}]),
        screen("u2", "random_0", [check], [{"A": mark(99)}]),
        screen("u2", "goodbye_1", [], None),
        screen("u2", 7, [check, tutorial], [{"A": mark(99)}, {"A": mark(98)}]),
    ]
    own = []
    for number, ((domain, document), segments) in enumerate(places.items()):
        items, scores = [], []
        for at, segment in enumerate(segments):
            given = {
                name: float(values[segment]) for name, values in judged.items() if values[segment] == values[segment]
            }
            if given:
                items.append({"item_id": f"{domain}_###_{document}_###_{at}", "src": evalset.source[segment],
                              "tgt": {name: outputs[name][segment] for name in given}})  # fmt: skip
                scores.append(given)
        for user, off in (("u1", 4), ("u2", -4)):
            marks: list[dict[str, Any]] = [{name: mark(score + off) for name, score in one.items()} for one in scores]
            if items and number % 2 == 0:
                marks[0] |= {"not shown": mark(50), next(iter(items[0]["tgt"])): marks[0][next(iter(items[0]["tgt"]))]}
            own += [screen(user, number, items, marks)] if items else []
    anew = [screen("u3", one["item_i"], one["item"], [{name: mark(0) for name in m} for m in one["annotation"]])
            for one in own[:2]]  # fmt: skip
    nothing = [screen("u3", 8, own[0]["item"], [None] * len(own[0]["item"])),
               screen("u3", 9, own[0]["item"][:1], [{name: mark(None) for name in own[0]["item"][0]["tgt"]}]),
               screen("u3", 10, own[0]["item"], None)]  # fmt: skip
    return [*log, *anew, screen("u3", None, [], "__RESET__"), *own, *nothing]


def as_lines(screens: Sequence[Screen]) -> str:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in screens)
