"""What language models put around a rewrite, and what they write instead of one.

Only what is certain counts, and nothing that the rewritten text does itself: another text may well begin with "Note:".
"""

from __future__ import annotations

import re
from typing import Final

from polyref.comparison import UNSPACED, comparison_key

_DASHES: Final = "-*•–—·>"
_HAN_NUMBERS: Final = "一二三四五六七八九十"
#: Before an item of a list: "1. ", "(2) ", "- ", "a) "; without a space where words run on: "1、", "（1）", "①". It is
#: no list where a number follows: "三、四天" (three or four days).
_MARKER: Final = re.compile(
    rf"\s*(?:(?:\(?\d{{1,3}}[.)]|[{_DASHES}]|[a-h]\))\s+|\(?\d{{1,3}}[.)](?={UNSPACED.pattern})|[①-⑳]\s*"
    rf"|[（(]?(?:\d{{1,3}}|[{_HAN_NUMBERS}]{{1,3}})(?:[、．]|[）)][、．]?)\s*(?![\d{_HAN_NUMBERS}]))"
)
_NUMBER: Final = re.compile(r"\d+")
_QUOTES: Final = ('""', "“”", "„“", "„”", "””", "«»", "»«", "‘’", "‚‘", "‹›", "''", "「」", "『』")
_MARKS: Final = frozenset("".join(_QUOTES))
_APOSTROPHE: Final = re.compile(r"(?<=\w)['’](?=\w)")
#: The second answer of several: numbered after the end of a sentence ("on December 2. As ..." is none), or called so.
_SECOND: Final = re.compile(
    rf"(?:(?<=[.!?;:,\"”»)]\s)|(?<=[。！？；\n]))(?:\(?2[.)](?:\s|(?={UNSPACED.pattern}))|2、|[（(]2[）)]|②)"
    r"|(?:(?<=\s)|(?<=[。！？；]))"
    r"(?:option|version|variant[e]?|alternative|вариант|версия|版本|选项|方案) ?(?:2|b|二)\b",
    re.IGNORECASE,
)
_BESIDE: Final = re.compile(r"\s(?:/|\||->|→|=>|(?<=[.!?\"”»]\s)(?:becomes|wird zu)|OR|ODER|ИЛИ)\s")

# Words of assistants, in English, German, Russian, Chinese, French, Spanish, Italian and Portuguese.
_TASK: Final = (
    r"(?:rewrit|rewrote|rephras|paraphras|reword|umformulier|umgeschrieben|reformul|paráfras|parafras|riformul"
    r"|перефраз|парафраз|переформул|переписа|改写|重写|改述|复述)"
)
_VARIANT: Final = r"(?:versions?\b|versionen\b|variation|variante?n?\b|вариант|верси|версии|版本|说法)"
_LABEL: Final = (
    rf"(?:{_TASK}\w*(?: (?:text|sentence|version|satz|текст|предложение|вариант))?(?:后|版|句子?|版本)?"
    rf"|version|option|alternative|variante|вариант|версия|版本|选项)(?: ?[\d{_HAN_NUMBERS}]{{1,2}})? ?[:：]"
)
_LABELLED: Final = re.compile(rf"\W*{_LABEL}\W*\s*", re.IGNORECASE)
_HERE: Final = r"(?:here(?:'s|’s| is| are)\b|hier (?:ist|sind)\b|вот\b|以下是|下面是|这是|voici\b|aquí\b|ecco\b|aqui\b)"
_SORRY: Final = (
    r"(?:(?:i'm|i’m|i am) sorry|sorry|i apologi[sz]e|(?:es )?tut mir leid|entschuldigung|leider"
    r"|извините|простите|к сожалению|很?抱歉|对不起|désolé|lo siento|mi dispiace|desculpe)"
)
_CANNOT: Final = (
    r"(?:i (?:can(?:not|'t|’t)|won'?t|will not|am (?:unable|not able))|(?:i'm|i’m) (?:unable|not able)"
    r"|kann ich|ich kann|не могу|我?(?:无法|不能)|je ne peux|no puedo|non posso|não posso)"
)
_SELF: Final = (
    r"(?:as an? (?:ai\b|(?:large )?language model)|als (?:ein )?(?:ki\b|(?:ki-)?sprachmodell)"
    r"|как (?:языковая модель|ии\b|искусственный интеллект)"
    r"|(?:作为|我是)(?:一个|一名|一款)?(?:ai|人工智能|大?语言模型))"
)
_NOTE: Final = (
    r"(?:note(?: that)?|explanation|original|hinweis|erklärung|примечание|пояснение|объяснение|оригинал"
    r"|注|注释|说明|解释|原文)"
)
#: What is said after an answer. Many texts end so themselves, and only talk of rewriting is sure to be none of theirs.
_LATER: Final = (
    r"(?:i hope (?:this|that) helps|keeps? the (?:original )?meaning|надеюсь, это поможет|希望(?:这|能)?对?你?有?帮助"
    rf"|(?:let me know if|feel free to|дайте знать|如果您?需要).{{0,80}}(?:{_TASK}|{_VARIANT}))"
)
_TALK: Final = re.compile(
    rf"\A\W*(?:{_NOTE} ?[:：]|note that:"
    rf"|(?:\w+(?: course)?\W+)?{_HERE}.{{0,60}}(?:{_TASK}|{_VARIANT})"
    rf"|(?:{_SORRY}\W+)?(?:но |aber |but |pero |mais )?(?:я |我)?(?:{_SELF}|{_CANNOT}.{{0,60}}{_TASK})"
    rf"|{_SORRY}.{{0,60}}(?:{_SELF}|{_TASK}))"
    # Headings of what never came, and what was asked for.
    rf"|\A.{{0,40}}(?:{_TASK}|{_VARIANT}|\bder sätze\b|\bof the sentences?\b|предложени|句子).{{0,40}}[:：]\s*\Z"
    rf"|[(（\[]{_NOTE} ?[:：]|{_LATER}",
    re.IGNORECASE | re.DOTALL,
)
_REMARK: Final = re.compile(rf"[(（\[]{_NOTE} ?[:：]", re.IGNORECASE)
_ASSENT: Final = re.compile(
    r"\A\W*(?:sure\b[,!.]|certainly\b[,!.]|of course[,!]|конечно[,!]|разумеется[,!]|当然[，！]|好的[，！])",
    re.IGNORECASE,
)
_REFUSAL: Final = re.compile(
    rf"\A\W*(?:{_SORRY}|{_CANNOT}).{{0,40}}(?:{_CANNOT}|assist|help|fulfil|помочь|выполнить|帮助|协助|满足)",
    re.IGNORECASE | re.DOTALL,
)
#: Where the text itself agrees, or is sorry, or cannot, its rewrites may in other words.
_AGREES: Final = re.compile(
    r"\b(?:sure|certain|course|natural|obvious|absolut|definit|ok|okay|yes|yeah|right|indeed|glad|happy|clear)"
    r"|конечно|разумеет|естествен|хорошо|ладно|ясно|\bда\b|当然|好|行|可以|是|没问题|自然|肯定|必",
    re.IGNORECASE,
)
_REGRETS: Final = re.compile(
    r"sorry|apolog|regret|afraid|unable|n[o']t\b|n’t\b|fail|help|assist|leid|entschuld|bedau|leider|nicht|kein|unmöglich|hilf|helf"
    r"|извин|прост|сожал|\bне|нельзя|нет|помо|抱歉|对不起|遗憾|不|无|没|难以|帮|协助|désol|regrett|pas\b|siento|\bno\b|\bnon\b|não",
    re.IGNORECASE,
)

#: What looks like such talk, and is a rewrite where the text begins in the same way.
_BEGINNINGS: Final = tuple(
    re.compile(rf"\A\W*(?:{words})", re.IGNORECASE | re.DOTALL)
    for words in (
        r"(?:(?:oh|well|yes|no|but|and|so)\b\W*)?(?:sure(?:ly)?|certainly|of course|ok(?:ay)?|yes|yeah)\b\W*",
        r"(?:please )?note(?: that)?\b\W*",
        r"(?:sorry\b\W*)?(?:i|we)\b.{0,80}(?:rewrit|rephras|paraphras|request|assist|help|fulfil)",
    )
)


def tidied(rewrite: str, text: str) -> str:
    """A rewrite without what lists put around it, where its text has no such thing: a number, a dash, quotes,
    a label ("Version 2:").

    What belongs to it stays: ordinals ("3. Mai"), quotes that are not around the whole, those of a text that is quoted
    itself, in whatever quotes. Several answers in one (:func:`several`) are left as they are.
    """
    rewrite = rewrite.strip()
    if not several(rewrite, text):
        for step in (_unmarked, _unlabelled, _unquoted, _unmarked):
            rewrite = step(rewrite, text)
    return rewrite


def _unlabelled(rewrite: str, text: str) -> str:
    found = _LABELLED.match(rewrite)
    return rewrite if found is None or found.end() == len(rewrite) or _LABELLED.match(text) else rewrite[found.end() :]


def _unmarked(rewrite: str, text: str) -> str:
    found = _MARKER.match(rewrite)
    if found is None or found.end() == len(rewrite) or _MARKER.match(text) or _ordinal(found, text):
        return rewrite
    if found[0].strip() in _DASHES and text.lstrip()[:1] in _DASHES:  # ">so"
        return rewrite
    return rewrite[found.end() :]


def _ordinal(found: re.Match[str], text: str) -> bool:
    """Whether a number before a rewrite belongs to it: "3. Mai", "20. století"."""
    rest = found.string[found.end() :]
    if (number := _NUMBER.search(found[0])) is None:
        return False
    if rest[:1].islower() and not text.lstrip()[:1].islower():
        return True
    return _NUMBER.findall(rest).count(number[0]) < _NUMBER.findall(text).count(number[0])


def _unquoted(rewrite: str, text: str) -> str:
    bare = _APOSTROPHE.sub("", text).strip().rstrip(".!?,;:。！？")
    ends = (bare[:1] in _MARKS) + (bare[-1:] in _MARKS)
    # A quotation that goes on in the next segment has a mark at one end.
    if ends == 2 or (ends == 1 and not _MARKS & set(bare[1:-1])):
        return rewrite
    inner = _APOSTROPHE.sub("", rewrite[1:-1])
    quoted = any(rewrite[:1] == first and rewrite[-1:] == last for first, last in _QUOTES)
    if not quoted or not inner.strip() or rewrite[0] in inner or rewrite[-1] in inner:
        return rewrite
    return rewrite[1:-1].strip()


def several(rewrite: str, text: str) -> bool:
    """Whether there are several rewrites in one: numbered, on lines of their own, or side by side."""
    if lines(rewrite) > lines(text):
        return True
    if _SECOND.search(rewrite) and not _SECOND.search(text):
        return True
    length = len(comparison_key(text))
    beside = _BESIDE.search(rewrite)
    if beside is None or beside[0].strip() in text:
        return False
    return all(len(comparison_key(part)) >= length / 2 for part in (rewrite[: beside.start()], rewrite[beside.end() :]))


def lines(text: str) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in text.splitlines())


def talks(rewrite: str, text: str) -> bool:
    """Whether a refusal or an explanation stands where a rewrite should, or beside it."""
    for beginning in _BEGINNINGS:
        if beginning.match(text) and (found := beginning.match(rewrite)):
            rewrite = rewrite[found.end() :]
    if any(mark in text for mark in "(（["):  # a remark of the text's own, perhaps as "(Note: ...)"
        rewrite = _REMARK.sub("(", rewrite)
    return (
        (_TALK.search(rewrite) is not None and _TALK.search(text) is None)
        or (_ASSENT.match(rewrite) is not None and not _AGREES.search(text))
        or (_REFUSAL.match(rewrite) is not None and not _REGRETS.search(text))
    )
