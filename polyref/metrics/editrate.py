"""Translation edit rate of one pair of texts: sacreBLEU's number, by bit-parallel edit distances.

sacreBLEU (after Tercom) moves blocks of words greedily and takes edit distances in a band around the diagonal. Inside
``_BAND`` the band cuts off no optimal path, so that plain distances are the same, and Myers' bit vectors (Hyyrö 2003)
give these fast; pairs outside go to sacreBLEU itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sacrebleu.metrics.lib_ter import translation_edit_rate

#: Where edit distance + difference in length is at most this, sacreBLEU's band of 25 holds every optimal path.
_BAND: Final = 44
# Tercom's limits.
_LONGEST_SHIFT: Final = 10
_FARTHEST_SHIFT: Final = 50
_MOST_CANDIDATES: Final = 1000

# After some words: vertical steps up, vertical steps down (a bit per reference word), distance to the whole reference.
_State = tuple[int, int, int]
# The output word that every reference word is aligned to or follows; which output and which reference words are wrong.
_Alignment = tuple[list[int], list[bool], list[bool]]


def edits(output: Sequence[str], reference: Sequence[str]) -> int:
    """Edits and block shifts that turn ``output`` into ``reference``."""
    if not reference:
        return len(output)
    places: dict[str, list[int]] = {}
    for place, word in enumerate(reference):
        places.setdefault(word, []).append(place)
    bits = {word: sum(1 << place for place in found) for word, found in places.items()}
    words, size = list(output), len(reference)
    states = _states(words, bits, size)
    if states[-1][2] + abs(len(words) - size) > _BAND:
        count: int = translation_edit_rate(words, list(reference))[0]
        return count
    shifts = checked = 0
    while states[-1][2]:
        # Without an error there is nothing to move; otherwise the best move is made while it helps.
        gain, better, checked = _best_shift(words, places, bits, states, size, checked)
        if checked >= _MOST_CANDIDATES or gain <= 0:
            break
        shifts += 1
        words = better
        states = _states(words, bits, size)
    return shifts + states[-1][2]


def _states(words: Sequence[str], bits: dict[str, int], size: int) -> list[_State]:
    """The state before the first word and after every word."""
    state = ((1 << size) - 1, 0, size)
    states = [state]
    for word in words:
        state = _run(state, (word,), bits, size)
        states.append(state)
    return states


def _run(state: _State, words: Sequence[str], bits: dict[str, int], size: int) -> _State:
    """Myers' algorithm over some words, in the form for the distance between whole texts (the first row counts up)."""
    up, down, distance = state
    full, end = (1 << size) - 1, 1 << (size - 1)
    for word in words:
        equal = bits.get(word, 0)
        diagonal = (((equal & up) + up) ^ up) | equal | down
        right_up = down | (full & ~(diagonal | up))
        right_down = up & diagonal
        if right_up & end:
            distance += 1
        elif right_down & end:
            distance -= 1
        right_up = (right_up << 1) | 1
        up = ((right_down << 1) | ~(diagonal | right_up)) & full
        down = right_up & diagonal & full
    return up, down, distance


def _alignment(words: Sequence[str], bits: dict[str, int], states: Sequence[_State], size: int) -> _Alignment:
    """Walk an optimal path back, preferring as sacreBLEU does: keep or replace, then drop a word, then insert one."""
    align = [0] * size
    output_errors, reference_errors = [False] * len(words), [False] * size
    i, j = len(words), size
    here = states[-1][2]
    while i or j:
        if not i:
            reference_errors[j - 1] = True
            align[j - 1] = -1
            j -= 1
            continue
        if not j:
            output_errors[i - 1] = True
            i -= 1
            continue
        before = (1 << (j - 1)) - 1
        up, down, _ = states[i - 1]
        corner = i - 1 + (up & before).bit_count() - (down & before).bit_count()
        same = bool(bits.get(words[i - 1], 0) >> (j - 1) & 1)
        if corner + (not same) == here:
            align[j - 1] = i - 1
            output_errors[i - 1] = reference_errors[j - 1] = not same
            i, j, here = i - 1, j - 1, corner
            continue
        bit = 1 << (j - 1)
        above = corner + bool(up & bit) - bool(down & bit)
        if above + 1 == here:
            output_errors[i - 1] = True
            i, here = i - 1, above
        else:
            reference_errors[j - 1] = True
            align[j - 1] = i - 1
            j, here = j - 1, here - 1
    return align, output_errors, reference_errors


def _matches(
    words: Sequence[str], places: dict[str, list[int]], reference: Sequence[str]
) -> Iterator[tuple[int, int, int]]:
    """Equal word sequences: start in the output, start in the reference, length; in sacreBLEU's order."""
    for start, word in enumerate(words):
        for place in places.get(word, ()):
            if abs(place - start) > _FARTHEST_SHIFT:
                continue
            most = min(_LONGEST_SHIFT, len(words) - start, len(reference) - place)
            for length in range(1, most + 1):
                if words[start + length - 1] != reference[place + length - 1]:
                    break
                yield start, place, length


def _best_shift(
    words: list[str], places: dict[str, list[int]], bits: dict[str, int], states: list[_State], size: int, checked: int
) -> tuple[int, list[str], int]:
    """The shift that helps most: its gain, the words after it, and how many shifts were tried in all."""
    align, output_errors, reference_errors = _alignment(words, bits, states, size)
    reference = [""] * size
    for word, found in places.items():
        for place in found:
            reference[place] = word
    best: tuple[int, int, int, int] | None = None
    chosen = words
    for start, place, length in _matches(words, places, reference):
        end = start + length
        # Only wrong words move, to where words are wrong, and not within themselves.
        if not any(output_errors[start:end]) or not any(reference_errors[place : place + length]):
            continue
        if start <= align[place] < end:
            continue
        last = -1
        for offset in range(-1, length):
            if place + offset == -1:
                target = 0
            elif place + offset < size:
                target = align[place + offset] + 1
            else:
                break
            if target == last:
                continue
            last = target
            moved = _moved(words, start, length, target)
            same = min(start, target)
            distance = _run(states[same], moved[same:], bits, size)[2]
            checked += 1
            candidate = (states[-1][2] - distance, length, -start, -target)
            if best is None or candidate > best:
                best, chosen = candidate, moved
        if checked >= _MOST_CANDIDATES:
            break
    return (best[0], chosen, checked) if best else (0, words, checked)


def _moved(words: list[str], start: int, length: int, target: int) -> list[str]:
    block = words[start : start + length]
    if target < start:
        return [*words[:target], *block, *words[target:start], *words[start + length :]]
    if target > start + length:
        return [*words[:start], *words[start + length : target], *block, *words[target:]]
    return [*words[:start], *words[start + length : length + target], *block, *words[length + target :]]
