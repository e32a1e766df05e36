"""Benchmarks that recent subjects answer differently than their other answers predict."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.stats import ttest_ind

from bayesirt.bank.alarms import FALSE_ALARMS, Alarm, holm
from bayesirt.bank.anchor_answers import AnchorGroups, Group, group_abilities
from bayesirt.bank.suite.draws import on_device
from bayesirt.estimators.cell_expectations import Quadrature, expected_terms, usual_quadrature
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.normal_beliefs import Abilities, Items
from bayesirt.estimators.symmetric_matrices import pairs, twice_off_diagonal
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.names import one_line
from bayesirt.posterior import LEVEL

LEAST_SUBJECTS = 3
"""Fewest subjects of each kind; with fewer, the spread of errors cannot be estimated."""

MARGIN = 0.5
"""Difference of group means that does not count as drift, in standard deviations of the reference
subjects' errors."""


def benchmark_drift(groups: AnchorGroups) -> pd.DataFrame:
    """Compare recent and reference subjects by their errors of prediction on each benchmark.

    Returns one row per benchmark, in the bank's order: `n_compared` (recent subjects that answered
    anchors of it and of others), `drift` (mean error of the proportion correct of its anchors, of
    recent minus reference subjects) with its 90% interval (`drift_low`, `drift_high`), and
    `drift_p` (against a drift within `MARGIN`, in either direction, adjusted by Holm over
    benchmarks and directions). NaN if there are fewer than 3 such subjects of a kind, as in any
    bank with one benchmark.

    If a whole benchmark leaked, its anchors agree with each other and none drifts on its own.
    Therefore each subject's number right on a benchmark is predicted from the other benchmarks
    only, and its standardised error is compared between recent and reference subjects by Welch's t;
    errors of the model that affect all subjects cancel. Means may differ by `MARGIN` standard
    deviations of the reference subjects' errors, as groups do without a leak: generally able
    subjects also do well at what only this benchmark asks for, which answers to others do not show.
    A leak makes subjects seem too bad at all other benchmarks; once one drifts, the rest are tested
    again as if it had not been answered. Subjects are treated as independent.

    Welch 1947; Holm 1979.
    """
    names = list(dict.fromkeys(groups.benchmarks))
    rows: dict[str, _Drift] = {}
    drifting: list[str] = []
    while len(drifting) < len(names):
        pool = [name for name in names if name not in drifting]
        rows |= {name: _compare(groups, name, drifting) for name in pool}
        p = holm(np.array([(rows[name].p_better, rows[name].p_worse) for name in pool]))
        rows |= {name: rows[name]._replace(p=float(np.fmin(*p[k]))) for k, name in enumerate(pool)}
        first = min(pool, key=lambda name: np.nan_to_num(rows[name].least, nan=np.inf))
        if not rows[first].p <= FALSE_ALARMS:
            break
        drifting.append(first)
    columns = {"n_compared": "n_recent", "drift": "drift", "drift_low": "low", "drift_high": "high"}
    columns |= {"drift_p": "p"}
    return pd.DataFrame(
        {name: [getattr(rows[b], field) for b in names] for name, field in columns.items()},
        pd.Index(names, name="benchmark"),
    )


def benchmark_alarms(table: pd.DataFrame) -> list[Alarm]:
    """Return an alarm for each benchmark that drifts."""
    drifting = table[table["drift_p"] <= FALSE_ALARMS]
    return [_alarm(str(name), row) for name, row in drifting.iterrows()]


def _alarm(name: str, row: pd.Series) -> Alarm:
    better = row["drift"] > 0
    do = (
        "it may have leaked, or recent subjects were trained for it: look for it in training data "
        "before you quote their scores"
        if better
        else "it may be run or scored differently than before: compare with the calibration"
    )
    text = (
        f"{one_line(name)} as a whole: {row['n_compared']:,.0f} recent subjects are "
        f"{100 * abs(row['drift']):.0f} points {'better' if better else 'worse'} on its anchors "
        f"than their answers to other benchmarks predict ({LEVEL:.0%} interval "
        f"{100 * row['drift_low']:+.0f} to {100 * row['drift_high']:+.0f}; p = "
        f"{row['drift_p']:.2g} over all benchmarks); {do}."
    )
    return Alarm("benchmark", name, None, text)


class _Drift(NamedTuple):
    """Comparison of recent and reference subjects on one benchmark."""

    n_recent: int
    drift: float = np.nan
    low: float = np.nan
    high: float = np.nan
    p_better: float = np.nan
    p_worse: float = np.nan
    p: float = np.nan

    @property
    def least(self) -> float:
        return min(self.p_better, self.p_worse)


def _compare(groups: AnchorGroups, name: str, drifting: list[str]) -> _Drift:
    own = groups.benchmarks == name
    shown = ~own & ~np.isin(groups.benchmarks, np.array(drifting, object))
    recent, reference = (
        _errors(group, groups.items, own, shown) for group in (groups.recent, groups.reference)
    )
    if min(len(recent.share), len(reference.share)) < LEAST_SUBJECTS:
        return _Drift(len(recent.share))
    margin = MARGIN * reference.standardised.std(ddof=1)
    p_better, p_worse = (
        ttest_ind(
            recent.standardised - sign * margin,
            reference.standardised,
            equal_var=False,
            alternative=side,
        ).pvalue
        for side, sign in (("greater", 1), ("less", -1))
    )
    size = ttest_ind(recent.share, reference.share, equal_var=False).confidence_interval(LEVEL)
    drift = recent.share.mean() - reference.share.mean()
    return _Drift(
        len(recent.share),
        *map(float, (drift, size.low, size.high, p_better, p_worse)),
    )


class _Errors(NamedTuple):
    """Observed minus predicted right answers of each subject that can be judged."""

    share: NDArray[np.float64]
    standardised: NDArray[np.float64]


def _errors(
    group: Group, items: KnownItems, own: NDArray[np.bool_], shown: NDArray[np.bool_]
) -> _Errors:
    """Return prediction errors on a benchmark's own anchors, given answers to the shown ones."""
    judged = (group.trials[:, own] > 0).any(1) & (group.trials[:, shown] > 0).any(1)
    if not judged.any():
        return _Errors(np.empty(0), np.empty(0))
    abilities = group_abilities(group.only(shown), items)
    target = group.only(own)
    layout = target.layout
    moments = _OFF(layout, *on_device(items), abilities, usual_quadrature(layout, None))
    off, variance = (np.asarray(x, np.float64)[judged] for x in moments)
    return _Errors(off / target.trials.sum(1)[judged], off / np.sqrt(variance))


def _off_by(
    layout: DenseLayout,
    items: Items,
    covariance: Float[Array, "anchor parameter parameter"],
    abilities: Abilities,
    quadrature: Quadrature,
) -> tuple[Float[Array, " subject"], Float[Array, " subject"]]:
    """Return each subject's error of the number right, and its expected variance."""
    terms = expected_terms(layout, items, abilities, quadrature)
    weight, m = terms.information.astype(items.d.dtype), abilities.mean
    slope = weight @ items.a
    one = jnp.concatenate([m, jnp.ones_like(m[:, :1])], 1)
    of_items = pairs(one, 1.0) @ twice_off_diagonal(covariance).T
    variance = weight.sum(1) + (weight**2 * of_items).sum(1)
    variance += jnp.einsum("ik,ikl,il->i", slope, abilities.covariance, slope)
    return terms.score.sum(1, dtype=m.dtype), variance


_OFF: Any = jax.jit(_off_by, static_argnums=4)
