"""Language codes across models: ``en``, ``eng_Latn`` (NLLB), ``en_XX`` (mBART) and ``eng`` name one language.

Codes are compared by their ISO 639-1 part where they have one. NLLB names individual languages (ISO 639-3) where
ISO 639-1 names a macrolanguage: the standard or most widely used variety stands for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
slk:sk slv:sl smo:sm sna:sn snd:sd som:so sot:st spa:es sqi:sq srd:sc srp:sr ssw:ss sun:su swa:sw swe:sv tah:ty tam:ta
tat:tt tel:te tgk:tg tgl:tl tha:th tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz ven:ve
vie:vi wln:wa wol:wo xho:xh yid:yi yor:yo zha:za zho:zh zul:zu
arb:ar als:sq ayr:ay azj:az ekk:et fuv:ff gaz:om khk:mn kmr:ku lvs:lv npi:ne ory:or pbt:ps pes:fa plt:mg quy:qu swh:sw
uzn:uz ydd:yi zsm:ms
"""
# Languages of NLLB and M2M100 without an ISO 639-1 code, and codes that are in use without being of ISO 639-1.
_OTHERS: Final = """
ace acm acq aeb ajp apc ars ary arz ast awa ban bem bho bjn bug ceb cjk ckb crh dik dyu fon fur hne ilo kab kac kam kbp
kea kmb knc lij lmo ltg lua luo lus mag mai min mni mos nso nus pag pap prs sat scn shn szl taq tpi tum tzm umb vec war
yue bh mo ns sh
"""
# fmt: on
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
