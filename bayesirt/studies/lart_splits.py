"""How the LaRT study divides subjects and items: disjoint folds, and no base subject split."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.responses import Responses

N_FOLDS = 5
SPLITS = ("by row", "by base subject")


def base_subjects(names: Sequence[str], suffixes: Sequence[str]) -> NDArray[np.intp]:
    """Return which base subject each row is of: names alike but for an ending belong together."""
    longest_first = sorted(suffixes, key=len, reverse=True)
    bases = []
    for name in names:
        ending = next((s for s in longest_first if s and name.endswith(s)), "")
        bases.append(name[: len(name) - len(ending)])
    return np.unique(bases, return_inverse=True)[1]


def subject_folds(
    groups: NDArray[np.intp], n_folds: int, rng: np.random.Generator
) -> list[NDArray[np.intp]]:
    """Divide the subjects into disjoint folds of about the same size, groups unbroken."""
    labels, sizes = np.unique(groups, return_counts=True)
    fold_of, filled = np.zeros(len(labels), int), np.zeros(n_folds, int)
    for k in rng.permutation(len(labels)):
        fold_of[k] = filled.argmin()
        filled[fold_of[k]] += sizes[k]
    of_subject = fold_of[np.searchsorted(labels, groups)]
    return [np.flatnonzero(of_subject == fold) for fold in range(n_folds)]


def item_folds(n_items: int, n_folds: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Divide the items into disjoint folds of about the same size."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n_items), n_folds)]


def first_subjects(groups: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the subjects in random order, those of a group one after another."""
    place = rng.permutation(groups.max() + 1)
    return np.argsort(place[groups], kind="stable")


def with_answers(
    responses: Responses, subjects: NDArray[np.intp], items: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return those of the subjects and items that have a response among each other."""
    seen = responses.cells.matrices()[1][np.ix_(subjects, items)] > 0
    return subjects[seen.any(1)], items[seen.any(0)]
