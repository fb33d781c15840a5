"""What the words of a prompt are worth to a router: resolve with feature vectors.

    python examples/data_sets/routing_features.py --orders 200

The tables are those of ``routing_types.py``. The features of a prompt are 24 components of its word
frequencies and the logarithm of its length; the components come from the prompts of the other table
alone. Prints the mean reward of a request [dollars over the limit; share of orders that broke it].
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from routing import FOLDER, columns_of
from routing_types import TABLES, Cases, Made, compare, kinds_of, table_of
from wheels import read

from tightrope import Features, FullTable
from tightrope.problem import Mixed

PARTS, LEAST_PROMPTS = 24, 3  # components of word frequencies; prompts that a term must be in
Floats = npt.NDArray[np.float64]
CASES: Cases = {
    "features": (False, False),
    "features and types": (True, False),
    "features, after a log": (False, True),
    "features and types, after a log": (True, True),
}


def prompts_of(wheel: Path, table: str) -> list[str]:
    """The prompts of a table of the wheel."""
    lines = read(wheel, f"{FOLDER}/{table}.jsonl").split("\n")
    return [json.loads(line)["prompt"] for line in filter(None, lines)]


def terms_of(prompt: str) -> Counter[str]:
    """How often each word and each pair of neighbouring words is in a prompt."""
    words = re.findall(r"\b\w\w+\b", prompt.lower())
    return Counter([*words, *map(" ".join, pairwise(words))])


def frequencies(prompts: Sequence[str], known: dict[str, float]) -> Floats:
    """1 + log of every known term's count, times its weight; rows of length 1."""
    place = {term: at for at, term in enumerate(known)}
    found, weights = np.zeros((len(prompts), len(known))), np.array(list(known.values()))
    for row, prompt in enumerate(prompts):
        for term, count in terms_of(prompt).items():
            if term in place:
                found[row, place[term]] = 1.0 + np.log(count)
    found *= weights
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)


def features_of(here: Sequence[str], there: Sequence[str]) -> tuple[Floats, Floats]:
    """The features of both tables' prompts; terms and components come from ``there`` alone."""
    inside = Counter(term for prompt in there for term in terms_of(prompt))
    known = {
        term: float(np.log((1 + len(there)) / (1 + count)) + 1)
        for term, count in inside.items()
        if count >= LEAST_PROMPTS
    }
    past = frequencies(there, known)
    sizes, left = np.linalg.eigh(past @ past.T)
    top = np.argsort(sizes)[::-1][:PARTS]
    parts = past.T @ (left[:, top] / np.sqrt(sizes[top]))
    tables = ((frequencies(here, known) @ parts, here), (past @ parts, there))
    lengths = [np.log([[len(prompt)] for prompt in prompts]) for _, prompts in tables]
    made = [np.hstack([made, length]) for (made, _), length in zip(tables, lengths, strict=True)]
    return made[0], made[1]


def with_features(table: FullTable, features: Floats, types: bool) -> FullTable:
    """The table with features, and types if it has them, as its contexts."""
    contexts = features.astype(np.float32)
    if types:
        pairs = list(zip(table.contexts, contexts.tolist(), strict=True))
        return FullTable(table.arms, table.penalties, table.outcomes, contexts=pairs)
    return FullTable(table.arms, table.penalties, table.outcomes, contexts=contexts)


def featured(wheel: Path) -> Made:
    """The tables of a wheel with features, with or without types."""
    features = features_of(*(prompts_of(wheel, name) for name in TABLES))
    plain = [table_of(columns_of(wheel, name), types=True) for name in TABLES]
    kinds, width = kinds_of(plain), features[0].shape[1]

    def made(types: bool) -> tuple[list[FullTable], Features | Mixed]:
        pairs = zip(plain, features, strict=True)
        tables = [with_features(table, one, types) for table, one in pairs]
        return tables, Mixed(kinds, width) if types else Features(width)

    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the router with features, with and without types."""
    return compare(__doc__ or "", CASES, featured, arguments)


if __name__ == "__main__":
    sys.exit(main())
