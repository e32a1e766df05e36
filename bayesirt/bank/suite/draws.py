"""Draws of the number of right unseen answers, given a few answers to calibrated items."""

import operator
from collections.abc import Callable
from functools import partial, reduce
from math import prod
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from bayesirt.estimators import lapack
from bayesirt.estimators.ability_beliefs import ability_steps
from bayesirt.estimators.cell_expectations import usual_quadrature
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.normal_beliefs import Abilities, Items, Normal, without_answers
from bayesirt.estimators.symmetric_matrices import (
    packed,
    pairs,
    twice_off_diagonal,
    unpacked,
)
from bayesirt.inference.block_steps import Chance, Conditional, choose, newton_move
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.families import LOGIT
from bayesirt.progress import progress_bar

_STEPS = 3
_ABILITY_STEPS = 25
_AT_ONCE = 20
_NODES = 3
_LEAST_VARIANCE = 1e-12


class SuiteProblem(NamedTuple):
    """The given answers, and the cells to be predicted."""

    items: Items  # Items of all benchmarks.
    # R with R Rᵀ the covariance of an item's (a, d); None if items are exact.
    roots: Float[Array, "item parameter parameter"] | None
    given: Int[Array, " answered"]  # Positions of the items with answers.
    layout: DenseLayout  # The answers, shape (subject, answered).
    open_cells: Bool[Array, "subject item"]  # Cells to be predicted.
    belongs: Float[Array, "item benchmark"]  # 1 where the item belongs to the benchmark.
    population: Normal  # Population of abilities.


class UnseenAnswers(NamedTuple):
    """Draws of the numbers of right answers among the predicted cells."""

    # shape (draw, subject, benchmark). Expected number given the draw's abilities and items.
    expected: NDArray[np.float64]
    # shape (draw, subject, benchmark). Variance of the number given abilities and items, due to
    # chance in answering.
    chance: NDArray[np.float64]
    abilities: Abilities  # Normal approximations to the posteriors, with items treated as exact.
    accepted: float  # Acceptance rate of the Metropolis steps.


def roots_of(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return R with R Rᵀ the covariance, for one or several covariances."""
    values, vectors = np.linalg.eigh(covariance)
    roots: NDArray[np.float64] = vectors * np.sqrt(np.maximum(values, 0))[..., None, :]
    return roots


def on_device(known: KnownItems) -> tuple[Items, Float[Array, "item parameter parameter"]]:
    """Return slopes and intercepts of items, and the covariance of their errors."""
    a, d, covariance = (
        jnp.asarray(x, jnp.result_type(float)) for x in (known.a, known.d, known.covariance)
    )
    return Items(a, d), covariance


def problem_of(
    items: KnownItems,
    belongs: NDArray[np.intp],
    successes: NDArray[np.integer],
    trials: NDArray[np.integer],
    open_cells: NDArray[np.bool_],
) -> SuiteProblem:
    """Put answers and items on the device."""
    n, dtype = items.n_abilities, jnp.result_type(float)
    given = np.flatnonzero(trials.any(0))
    return SuiteProblem(
        on_device(items)[0],
        jnp.asarray(roots_of(items.covariance), dtype) if items.covariance.any() else None,
        jnp.asarray(given),
        DenseLayout(jnp.asarray(successes[:, given]), jnp.asarray(trials[:, given])),
        jnp.asarray(open_cells),
        jnp.asarray(np.eye(belongs.max() + 1)[belongs], dtype),
        Normal(jnp.zeros(n, dtype), jnp.eye(n, dtype=dtype)),
    )


def draw_unseen(
    problem: SuiteProblem, *, key: Array, n_draws: int, progress: bool = False
) -> UnseenAnswers:
    """Draw abilities given answers, and items, and from both the answers of open cells.

    The likelihood of an answer is averaged over the uncertainty of the item's parameters, by three
    Gauss-Hermite nodes of the linear predictor. Drawing items first, without regard to the answers,
    and then abilities given them would underestimate the uncertainty of abilities, as errors of
    slopes inflate their information. Abilities start at a draw from a normal approximation and
    take three exact Newton-Metropolis steps. Items of open cells are drawn from their calibration,
    the same for all subjects of a draw: their errors are shared, and cancel when subjects are
    compared. Errors of answered items count for each subject separately.
    """
    start = _APPROXIMATE(problem)
    n_rounds = -(-n_draws // _AT_ONCE)
    keys = jax.random.split(key, n_rounds * _AT_ONCE).reshape(n_rounds, _AT_ONCE)
    cell_type = usual_quadrature(DenseLayout(problem.open_cells, problem.open_cells), None).dtype
    rounds = []
    with progress_bar("Predicting") as show:
        for n_done, batch in enumerate(keys, 1):
            rounds.append([np.asarray(x, float) for x in _draw(problem, start, batch, cell_type)])
            if progress and show is not None:
                show(n_done, n_rounds)
    expected, chance, accepted = (np.concatenate(x)[:n_draws] for x in zip(*rounds, strict=True))
    return UnseenAnswers(expected, chance, start, float(accepted.mean()))


def expected_right(
    problem: SuiteProblem, theta: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the expected number right in open cells and its gradient, for given abilities."""
    result = _expected_right(problem, jnp.asarray(theta, problem.items.a.dtype))
    return np.asarray(result[0], float), np.asarray(result[1], float)


@jax.jit
def _expected_right(
    problem: SuiteProblem, theta: Float[Array, "subject ability"]
) -> tuple[Array, ...]:
    a, p = problem.items.a, problem.items.right(theta)
    weights = jnp.where(problem.open_cells, p * (1 - p), 0)
    expected = jnp.where(problem.open_cells, p, 0) @ problem.belongs
    slopes = [weights @ (problem.belongs * a[:, k, None]) for k in range(a.shape[1])]
    return expected, jnp.stack(slopes, -1)


def _approximate(problem: SuiteProblem) -> Abilities:
    """Return normal approximations to the posteriors of abilities, given items."""
    items, population = problem.items, problem.population
    given_items = Items(items.a[problem.given], items.d[problem.given])
    first = without_answers(population, problem.layout.shape[0])
    quadrature = usual_quadrature(problem.layout, None)
    return ability_steps(problem.layout, given_items, population, first, quadrature, _ABILITY_STEPS)


_APPROXIMATE = jax.jit(_approximate)


@partial(jax.jit, static_argnums=3)
def _draw(
    problem: SuiteProblem, start: Abilities, keys: Array, cell_type: DTypeLike
) -> tuple[Array, Array, Array]:
    """Return expected numbers, variances and acceptance rates of some draws."""
    roots, dtype = lapack.cholesky(start.covariance), start.mean.dtype
    belongs, of_items = problem.belongs.astype(cell_type), problem.items.both.shape
    of_unsure = 0 if problem.roots is None else prod(of_items)
    n_numbers = 2 * (_STEPS + 1) * start.mean.size + of_unsure

    def one_draw(key: Array) -> tuple[Array, Array, Array]:
        numbers, items = RandomNumbers(key, n_numbers), problem.items
        off = numbers.normal(start.mean.shape, dtype)
        theta = start.mean + jnp.einsum("ikl,il->ik", roots, off)
        theta, accepted = _move(problem, theta, numbers)
        if problem.roots is not None:
            off = jnp.einsum("jkl,jl->jk", problem.roots, numbers.normal(of_items, dtype))
            items = Items.of(items.both + off)
        eta = theta.astype(cell_type) @ items.a.T.astype(cell_type) + items.d.astype(cell_type)
        p = jnp.where(problem.open_cells, LOGIT.probability(eta), 0)
        expected = p @ belongs
        return expected, jnp.maximum(expected - p**2 @ belongs, 0), accepted

    return jax.lax.map(one_draw, keys)


def _move(
    problem: SuiteProblem, theta: Float[Array, "subject ability"], numbers: RandomNumbers
) -> tuple[Float[Array, "subject ability"], Float[Array, ""]]:
    """Take Metropolis steps on abilities given answers."""
    centre, precision = problem.population
    likelihood = _exact_items(problem)
    if problem.roots is not None:
        likelihood = _unsure_items(problem, problem.roots[problem.given])

    def evaluate(theta: Array) -> tuple[Conditional, Conditional]:
        value, score, information = likelihood(theta)
        off = theta - centre
        pull = off @ precision
        state = Conditional(value - (pull * off).sum(1) / 2, score - pull, information + precision)
        return state, state

    def step(
        carry: tuple[Array, Conditional], chance: Chance
    ) -> tuple[tuple[Array, Conditional], Array]:
        theta, state = carry
        moved = newton_move(chance, theta, evaluate, current=(state, state))
        parts = (choose(moved.accepted, y, x) for x, y in zip(*moved.notes, strict=True))
        return (moved.position, Conditional(*parts)), moved.accepted.mean(dtype=theta.dtype)

    chances = Chance(
        numbers.normal((_STEPS, *theta.shape), theta.dtype),
        -numbers.exponential((_STEPS, len(theta)), theta.dtype),
    )
    (theta, _), accepted = jax.lax.scan(step, (theta, evaluate(theta)[0]), chances)
    return theta, accepted.mean()


_Likelihood = Callable[[Array], tuple[Array, Array, Array]]


def _exact_items(problem: SuiteProblem) -> _Likelihood:
    """Return a function of θ for each subject's log likelihood, score and information."""
    a, d = problem.items.a[problem.given], problem.items.d[problem.given]
    squares = pairs(a, 1.0)

    def likelihood(theta: Array) -> tuple[Array, Array, Array]:
        terms = LOGIT.terms(theta @ a.T + d, problem.layout.successes, problem.layout.trials)
        information = unpacked(terms.information @ squares, a.shape[1])
        return terms.log_likelihood.sum(1), terms.score @ a, information

    return likelihood


def _unsure_items(
    problem: SuiteProblem, roots: Float[Array, "answered parameter parameter"]
) -> _Likelihood:
    """Return the same function, averaged over the parameters of each item.

    With nodes x_q, their weights r_q given the answer, and η_q = âθ + d + x_q √v for the variance
    v = (θ, 1) C (θ, 1)ᵀ: the score is Σ_q r_q s_q (â + x_q (C_a θ + C_ad) / √v), and the
    information of a cell about η is the positive part of Σ_q r_q w_q minus the variance of s_q.
    """
    a, d = problem.items.a[problem.given], problem.items.d[problem.given]
    covariance, n = roots @ jnp.swapaxes(roots, 1, 2), a.shape[1]
    squares, weights = pairs(a, 1.0), twice_off_diagonal(covariance)
    of_slopes, edge = packed(covariance[:, :n, :n]), covariance[:, :n, n]
    points, shares = np.polynomial.hermite_e.hermegauss(_NODES)
    logs = np.log(shares / shares.sum())

    def likelihood(theta: Array) -> tuple[Array, Array, Array]:
        one = jnp.concatenate([theta, jnp.ones_like(theta[:, :1])], 1)
        spread = jnp.sqrt(jnp.maximum(pairs(one, 1.0) @ weights.T, _LEAST_VARIANCE))
        eta = theta @ a.T + d
        at = [
            LOGIT.terms(eta + float(x) * spread, problem.layout.successes, problem.layout.trials)
            for x in points
        ]
        parts = [float(log) + terms.log_likelihood for log, terms in zip(logs, at, strict=True)]
        highest = reduce(jnp.maximum, parts)
        ahead = [jnp.exp(part - highest) for part in parts]
        total = reduce(operator.add, ahead)
        value, given = highest + jnp.log(total), [part / total for part in ahead]

        def mean(values: list[Array]) -> Array:
            return reduce(operator.add, map(operator.mul, given, values))

        score = mean([terms.score for terms in at])
        pull = mean([float(x) * t.score for x, t in zip(points, at, strict=True)]) / spread
        within = mean([terms.information - terms.score**2 for terms in at]) + score**2
        slopes = unpacked(pull @ of_slopes, n)
        return (
            value.sum(1),
            score @ a + jnp.einsum("ikl,il->ik", slopes, theta) + pull @ edge,
            unpacked(jnp.maximum(within, 0) @ squares, n),
        )

    return likelihood
