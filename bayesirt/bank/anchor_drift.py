"""Anchors that recent subjects answer differently than their calibration predicts."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.stats import norm

from bayesirt.bank.alarms import FALSE_ALARMS, Alarm, holm
from bayesirt.bank.anchor_answers import AnchorGroups, group_abilities
from bayesirt.bank.binomial_tails import MOST_EXACT, ExpectedAnswers, exact_tail, saddle_tail
from bayesirt.bank.suite.draws import on_device
from bayesirt.estimators.cell_expectations import Quadrature, expected_terms, usual_quadrature
from bayesirt.estimators.normal_beliefs import Abilities, Items
from bayesirt.estimators.symmetric_matrices import packed, pairs, twice_off_diagonal
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.names import one_line
from bayesirt.posterior import LEVEL, TAILS

_NODES = 7
_REACH, _ERRORS = 6.0, 41
"""Range of item errors, in standard deviations, and number of grid points."""


def anchor_drift(
    groups: AnchorGroups, abilities: Abilities, *, drifting: Sequence[str] = ()
) -> pd.DataFrame:
    """Compare answers of recent subjects to each anchor with their predictions.

    Returns one row per anchor, the most alarming first: `item`, `benchmark`, `n_recent` (answers of
    recent subjects), their proportions correct `observed` and `expected`, `drift` (the difference)
    with its 90% interval (`low`, `high`), the predictive probabilities `p_better` and `p_worse` of
    at least and at most as many right answers, `p` (the smaller one, adjusted by Holm over all
    anchors and both directions) and `alarm` (p at most .05). NaN where no recent subject answered.

    Each answer y_ij is predicted from the subject's other answers. With the belief N(m, V), the
    cell's expected score s and information w there, and q = aᵀVa, the linear predictor a·θ + d
    given the other answers has mean a·m + d - q s / (1 - w q) and variance q / (1 - w q). The
    number right is then a sum of independent binomials, given the item. The error of the item, with
    covariance C, is shared by all subjects: the tail is averaged over errors z δ, z ~ N(0, 1), for
    δ = C g / √(gᵀCg), where g = Σ_i w_i (m_i, 1) is approximately the gradient of the number right.
    Errors in other directions do not affect that number; they widen each predictor independently. A
    bank without drift raises an alarm for any anchor in at most one review out of twenty, provided
    that the model holds and recent subjects are independent; near-copies of one subject are not.

    Gelman et al. 2013, section 6.3; Holm 1979; Vehtari et al. 2016 (cavity distributions).
    """
    result = _compare(groups, abilities)
    if drifting:
        hidden = np.isin(groups.benchmarks, np.array(drifting, object))
        others = groups._replace(recent=groups.recent.only(~hidden))
        rest = _compare(others, group_abilities(others.recent, groups.items))
        result = _Comparison(*(np.where(hidden, *both) for both in zip(result, rest, strict=True)))
    return _table(groups, result)


def not_answered(groups: AnchorGroups) -> pd.DataFrame:
    """Return the table of `anchor_drift` without recent subjects: all NaN, no alarms."""
    nothing = np.full(len(groups.benchmarks), np.nan)
    return _table(groups, _Comparison(nothing, nothing, nothing, nothing))


def anchor_alarms(table: pd.DataFrame) -> list[Alarm]:
    """Return an alarm for each anchor that drifts."""
    return [_alarm(row) for _, row in table[table["alarm"]].iterrows()]


def _alarm(row: pd.Series) -> Alarm:
    better = row["drift"] > 0
    do = (
        "it may have leaked: look for it in training data, and leave its answers out"
        if better
        else "its text, its key or its setup may have changed: compare with the calibration"
    )
    text = (
        f"{one_line(row['item'])} ({one_line(row['benchmark'])}) is answered "
        f"{'better' if better else 'worse'} than calibrated: {row['observed']:.0%} of "
        f"{row['n_recent']:,} recent answers are right, {row['expected']:.0%} expected (difference "
        f"{100 * row['drift']:+.0f} points, {LEVEL:.0%} interval {100 * row['low']:+.0f} to "
        f"{100 * row['high']:+.0f}; p = {row['p']:.2g} over all anchors); {do}."
    )
    return Alarm("anchor", row["benchmark"], row["item"], text)


def _table(groups: AnchorGroups, comparison: "_Comparison") -> pd.DataFrame:
    total, right = groups.recent.trials.sum(0), groups.recent.successes.sum(0)
    seen = total > 0
    with np.errstate(invalid="ignore"):
        observed, expected, sd = right / total, comparison.mean / total, comparison.sd / total
    drift, wide = observed - expected, norm.ppf(TAILS[1]) * sd
    both = np.where(seen, np.stack([comparison.better, comparison.worse]), np.nan)
    p = np.fmin(*holm(both))
    table = pd.DataFrame(
        {
            "item": np.asarray(groups.items.names, object),
            "benchmark": groups.benchmarks,
            "n_recent": total,
            "observed": observed,
            "expected": expected,
            "drift": drift,
            "low": np.maximum(drift - wide, -expected),
            "high": np.minimum(drift + wide, 1 - expected),
            "p_better": both[0],
            "p_worse": both[1],
            "p": p,
            "alarm": p <= FALSE_ALARMS,
        }
    )
    return table.iloc[np.lexsort([np.fmin(*both), p])].reset_index(drop=True)


class _Comparison(NamedTuple):
    """Tail probabilities of each anchor's number right, and its mean and standard deviation."""

    better: NDArray[np.float64]
    worse: NDArray[np.float64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]


class _Predictors(NamedTuple):
    """Linear predictors of all cells, as polynomials of the item's error z.

    Mean is `mean` + z `slope`, and variance Σ_k z^k `variance`[k].
    """

    mean: Float[Array, "subject anchor"]
    slope: Float[Array, "subject anchor"]
    variance: tuple[Float[Array, "subject anchor"], ...]


def _compare(groups: AnchorGroups, abilities: Abilities) -> _Comparison:
    layout, trials = groups.recent.layout, groups.recent.trials
    most, most_a_cell = int(trials.sum(0).max()), int(trials.max())
    given, quadrature = on_device(groups.items), usual_quadrature(layout, None)
    tails = _tails(layout, *given, abilities, quadrature, most, most_a_cell)
    better, worse, mean, second = (np.asarray(x, np.float64) for x in tails)
    return _Comparison(better, worse, mean, np.sqrt(np.maximum(second - mean**2, 0)))


@partial(jax.jit, static_argnums=(4, 5, 6))
def _tails(
    layout: DenseLayout,
    items: Items,
    covariance: Float[Array, "anchor parameter parameter"],
    abilities: Abilities,
    quadrature: Quadrature,
    most: int,
    most_a_cell: int,
) -> tuple[Array, ...]:
    """Return both tails of each anchor's number right, its mean and its mean square."""
    predictors = _without_the_cell(layout, items, covariance, abilities, quadrature)
    right, dtype = layout.successes.sum(0), abilities.mean.dtype
    tail = saddle_tail
    if most <= MOST_EXACT:
        tail = partial(exact_tail, most=most, most_a_cell=most_a_cell)

    def given_error(error: tuple[Array, Array]) -> tuple[Array, ...]:
        z, share = error
        cells = _cells(predictors, layout.trials, z, joined=most_a_cell == 1)
        p = jax.nn.sigmoid(cells.eta)
        chance = jnp.tensordot(cells.shares, p, 1)
        mean = (layout.trials * chance).sum(0)
        within = jnp.tensordot(cells.shares, p**2, 1)
        n = layout.trials
        variance = (n * (chance - within) + n**2 * (within - chance**2)).sum(0)
        wrong = n.sum(0) - right
        values = tail(right, cells), tail(wrong, cells.reversed()), mean, variance + mean**2
        return tuple(share * x for x in values)

    z = np.linspace(-_REACH, _REACH, _ERRORS)
    shares = norm.pdf(z) / norm.pdf(z).sum()
    values = jax.lax.map(given_error, (jnp.asarray(z, dtype), jnp.asarray(shares, dtype)))
    return tuple(x.sum(0) for x in values)


def _without_the_cell(
    layout: DenseLayout,
    items: Items,
    covariance: Float[Array, "anchor parameter parameter"],
    abilities: Abilities,
    quadrature: Quadrature,
) -> _Predictors:
    """Predict each cell from the subject's other answers."""
    _, score, weight = expected_terms(layout, items, abilities, quadrature)
    m, spread = abilities.mean, packed(abilities.covariance)
    one = jnp.concatenate([m, jnp.ones_like(m[:, :1])], 1)
    pull = jnp.einsum("jkl,jl->jk", covariance, weight.T.astype(m.dtype) @ one)
    size = (pull * (weight.T.astype(m.dtype) @ one)).sum(1, keepdims=True)
    error = pull / jnp.sqrt(jnp.maximum(size, jnp.finfo(m.dtype).tiny))
    residual = covariance - error[:, :, None] * error[:, None, :]
    e = error[:, :-1]
    q, q_e, both = (spread @ pairs(x, 2.0).T for x in (items.a, e, items.a + e))
    cross, remainder = (both - q - q_e) / 2, 1 - weight * q
    off, more = score / remainder, weight / remainder
    beyond = jnp.maximum(pairs(one, 1.0) @ twice_off_diagonal(residual).T, 0)
    return _Predictors(
        m @ items.a.T + items.d - off * q,
        one @ error.T - off * cross,
        (q + more * q**2 + beyond, 2 * cross * (1 + more * q), q_e + more * cross**2),
    )


def _cells(
    predictors: _Predictors, trials: Array, z: Float[Array, ""], *, joined: bool
) -> ExpectedAnswers:
    """Return the chances of right answers for an error z of the items.

    For single trials, only the mean over abilities matters, which is one value.
    """
    constant, linear, square = predictors.variance
    spread = jnp.sqrt(jnp.maximum(constant + z * linear + z**2 * square, 0))
    mean = predictors.mean + z * predictors.slope
    points, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    at = jnp.asarray(points, mean.dtype)[:, None, None]
    cells = ExpectedAnswers(
        trials, mean + at * spread, jnp.asarray(weights / weights.sum(), mean.dtype)
    )
    if not joined:
        return cells
    right, wrong = (cells.log_mean(jax.nn.log_sigmoid(x)) for x in (cells.eta, -cells.eta))
    return ExpectedAnswers(trials, (right - wrong)[None], jnp.ones(1, mean.dtype))
