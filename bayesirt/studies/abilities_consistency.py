"""Abilities against accuracy, against the truth, and against themselves on other items."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.studies.abilities_matrix import AbilityMatrix, Matrix
from bayesirt.studies.abilities_unseen import (
    Division,
    Fits,
    divide,
    fit_all,
    measure,
    predictions,
    predictors_of,
    split_items,
)
from bayesirt.studies.measures import spearman
from bayesirt.studies.tasks import PortableKey, Row, Task

Places = list[tuple[str, tuple[Any, ...]]]

ESTIMATES = {
    "q-mirt": "Q-mIRT",
    "neural": "NeuralCD",
    "shares": "accuracy on the ability's items",
    "overall": "accuracy on all items",
}
"""What an ability may be estimated by; the last two know no model."""

CRITERION_COLUMNS = ("items", "rho", "rho_true")
CONSISTENCY_COLUMNS = ("items_one", "items_other", "rho", "rho_others", "held_out")

MORE_THAN = 10
"""Items that an ability must have on both sides, as in the paper (section 3.3)."""

HALVES = -1
"""In place of a benchmark: random halves of the items."""

STRENGTHS = {"strong": 0.7, "moderate": 0.5, "weak": 0.3}
"""Correlations above which Zhang et al. (2026) (section 3.2) calls them so."""

_FEWEST = 5


class Profile(NamedTuple):
    """What some items say of abilities."""

    n_items: NDArray[np.intp]  # shape (ability,), Items that need each.
    # shape (subject, ability), By the keys of `ESTIMATES`; NaN where the items say nothing.
    levels: dict[str, Matrix]

    @property
    def accuracy(self) -> Matrix:
        """Accuracy on the items of each ability, shape (subject, ability)."""
        return self.levels["shares"]


def criterion_task(matrix: AbilityMatrix, trained: int, key: PortableKey) -> Task:
    """Return abilities from all items beside accuracy on their items: the paper's criterion."""
    of_rows = product(range(matrix.q.n_abilities), ESTIMATES)
    return Task([("criterion", p) for p in of_rows], partial(criterion_rows, matrix, trained, key))


def criterion_rows(matrix: AbilityMatrix, trained: int, key: PortableKey) -> list[Row]:
    """Return a row for each ability and estimate."""
    everything = np.arange(matrix.q.n_items)
    division = divide(matrix, everything, everything)
    fits = fit_all(division, key=key.folded("criterion", 0), trained=trained)
    found = profile_of(matrix, division, fits)
    truth = np.full(found.accuracy.shape, np.nan)
    if matrix.truth is not None:
        truth = matrix.truth["theta"].to_numpy()
    return [
        {
            "items": int(found.n_items[k]),
            "rho": rank_correlation(found.levels[name][:, k], found.accuracy[:, k]),
            "rho_true": rank_correlation(found.levels[name][:, k], truth[:, k]),
        }
        for k, name in product(range(matrix.q.n_abilities), ESTIMATES)
    ]


def halves_task(repetition: int, matrix: AbilityMatrix, trained: int, key: PortableKey) -> Task:
    """Return abilities from one random half of the items beside those from the other."""
    places = consistency_places(matrix, HALVES, HALVES, repetition)
    return Task(places, partial(halves_rows, repetition, matrix, trained, key))


def halves_rows(
    repetition: int, matrix: AbilityMatrix, trained: int, key: PortableKey
) -> list[Row]:
    """Return a row for each ability and estimate."""
    profiles = []
    for side, half in enumerate(split_items(matrix.q.n_items, repetition, key, 0.5)):
        division, own = divide(matrix, half, half), key.folded("halves", 2 * repetition + side)
        profiles.append(profile_of(matrix, division, fit_all(division, key=own, trained=trained)))
    return consistency_rows(*profiles)


def pair_task(one: int, other: int, matrix: AbilityMatrix, trained: int, key: PortableKey) -> Task:
    """Return abilities from one benchmark beside those from another, and what each predicts."""
    ways = product(((one, other), (other, one)), predictors_of(matrix))
    places = consistency_places(matrix, one, other, 0)
    places += [("across", (*sides, name)) for sides, name in ways]
    return Task(places, partial(pair_rows, one, other, matrix, trained, key))


def pair_rows(
    one: int, other: int, matrix: AbilityMatrix, trained: int, key: PortableKey
) -> list[Row]:
    """Return the rows of both parts."""
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
    """Return what the training items of a division say of all abilities of a matrix."""
    responses, q = division.responses, division.q
    known = np.array([matrix.q.abilities.index(name) for name in q.abilities])
    of_ability, overall = accuracies(responses, q.needs)
    found = {
        "q-mirt": fits.q_mirt["theta"],
        "neural": fits.neural.abilities,
        "shares": of_ability,
        "overall": np.broadcast_to(overall[:, None], of_ability.shape),
    }
    n_items = np.zeros(matrix.q.n_abilities, np.intp)
    n_items[known] = q.needs.sum(0)
    levels = {}
    for name, values in found.items():
        levels[name] = np.full((matrix.responses.n_subjects, matrix.q.n_abilities), np.nan)
        levels[name][np.ix_(division.subjects, known)] = values
    return Profile(n_items, levels)


def accuracies(responses: Responses, needs: NDArray[np.bool_]) -> tuple[Matrix, Matrix]:
    """Return the share of right answers, by ability and over all items."""
    successes, trials = (np.asarray(x, float) for x in responses.cells.matrices())
    asked = trials @ needs
    of_ability = np.divide(successes @ needs, asked, out=np.full(asked.shape, np.nan),
                           where=asked > 0)  # fmt: skip
    return of_ability, successes.sum(1) / trials.sum(1)


def rank_correlation(one: Matrix, other: Matrix) -> float:
    """Return Spearman's ρ over the subjects that have both; NaN if they are fewer than five."""
    both = np.isfinite(one) & np.isfinite(other)
    return float(spearman(one[both], other[both])) if both.sum() >= _FEWEST else float("nan")


def consistency_places(matrix: AbilityMatrix, one: int, other: int, repetition: int) -> Places:
    """Return the part and place of each row of `consistency_rows`."""
    of_rows = product(range(matrix.q.n_abilities), ESTIMATES)
    return [("consistency", (one, other, repetition, k, name)) for k, name in of_rows]


def consistency_rows(first: Profile, second: Profile) -> list[Row]:
    """Compare abilities from two sets of items that share none.

    One row an ability and estimate: its ρ with itself, its mean ρ with the other abilities of the
    other side that have more than `MORE_THAN` items there, and with the accuracy on its own there.
    """
    rows: list[Row] = []
    for k, name in product(range(len(first.n_items)), ESTIMATES):
        a, b = first.levels[name][:, k], second.levels[name][:, k]
        sides = ((a, second), (b, first))
        others = [_rho_with_others(own, far, name, k) for own, far in sides]
        held_out = [rank_correlation(own, far.accuracy[:, k]) for own, far in sides]
        rows.append({
            "items_one": int(first.n_items[k]), "items_other": int(second.n_items[k]),
            "rho": rank_correlation(a, b), "rho_others": _mean(others),
            "held_out": _mean(held_out),
        })  # fmt: skip
    return rows


def _rho_with_others(own: Matrix, profile: Profile, name: str, k: int) -> float:
    chosen = [j for j in np.flatnonzero(profile.n_items > MORE_THAN) if j != k]
    return _mean([rank_correlation(own, profile.levels[name][:, j]) for j in chosen])


def _mean(values: Sequence[float]) -> float:
    finite = [x for x in values if np.isfinite(x)]
    return float(np.mean(finite)) if finite else float("nan")
