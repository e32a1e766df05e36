"""Benchmarks that measure something which the suite's abilities do not capture."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.bank.alarms import Alarm
from bayesirt.bank.anchor_answers import group_abilities, group_of
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.suite.draws import on_device
from bayesirt.bank.tables import ANSWER_COLUMNS
from bayesirt.data.responses import Responses
from bayesirt.estimators.dimension import log_scores
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.fpc import calibrate_items
from bayesirt.estimators.mirt import fit_mirt
from bayesirt.estimators.normal_beliefs import Abilities, Beliefs
from bayesirt.names import one_line
from bayesirt.point_estimate import PointEstimate
from bayesirt.random_keys import host_random

_FIGURES = ("n_held_out", "shared_log_score", "own_ahead", "own_ahead_se")
_PARTS = 5
"""One in this many answers to an item is held out."""
_STANDARD_ERRORS, _LEAST = 1.645, 1.0
_TOLERANCE = 1e-5


def measure_novelty(responses: Responses, known: KnownItems, *, key: Array) -> dict[str, float]:
    """Compare predictions of a new benchmark from the suite's abilities and from its own ability.

    Returns `n_held_out`, the number of held-out answers; `shared_log_score`, their log predictive
    probability by fixed-parameter calibration on the other answers; `own_ahead`, the improvement if
    the benchmark has one ability of its own; and its standard error over subjects, `own_ahead_se`.
    Empty if too few subjects answered to hold any out.

    Of the n answers to each item, new or known, from subjects that answered both kinds, n/5
    (rounded down) are held out once. With its own ability, new items are predicted by a
    one-dimensional `fit_mirt` to their kept answers, and known items by the suite's abilities given
    kept answers to known items. Known items count too: calibration may bend abilities that few
    anchors determine towards the new benchmark, and then predicts it well but known items badly.
    All scores integrate over the uncertainty of items, and of abilities given them.

    Habba et al. (2026), section 6.
    """
    table = responses.to_long()[list(ANSWER_COLUMNS)]
    is_known = table["item"].isin(known.names).to_numpy()
    held = _held_out(table, is_known, key)
    if not held.any():
        return {}
    training, of_new = (
        Responses.from_long(table[rows], score="successes", trials="trials")
        for rows in (~held, ~held & ~is_known)
    )
    point = calibrate_items(training, known, tolerance=_TOLERANCE)
    shared = _log_scores(_Fitted.of(point), table[held])
    alone = _log_scores(_Fitted.of(fit_mirt(of_new, tolerance=_TOLERANCE)), table[held & ~is_known])
    before = _log_scores(_without_new(table[~held & is_known], known), table[held & is_known])
    ahead = alone.add(before, fill_value=0).sub(shared, fill_value=0)
    error = ahead.std(ddof=1) * np.sqrt(len(ahead)) if len(ahead) > 1 else 0.0
    numbers = held.sum(), shared.sum(), ahead.sum(), error
    return dict(zip(_FIGURES, map(float, numbers), strict=True))


def novelty(bank: ItemBank) -> pd.DataFrame:
    """Return the figures of `measure_novelty` that were recorded when benchmarks were added.

    One row per benchmark; NaN for the first benchmarks and where nothing was measured.
    """
    figures = {name: values for step in bank.steps for name, values in step.figures.items()}
    rows = [{x: figures.get(name, {}).get(x, np.nan) for x in _FIGURES} for name in
            bank.benchmark_names]  # fmt: skip
    return pd.DataFrame(rows, pd.Index(bank.benchmark_names, name="benchmark"))


def novelty_alarms(table: pd.DataFrame) -> list[Alarm]:
    """Return an alarm for each benchmark that is predicted better with its own ability."""
    least = np.maximum(_STANDARD_ERRORS * table["own_ahead_se"], _LEAST)
    new = table[table["own_ahead"] > least]
    return [_alarm(str(name), row) for name, row in new.iterrows()]


def _alarm(name: str, row: pd.Series) -> Alarm:
    text = (
        f"{one_line(name)} measures something that the suite's abilities do not capture: an "
        f"ability of its own improves the log score of {row['n_held_out']:,.0f} held-out answers "
        f"by {row['own_ahead']:.0f} (standard error {row['own_ahead_se']:.0f}); do not trust "
        f"predictions of it from other benchmarks, and make a new bank with more abilities."
    )
    return Alarm("novelty", name, None, text)


def _held_out(table: pd.DataFrame, is_known: NDArray[np.bool_], key: Array) -> NDArray[np.bool_]:
    """Return which answers to hold out; every subject keeps some answers of each kind."""
    subjects = table["subject"]
    linked = subjects.isin(subjects[is_known]) & subjects.isin(subjects[~is_known])
    rows = table[linked].assign(
        order=lambda t: host_random(key).permutation(len(t)), known=is_known[linked]
    )
    of_items = rows.groupby("item")["order"]
    out = of_items.rank(method="first") <= of_items.transform("size") // _PARTS
    has_others = (~out).groupby([rows["subject"], rows["known"]]).transform("any")
    held = pd.Series(False, table.index)
    held[rows.index] = out & has_others
    return held.to_numpy()


class _Fitted(NamedTuple):
    """Items and abilities with their names."""

    subjects: tuple[str, ...]
    items: KnownItems
    abilities: Abilities

    @classmethod
    def of(cls, point: PointEstimate) -> "_Fitted":
        subjects = tuple(map(str, point.parameters["subject"].values))
        abilities = Abilities(*(jnp.asarray(point[x]) for x in ("theta", "theta_covariance")))
        return cls(subjects, KnownItems.from_estimate(point), abilities)


def _without_new(kept: pd.DataFrame, known: KnownItems) -> _Fitted:
    """Estimate abilities from kept answers to known items."""
    group = group_of(kept, known.names)
    return _Fitted(group.subjects, known, group_abilities(group, known))


def _log_scores(fitted: _Fitted, held: pd.DataFrame) -> pd.Series:
    """Return the log predictive probability of each subject's held-out answers."""
    group = group_of(held, fitted.items.names, fitted.subjects)
    items, unknown = on_device(fitted.items)
    beliefs = Beliefs(Abilities(*(x.astype(items.d.dtype) for x in fitted.abilities)), unknown)
    values = np.asarray(_LOG_SCORES(group.layout, items, beliefs), np.float64)
    scores = pd.Series(values, fitted.subjects)
    return scores[held["subject"].unique()]


_LOG_SCORES: Any = jax.jit(log_scores)
