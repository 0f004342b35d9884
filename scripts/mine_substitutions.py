"""Make the table of the generator ``lexical``: what translations of the same sentence have in each other's place.

    python scripts/mine_substitutions.py --data DIR --evaluation DIR --out FILE.tsv.gz

The texts are the clusters of the paraphraser's recipe, after the same leak check: nothing of an evaluation set is in
them. Texts of a cluster are aligned two by two (longest common subsequence), and where one to three words stand for
others, the substitution counts once for the cluster: alone, with the token before, the token after, and both. Its share
is (n - 0.7) / (m + 6): of m clusters with the source, n have the substitution. Those of fewer than three clusters, and
those with a share below --least, are left out. So are changes of function words alone, of names, numbers and dates,
of number, tense and person, and of a word's ending, since they are right in one sentence and wrong in the next.
"""

from __future__ import annotations

import argparse
import gzip
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path

from tqdm import tqdm
from training.leaks import Report
from training.package import Token, form, tokens
from training.pairs import Cluster, clean_texts, read_clusters
from training.prepare import clean_clusters, evaluation_text
from training.recipe import read_recipe

RECIPE = Path(__file__).parent / "training" / "recipe.toml"
MOST_TEXTS, MOST_WORDS, FEWEST_CLUSTERS = 6, 3, 3
DISCOUNT, SMOOTHING = 0.7, 6
#: Of two texts, at least this share of tokens is the same: others are aligned badly.
ALIKE = 0.55

#: English words that carry little meaning of their own: which of them is right depends on the rest of the sentence.
_FUNCTION = (
    "the a an of in on at to for from with by as and or but that which who whom whose this these those it its he she "
    "they them his her their we our you your i my me us him is are was were be been being has have had do does did "
    "will would can could shall should may might must not no if so than then there here what when where how why all "
    "any some each both more most other such only own same too very just also into over under up down out off about "
    "after before between through during against"
)
FUNCTION = frozenset(_FUNCTION.split())
#: Of these, the same must be on both sides: others change number, tense, person or what is denied.
_GRAMMAR = (
    "the a an it its he she they them his her their we our you your i my me us him is are was were be been being has "
    "have had do does did will would can could shall should may might must not no this these that those there"
)
GRAMMAR = frozenset(_GRAMMAR.split())
_FIXED = (
    "january february march april may june july august september october november december monday tuesday wednesday "
    "thursday friday saturday sunday one two three four five six seven eight nine ten"
)
FIXED = frozenset(_FIXED.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the recipe's files")
    parser.add_argument("--evaluation", type=Path, required=True, help="folder with the evaluation sets")
    parser.add_argument("--out", type=Path, required=True, help="table to write (.tsv.gz)")
    parser.add_argument("--least", type=float, default=0.07, help="smallest share")
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    args = parser.parse_args()
    recipe = read_recipe(args.recipe)
    kept_out = evaluation_text(recipe, args.evaluation)
    files = dict.fromkeys(one.file for one in recipe.sources.values() if one.kind == "clusters")
    clusters: list[list[str]] = []
    for file in files:
        found = clean_clusters(file, read_clusters(args.data / file), kept_out, recipe, Report())
        clusters += [texts for cluster in found if len(texts := chosen_texts(cluster, recipe.seed)) > 1]
    rows = table(clusters, args.least)
    lines = "".join(f"{source}\t{target}\t{share:.4g}\n" for source, target, share in rows)
    args.out.write_bytes(gzip.compress(lines.encode(), mtime=0))
    print(f"{len(clusters)} clusters, {len(rows)} substitutions, {args.out.stat().st_size} bytes")


def chosen_texts(cluster: Cluster, seed: int) -> list[str]:
    """Distinct clean texts, at most six at random."""
    texts = list(dict.fromkeys(text.text for text in clean_texts(cluster)))
    rng = random.Random(f"{seed}/{cluster.set}/{cluster.id}")
    return texts if len(texts) <= MOST_TEXTS else rng.sample(texts, MOST_TEXTS)


def table(clusters: Sequence[Sequence[str]], least: float) -> list[tuple[str, str, float]]:
    """The rows of the table, sorted by source, then by share."""
    counts: Counter[tuple[str, str]] = Counter()
    for texts in tqdm(clusters, desc="substitutions", mininterval=2):
        counts.update(set(substitutions([tokens(text) for text in texts])))
    counts = Counter({key: count for key, count in counts.items() if count >= FEWEST_CLUSTERS})
    sources = {source for source, _ in counts}
    longest = max(len(tokens(source)) for source in sources)
    seen: Counter[str] = Counter()
    written: Counter[str] = Counter()
    for texts in tqdm(clusters, desc="sources", mininterval=2):
        parts = set()
        for text in texts:
            words = tokens(text)
            parts.update(forms(words, longest))
            # Words within sentences show how they are usually written.
            written.update(text[word.start : word.end] for word in words[1:])
        seen.update(parts & sources)
    rows = [
        (source, target, (count - DISCOUNT) / (seen[source] + SMOOTHING))
        for (source, target), count in counts.items()
        if lower_case(target, written)
    ]
    return sorted((row for row in rows if row[2] >= least), key=lambda row: (row[0], -row[2], row[1]))


def substitutions(texts: Sequence[list[Token]]) -> Iterator[tuple[str, str]]:
    """What stands for what in the texts of a cluster, both ways, with and without context."""
    for one, other in combinations(texts, 2):
        a, b = [word.form for word in one], [word.form for word in other]
        blocks = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        if 2 * sum(end - start for tag, start, end, _, _ in blocks if tag == "equal") < ALIKE * (len(a) + len(b)):
            continue
        for tag, i, j, k, m in blocks:
            if tag != "replace" or not exchangeable(a[i:j], b[k:m]):
                continue
            for left in range(1 + (i > 0 and k > 0)):
                for right in range(1 + (j < len(a) and m < len(b))):
                    source, target = form(one[i - left : j + right]), form(other[k - left : m + right])
                    yield source, target
                    yield target, source


def exchangeable(source: Sequence[str], target: Sequence[str]) -> bool:
    """Whether it is a substitution of words by words that says something of their meaning."""
    sides = [[token.lstrip() for token in side] for side in (source, target)]
    if max(map(len, sides)) > MOST_WORDS or not all(token[0].isalpha() for side in sides for token in side):
        return False
    old, new = ([token for token in side if token not in FUNCTION] for side in sides)
    if not old or not new or set(old) == set(new) or FIXED & {*old, *new}:
        return False
    grammar = [sorted(token for token in side if token in GRAMMAR) for side in sides]
    if grammar[0] != grammar[1] or endings(old[-1]) != endings(new[-1]):
        return False
    return not (len(old) == len(new) == 1 and inflected(old[0], new[0]))


def endings(word: str) -> tuple[bool, bool]:
    """Whether a word looks like a plural or a third person, and whether like a participle: exchanged words agree."""
    return word.endswith("s") and not word.endswith(("ss", "us", "is")), word.endswith("ing")


def inflected(one: str, other: str) -> bool:
    """Whether two words differ in their ending alone."""
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return same >= 3 and same >= min(len(one), len(other)) - 3 and max(len(one), len(other)) - same <= 4


def forms(words: Sequence[Token], longest: int) -> Iterator[str]:
    """All stretches of up to ``longest`` tokens."""
    for start in range(len(words)):
        for end in range(start + 1, min(start + longest, len(words)) + 1):
            yield form(list(words[start:end]))


def lower_case(target: str, written: Counter[str]) -> bool:
    """Whether a text's words are usually written in lower case: tables have no capitals."""
    return all(
        written[word] > written[word.capitalize()] + written[word.upper()]
        for word in (token.form.lstrip() for token in tokens(target))
        if word[0].isalpha()
    )


if __name__ == "__main__":
    main()
