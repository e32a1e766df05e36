"""Abilities compared with accuracy, with the truth, and with themselves on other items."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from bayesirt.data.responses import Responses
from bayesirt.studies.abilities_matrix import AbilityMatrix
from bayesirt.studies.abilities_unseen import (
    Division,
    Fits,
    divide,
    fit_all,
    measure,
    predictions,
    split_items,
)
from bayesirt.studies.engine import Part
from bayesirt.studies.measures import Floats, Index, Mask, spearman
from bayesirt.studies.tasks import PortableKey, Row

ESTIMATES = {  # Estimates of an ability; the last two use no model.
    "q-mirt": "Q-mIRT",
    "neural": "NeuralCD",
    "shares": "accuracy on the ability's items",
    "overall": "accuracy on all items",
}
CONSISTENCY_PARTS = {
    "criterion": Part(("ability", "method"), ("items", "rho", "rho_true"), [*ESTIMATES]),
    "consistency": Part(
        ("one", "other", "repetition", "ability", "method"),
        ("items_one", "items_other", "rho", "rho_others", "held_out"),
        [*ESTIMATES],
    ),
}
MORE_THAN = 10  # Both sides need more items of an ability than this (section 3.3 of the paper).
HALVES = -1  # In place of a benchmark: random halves of the items.
STRENGTHS = {"strong": 0.7, "moderate": 0.5, "weak": 0.3}
"""Least correlations for these words in Zhang et al. (2026), section 3.2."""

_FEWEST = 5


class Profile(NamedTuple):
    """Estimates of abilities from some items."""

    n_items: Index  # shape (ability,), Number of items that need each.
    # shape (subject, ability), By the keys of `ESTIMATES`; NaN if no item needs the ability.
    levels: dict[str, Floats]

    @property
    def accuracy(self) -> Floats:
        """Accuracy on the items of each ability, shape (subject, ability)."""
        return self.levels["shares"]


def criterion_rows(matrix: AbilityMatrix, trained: int, key: PortableKey) -> list[Row]:
    """Compare abilities from all items with accuracy on their items, the paper's criterion."""
    everything = np.arange(matrix.q.n_items)
    division = divide(matrix, everything, everything)
    fits = fit_all(division, key=key.folded("criterion", 0), trained=trained)
    profile = profile_of(matrix, division, fits)
    truth = np.full(profile.accuracy.shape, np.nan)
    if matrix.truth is not None:
        truth = matrix.truth["theta"].to_numpy()
    return [
        {
            "items": int(profile.n_items[k]),
            "rho": rank_correlation(profile.levels[name][:, k], profile.accuracy[:, k]),
            "rho_true": rank_correlation(profile.levels[name][:, k], truth[:, k]),
        }
        for k, name in product(range(matrix.q.n_abilities), ESTIMATES)
    ]


def halves_rows(
    repetition: int, matrix: AbilityMatrix, trained: int, key: PortableKey
) -> list[Row]:
    """Compare abilities from one random half of the items with those from the other."""
    profiles = []
    for side, half in enumerate(split_items(matrix.q.n_items, repetition, key, 0.5)):
        division, fold = divide(matrix, half, half), key.folded("halves", 2 * repetition + side)
        profiles.append(profile_of(matrix, division, fit_all(division, key=fold, trained=trained)))
    return consistency_rows(*profiles)


def pair_rows(
    one: int, other: int, matrix: AbilityMatrix, trained: int, key: PortableKey
) -> list[Row]:
    """Compare abilities from two benchmarks, and predict each benchmark from the other."""
    profiles: list[Profile] = []
    across: list[Row] = []
    for source, target in ((one, other), (other, one)):
        train, test = (np.flatnonzero(matrix.group == g) for g in (source, target))
        division = divide(matrix, train, test)
        fits = fit_all(division, key=key.folded("group", source), trained=trained)
        profiles.append(profile_of(matrix, division, fits))
        across += measure(predictions(division, fits, matrix), division).values()
    return [*consistency_rows(*profiles), *across]


def profile_of(matrix: AbilityMatrix, division: Division, fits: Fits) -> Profile:
    """Return estimates of all abilities of a matrix from the training items of a division."""
    responses, q = division.responses, division.q
    positions = np.array([matrix.q.abilities.index(name) for name in q.abilities])
    of_ability, overall = accuracies(responses, q.needs)
    estimates = {
        "q-mirt": fits.q_mirt["theta"],
        "neural": fits.neural.abilities,
        "shares": of_ability,
        "overall": np.broadcast_to(overall[:, None], of_ability.shape),
    }
    n_items = np.zeros(matrix.q.n_abilities, np.intp)
    n_items[positions] = q.needs.sum(0)
    levels = {}
    for name, values in estimates.items():
        levels[name] = np.full((matrix.responses.n_subjects, matrix.q.n_abilities), np.nan)
        levels[name][np.ix_(division.subjects, positions)] = values
    return Profile(n_items, levels)


def accuracies(responses: Responses, needs: Mask) -> tuple[Floats, Floats]:
    """Return the proportion correct, by ability and over all items."""
    successes, trials = (np.asarray(x, float) for x in responses.cells.matrices())
    n_trials = trials @ needs
    of_ability = np.divide(successes @ needs, n_trials, out=np.full(n_trials.shape, np.nan),
                           where=n_trials > 0)  # fmt: skip
    return of_ability, successes.sum(1) / trials.sum(1)


def rank_correlation(one: Floats, other: Floats) -> float:
    """Return Spearman's ρ over the subjects with both values; NaN with fewer than five."""
    both = np.isfinite(one) & np.isfinite(other)
    return float(spearman(one[both], other[both])) if both.sum() >= _FEWEST else float("nan")


def consistency_rows(first: Profile, second: Profile) -> list[Row]:
    """Compare abilities from two disjoint sets of items.

    One row per ability and estimate: its ρ with itself, its mean ρ with the other side's other
    abilities that have more than `MORE_THAN` items, and its ρ with the other side's accuracy on
    the ability's items.
    """
    rows: list[Row] = []
    for k, name in product(range(len(first.n_items)), ESTIMATES):
        a, b = first.levels[name][:, k], second.levels[name][:, k]
        sides = ((a, second), (b, first))
        others = [_rho_with_others(levels, far, name, k) for levels, far in sides]
        held_out = [rank_correlation(levels, far.accuracy[:, k]) for levels, far in sides]
        rows.append({
            "items_one": int(first.n_items[k]), "items_other": int(second.n_items[k]),
            "rho": rank_correlation(a, b), "rho_others": _mean(others),
            "held_out": _mean(held_out),
        })  # fmt: skip
    return rows


def _rho_with_others(own: Floats, profile: Profile, name: str, k: int) -> float:
    chosen = [j for j in np.flatnonzero(profile.n_items > MORE_THAN) if j != k]
    return _mean([rank_correlation(own, profile.levels[name][:, j]) for j in chosen])


def _mean(values: Sequence[float]) -> float:
    finite = [x for x in values if np.isfinite(x)]
    return float(np.mean(finite)) if finite else float("nan")
