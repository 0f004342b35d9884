"""Language codes: ``en``, ``eng_Latn`` (NLLB, WMT26), ``en_XX`` (mBART) and ``eng`` name one language.

``en-de``, ``en-de_DE`` and ``eng_Latn-deu_Latn`` name one pair.

Codes are compared by their ISO 639-1 part where they have one. NLLB names individual languages (ISO 639-3) where
ISO 639-1 names a macrolanguage: the standard or most widely used variety stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from polyref.errors import UsageError

# ISO 639-3 code and the ISO 639-1 code of the same language, or of the macrolanguage whose standard variety it is.
# fmt: off
_PAIRS: Final = """
aar:aa abk:ab afr:af aka:ak amh:am ara:ar arg:an asm:as ava:av aym:ay aze:az bak:ba bam:bm bel:be ben:bn bis:bi bod:bo
bos:bs bre:br bul:bg cat:ca ces:cs cha:ch che:ce chv:cv cor:kw cos:co cre:cr cym:cy dan:da deu:de div:dv dzo:dz ell:el
eng:en epo:eo est:et eus:eu ewe:ee fao:fo fas:fa fij:fj fin:fi fra:fr fry:fy ful:ff gla:gd gle:ga glg:gl glv:gv grn:gn
guj:gu hat:ht hau:ha heb:he her:hz hin:hi hrv:hr hun:hu hye:hy ibo:ig iku:iu ind:id isl:is ita:it jav:jv jpn:ja kal:kl
kan:kn kas:ks kat:ka kaz:kk khm:km kik:ki kin:rw kir:ky kon:kg kor:ko kur:ku lao:lo lat:la lav:lv lim:li lin:ln lit:lt
ltz:lb lug:lg mal:ml mar:mr mkd:mk mlg:mg mlt:mt mon:mn mri:mi msa:ms mya:my nav:nv nep:ne nld:nl nno:nn nob:nb nor:no
nya:ny oci:oc ori:or orm:om oss:os pan:pa pol:pl por:pt pus:ps que:qu roh:rm ron:ro run:rn rus:ru sag:sg san:sa sin:si
slk:sk slv:sl smo:sm sna:sn snd:sd som:so sme:se sot:st spa:es sqi:sq srd:sc srp:sr ssw:ss sun:su swa:sw swe:sv tah:ty
tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz
ven:ve vie:vi wln:wa wol:wo xho:xh yid:yi yor:yo zha:za zho:zh zul:zu
arb:ar als:sq ayr:ay azj:az ekk:et fuv:ff gaz:om khk:mn kmr:ku lvs:lv npi:ne ory:or pbt:ps pes:fa plt:mg quy:qu swh:sw
uzn:uz ydd:yi zsm:ms
"""
# Languages of NLLB and M2M100 without an ISO 639-1 code, and codes that are in use without being of ISO 639-1.
_OTHERS: Final = """
ace acm acq aeb ajp apc ars ary arz ast awa ban bem bho bjn bug ceb cjk ckb crh dik dyu fon fur hne ilo kab kac kam kbp
kea kmb knc lij lld lmo ltg lua luo lus mag mai min mni mos nso nus pag pap prs sat scn shn szl taq tpi tum tzm umb vec
war yue bh mo ns sh
"""
#: Varieties with a code of their own -> the language that people may name instead, and where it is spoken.
_VARIETIES: Final = {
    "acm": "ar_IQ", "acq": "ar_YE", "aeb": "ar_TN", "ajp": "ar", "apc": "ar", "ars": "ar_SA", "ary": "ar_MA",
    "arz": "ar_EG", "ckb": "ku", "fil": "tl", "prs": "fa_AF",
}
# fmt: on
#: Places where Chinese is written in one of its scripts.
_CHINESE: Final = {"CN": "Hans", "SG": "Hans", "HK": "Hant", "MO": "Hant", "TW": "Hant"}
_TO_SHORT: Final[Mapping[str, str]] = {pair[:3]: pair[4:] for pair in _PAIRS.split()}
# Norwegian without more is Bokmål in every model here; the two old codes are those of M2M100 and Java.
_SAME: Final = {"no": "nb", "iw": "he", "in": "id", "ji": "yi"}
_KNOWN: Final = frozenset([*_OTHERS.split(), *_TO_SHORT.values()])


def base(code: str) -> str:
    """The language of a code, as ISO 639-1 where it has one: ``eng_Latn``, ``en_XX`` and ``en-GB`` give ``en``."""
    first = code.replace("-", "_").split("_")[0].lower()
    short = _TO_SHORT.get(first, first)
    return _SAME.get(short, short)


def is_language(code: str) -> bool:
    """Whether a code names a language that translation models know; ``url`` and ``num`` do not."""
    script = code.replace("-", "_").rpartition("_")[2]
    return base(code) in _KNOWN or (script == _script(code) != "")


def matching(code: str, known: Iterable[str]) -> list[str]:
    """The known codes that name the language ``code`` does, sorted; the code itself alone where it is known.

    A code with a script (``srp_Latn``) matches no code with another one (``srp_Cyrl``).
    """
    known = list(known)
    if code in known:
        return [code]
    script = _script(code)
    return sorted(
        other for other in known if base(other) == base(code) and (not script or _script(other) in ("", script))
    )


def split_pair(pair: str) -> tuple[str, str] | None:
    """Source and target of ``SRC-TGT``, whatever scripts and regions they name; None for what is no pair.

    Subtags may be set off by dashes too, ``en-zh-Hans-CN``: they have a capital (BCP 47), languages have none.
    """
    codes = pair.split("-")
    if len(codes) > 2:
        starts = [place for place, code in enumerate(codes) if code[:1].islower()]
        if len(starts) != 2 or starts[0] != 0:
            return None
        codes = ["_".join(codes[: starts[1]]), "_".join(codes[starts[1] :])]
    return (codes[0], codes[1]) if len(codes) == 2 and all(codes) else None


def find_pair(pair: str, there: Iterable[str], file: str | Path | None = None) -> str | None:
    """The one of some language pairs that is meant: ``en-de`` is ``en-de_DE`` and ``eng_Latn-deu_Latn`` as well.

    The pair of that very name goes before the same languages, scripts and regions in other codes, those before what
    leaves a script or region open, and that before a variety of the language (``arz_Arab`` for ``ar``).

    Args:
        pair: As somebody types it. Where several fit equally, that is a UsageError.
        there: Pairs of a set or file.
        file: That set or file, for messages.
    """
    known = dict.fromkeys(there)
    if pair in known:
        return pair
    fits: dict[int, list[str]] = {}
    for other in known:
        if (far := _pair_distance(pair, other)) is not None:
            fits.setdefault(far, []).append(other)
    found = fits[min(fits)] if fits else []
    if len(found) > 1:
        raise UsageError(f"{pair} may be any of {', '.join(found)}", file=file, remedy="name one of them")
    return found[0] if found else None


def _pair_distance(asked: str, other: str) -> int | None:
    """The greater :func:`distance` of the two languages; None for another pair."""
    codes, others = split_pair(asked), split_pair(other)
    if codes is None or others is None:
        return None
    found = [distance(code, known) for code, known in zip(codes, others, strict=True)]
    return None if None in found else max(one for one in found if one is not None)


@lru_cache(maxsize=4096)
def distance(asked: str, other: str) -> int | None:
    """How far a code is from the one that is asked for.

    0: the same; 1: one of them leaves a script or region open; 2: a variety of the language; None: another language.
    """
    ours, theirs = _parts(asked), _parts(other)
    variety = ours[0] != theirs[0]
    if variety:
        ours, theirs = _as_variety(ours), _as_variety(theirs)
    if ours[0] != theirs[0] or any(a and b and a != b for a, b in zip(ours[1:], theirs[1:], strict=True)):
        return None
    return 2 if variety else int(ours != theirs)


def _parts(code: str) -> tuple[str, str, str]:
    """Language, script and region; the last two may be empty."""
    language, script = base(code), _script(code)
    rest = code.replace("-", "_").upper().split("_")[1:]
    region = next((part for part in rest if part != "XX" and re.fullmatch("[A-Z]{2}|[0-9]{3}", part)), "")
    return language, script or (_CHINESE.get(region, "") if language == "zh" else ""), region


def _as_variety(parts: tuple[str, str, str]) -> tuple[str, str, str]:
    language, _, region = _VARIETIES.get(parts[0], parts[0]).partition("_")
    return language, parts[1], parts[2] or region


def _script(code: str) -> str:
    parts = code.replace("-", "_").split("_")[1:]
    return next((part.title() for part in parts if len(part) == 4 and part.isalpha()), "")


def resolve(code: str | None, known: Sequence[str]) -> str:
    """The one of ``known`` that names the language of ``code``."""
    if code is None:
        raise UsageError(f"no language is named, expected one of {', '.join(known)}")
    found = matching(code, known)
    if len(found) > 1:
        raise UsageError(f"language {code!r} may be any of {', '.join(found)}", remedy="name one of them")
    if not found:
        raise UsageError(f"language {code!r} is unknown to the model, expected one of {', '.join(known)}")
    return found[0]


def target_language(pair: str) -> str:
    """The target language of ``SRC-TGT`` without script and region: ``zh`` of ``en-zh_CN`` and of ``en-zh-Hans-CN``."""
    codes = split_pair(pair)
    return base(codes[1] if codes else pair.rpartition("-")[2])
