"""Additional moves of the graded model, which update each threshold of each item by itself.

Given ability, slope and the other thresholds, a threshold depends only on the answers of the two
grades that it separates, and on the gaps to its neighbours. So all odd thresholds move at once, and
then all even ones, each accepted or rejected by itself; the slope and all thresholds together move
as items of the 2PL do. The populations of gaps move together with the gaps of all items, each of
which is hardly informative by itself.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.inference.block_steps import (
    SHORT,
    Conditional,
    chance_for,
    derivatives,
    newton_move,
    shortened,
)
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.moves import carried
from bayesirt.inference.one_ability import OneAbility
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.likelihood.cell_sums import Layout
from bayesirt.likelihood.graded import logistic, middle_of, offsets
from bayesirt.likelihood.passes import Passes

_LEAST_PRECISION, _LEAST_OF_LOG_SIGMA = 0.25, 1.0
_SHORT_STEPS = 0.5
"""Probability that a threshold takes a short step: from a tail in which nobody has the next grade,
full steps go too far."""


class ByThresholds(OneAbility):
    """The graded model: items move by slope and intercept, gaps by thresholds."""

    def item_sites(self, sites: Position) -> list[str]:
        """Return the names of the sites that move as items of the 2PL do, with gaps held fixed."""
        return [name for name in ("a", "d") if name in sites]

    def passes(self, data: Any, sites: Position, dtype: DTypeLike) -> Passes:
        """Return passes whose derivatives are with respect to η alone."""
        passes = super().passes(data, sites, dtype)
        return passes._replace(family=passes.family._replace(all_terms=None))

    def own_moves(self, data: Any, dtype: DTypeLike) -> tuple[list[Move], list[Move]]:
        """Return the moves of thresholds, which follow those of blocks."""
        moves = [move_thresholds, carry_gaps] if self.gaps else [move_thresholds]
        return [], [partial(move, self, data, dtype) for move in moves]

    @property
    def gaps(self) -> tuple[str, ...]:
        """Names of the gaps."""
        return self.model.family.further

    @property
    def n_thresholds(self) -> int:
        """Number of thresholds."""
        return len(self.gaps) + 1

    def thresholds(self, sites: Position) -> Float[Array, "item threshold"]:
        """Return each item's thresholds on the scale of η, the lowest grade's first."""
        shifts = offsets(*(jnp.exp(sites[name]) for name in self.gaps))
        return jnp.stack([sites["d"] + x for x in shifts], 1)

    def with_thresholds(
        self, sites: Position, thresholds: Float[Array, "item threshold"]
    ) -> Position:
        """Return the sites with other thresholds."""
        gaps = jnp.log(thresholds[:, :-1] - thresholds[:, 1:])
        middle = middle_of(self.n_thresholds) - 1
        return sites | {"d": thresholds[:, middle]} | dict(zip(self.gaps, gaps.T, strict=True))


class OfScores(OneAbility):
    """Models of scores, in which items need short steps to get out of a tail."""

    short_steps = True


class ThresholdSums(NamedTuple):
    """Log likelihood, score and information of thresholds."""

    log_likelihood: Float[Array, "item threshold"]
    score: Float[Array, "item threshold"]
    information: Float[Array, "item threshold"]


class Between(NamedTuple):
    """Unconstrained coordinates of non-adjacent thresholds of all items, given their neighbours.

    The coordinate is the log ratio of a threshold's distances to its two neighbours, or the log
    distance to its only neighbour.
    """

    # shape (item, threshold). Neighbouring thresholds, NaN if there is none.
    above: Array
    below: Array

    def coordinate(self, thresholds: Array) -> Array:
        """Return the unconstrained coordinates of thresholds."""
        up, down = jnp.log(self.above - thresholds), jnp.log(thresholds - self.below)
        return self._by_place(down, up - down, up)

    def thresholds(self, z: Array) -> Array:
        """Return the thresholds at unconstrained coordinates."""
        inside = self.below + (self.above - self.below) * jax.nn.sigmoid(-z)
        return self._by_place(self.below + jnp.exp(z), inside, self.above - jnp.exp(z))

    def log_volume(self, z: Array) -> Array:
        """Return the log derivative of thresholds with respect to their coordinates."""
        inside = jnp.log(self.above - self.below) + jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z)
        return self._by_place(z, inside, z)

    def _by_place(self, first: Array, inside: Array, last: Array) -> Array:
        at_end = jnp.where(jnp.isnan(self.above), first, last)
        return jnp.where(jnp.isnan(self.above) | jnp.isnan(self.below), at_end, inside)


def move_thresholds(
    way: ByThresholds, data: Any, dtype: DTypeLike, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move every second threshold of every item, then the others."""
    n, accepted = way.n_thresholds, []
    counts = _counts(way.layout(data), n).astype(sites["d"].dtype)
    for start in range(2):
        sites, some = _move_some(way, data, dtype, counts, range(start, n, 2), numbers, sites)
        accepted.append(some.mean(dtype=sites["d"].dtype))
    return sites, {"acceptance_thresholds": (accepted[0] + accepted[1]) / 2}


def carry_gaps(
    way: ByThresholds, data: Any, dtype: DTypeLike, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move the populations of gaps, with each gap's standardised value held fixed."""
    passes, every = way.passes(data, sites, dtype), range(way.n_thresholds)
    slopes = way.coefficients_of(sites)[:, 0]
    inside = _counts(way.layout(data), way.n_thresholds)[:, 1:-1].astype(sites["d"].dtype)
    names = [f"{kind}_{gap}" for kind in ("mu", "sigma") for gap in way.gaps]
    least = jnp.repeat(jnp.array([0, _LEAST_OF_LOG_SIGMA]), len(way.gaps))

    def moved(hyper: Array) -> Position:
        return carried(way, sites, hyper[0], names)[0]

    def thresholds_and_gaps(hyper: Array) -> Array:
        new_sites = moved(hyper)
        gaps = [jnp.exp(new_sites[gap])[:, None] for gap in way.gaps]
        return jnp.concatenate([way.thresholds(new_sites), *gaps], 1)

    def log_prior(hyper: Array) -> Array:
        each = way.terms(sites | dict(zip(names, hyper[0], strict=True))).each
        return jnp.stack([each[name] for name in names])[None]

    def evaluate(hyper: Array) -> tuple[Conditional, None]:
        thresholds, gaps = jnp.split(thresholds_and_gaps(hyper), [way.n_thresholds], 1)
        sums = threshold_sums(passes, sites["theta"], slopes, thresholds, every)
        of_gaps = inside / jnp.expm1(gaps), inside / (2 * jnp.sinh(gaps / 2)) ** 2
        jacobian = jax.jacfwd(thresholds_and_gaps)(hyper)[:, :, 0]
        slope, curvature = derivatives(log_prior, hyper)
        score = jnp.tensordot(jnp.concatenate([sums.score, of_gaps[0]], 1), jacobian, 2)
        information = jnp.concatenate([sums.information, of_gaps[1]], 1)
        learnt = jnp.einsum("jmh,jm,jmk->hk", jacobian, information, jacobian)
        precision = learnt + jnp.diag(jnp.maximum(-curvature[0], least))
        value = sums.log_likelihood.sum() + (inside * jnp.log(-jnp.expm1(-gaps))).sum()
        value += log_prior(hyper).sum()
        return Conditional(value[None], score + slope, precision[None]), None

    old_hyper = jnp.stack([sites[name] for name in names])[None]
    step = newton_move(chance_for(numbers, old_hyper), old_hyper, evaluate)
    return moved(step.position), {"acceptance_gaps": step.accepted[0].astype(old_hyper.dtype)}


def _move_some(
    way: ByThresholds,
    data: Any,
    dtype: DTypeLike,
    counts: Float[Array, "item grade"],
    which: range,
    numbers: RandomNumbers,
    sites: Position,
) -> tuple[Position, Array]:
    """Move some non-adjacent thresholds of all items."""
    passes, thresholds = way.passes(data, sites, dtype), way.thresholds(sites)
    bounds, at = jnp.pad(thresholds, ((0, 0), (1, 1)), constant_values=jnp.nan), jnp.array(which)
    between = Between(bounds[:, at], bounds[:, at + 2])
    log_prior = _log_prior(way, sites, between, counts, which)
    slopes = way.coefficients_of(sites)[:, 0]

    def unseen(z: Array) -> Array:
        return log_prior(between.thresholds(z)) + between.log_volume(z)

    def evaluate(flat: Array) -> tuple[Conditional, None]:
        z = flat.reshape(-1, len(which))
        values = between.thresholds(z)
        sums = threshold_sums(passes, sites["theta"], slopes, values, which)
        rate = jax.jvp(between.thresholds, (z,), (jnp.ones_like(z),))[1]
        slope, curvature = derivatives(unseen, z)
        score = sums.score * rate + slope
        precision = sums.information * rate**2 + jnp.maximum(-curvature, _LEAST_PRECISION)
        value = sums.log_likelihood + unseen(z)
        conditional = Conditional(value.ravel(), score.reshape(-1, 1), precision.reshape(-1, 1, 1))
        return shortened(conditional, shares), None

    z = between.coordinate(thresholds[:, at]).reshape(-1, 1)
    short = numbers.uniform((len(z),), z.dtype) <= _SHORT_STEPS
    shares = jnp.where(short, SHORT, 1.0)
    step = newton_move(chance_for(numbers, z), z, evaluate)
    moved = between.thresholds(step.position.reshape(-1, len(which)))
    accepted = step.accepted.reshape(moved.shape)
    return way.with_thresholds(
        sites, thresholds.at[:, at].set(jnp.where(accepted, moved, thresholds[:, at]))
    ), accepted


def _log_prior(
    way: ByThresholds,
    sites: Position,
    between: Between,
    counts: Float[Array, "item grade"],
    which: range,
) -> Callable[[Array], Array]:
    """Return the rest of the thresholds' log density: gaps, grades between, and the intercept."""
    terms, names, middle = way.terms(sites), way.gaps, middle_of(way.n_thresholds) - 1

    def of_gap(gap: Array, k: int) -> Array:
        mu, sigma = terms.centres[names[k]], terms.spreads[names[k]]
        term = -jnp.log(gap) - ((jnp.log(gap) - mu) / sigma) ** 2 / 2
        return term + counts[:, k + 1] * jnp.log(-jnp.expm1(-gap))

    def log_density(thresholds: Array) -> Array:
        densities = []
        for column, k in enumerate(which):
            term = jnp.zeros_like(thresholds[:, 0])
            if k > 0:
                term += of_gap(between.above[:, column] - thresholds[:, column], k - 1)
            if k < len(names):
                term += of_gap(thresholds[:, column] - between.below[:, column], k)
            if k == middle:
                deviation = thresholds[:, column] - terms.centres["d"]
                term -= (deviation / terms.spreads["d"]) ** 2 / 2
            densities.append(term)
        return jnp.stack(densities, 1)

    return log_density


def threshold_sums(
    passes: Passes,
    theta: Float[Array, " subject"],
    a: Float[Array, " item"],
    thresholds: Float[Array, "item threshold"],
    which: range,
) -> ThresholdSums:
    """Return log likelihood, score and information of thresholds, from their adjacent grades."""

    def summed(layout: Layout, theta: Array, slopes: Array, others: tuple[Array, ...]) -> Any:
        dtype = passes.dtype_of(layout, theta)
        one, parts = jnp.ones(len(theta), dtype), []
        nothing = jnp.zeros_like(others[0], dtype)
        eta = layout.predictor(theta.astype(dtype), slopes.astype(dtype), nothing)
        seen = layout.trials > 0
        for k, threshold in zip(which, others, strict=True):
            u, at = eta + layout.of_items(threshold.astype(dtype)), layout.successes == k + 1
            parted = seen & (at | (layout.successes == k))
            prob = logistic(jnp.where(at, u, -u))
            each = prob.log_share, jnp.where(at, prob.rest, -prob.rest), prob.share * prob.rest
            parts.append([layout.over_subjects(jnp.where(parted, x, 0), one) for x in each])
        return (), tuple(jnp.stack(x, 1) for x in zip(*parts, strict=True))

    coefficients = jnp.column_stack([a, thresholds])
    sums = passes.by_rows(summed, theta[:, None], coefficients)[1]
    return ThresholdSums(*(x.astype(theta.dtype) for x in sums))


def _counts(data: Layout, n: int) -> Float[Array, "item grade"]:
    """Return the number of subjects with each grade of each item."""

    def counted(layout: Layout, rows: Array) -> tuple[tuple[()], Array]:
        one, grades = jnp.ones(len(rows), jnp.float32), layout.successes
        seen = layout.trials > 0
        counts = [layout.over_subjects((seen & (grades == k)) * one[0], one) for k in range(n + 1)]
        return (), jnp.stack(counts, 1)

    return data.by_rows(counted, jnp.zeros(data.shape[0]))[1]
