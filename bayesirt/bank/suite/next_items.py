"""Which unseen answers would be most informative about a subject's score on the whole suite."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from bayesirt.bank.suite.draws import on_device
from bayesirt.estimators import lapack
from bayesirt.estimators.ability_beliefs import ability_steps
from bayesirt.estimators.cell_expectations import usual_quadrature
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.normal_beliefs import Abilities, Items, standard_normal, without_answers
from bayesirt.estimators.symmetric_matrices import pairs, twice_off_diagonal
from bayesirt.likelihood.cell_sums import DenseLayout

_N_DRAWS = 32
_FIRST_STEPS, _MORE_STEPS = 25, 5


class SuiteItems(NamedTuple):
    """Calibrated items, and their shares of the suite score."""

    items: Items
    covariance: Float[Array, "item parameter parameter"]  # Covariance of each item's errors (a, d).
    # Share of an item in the suite score: 1 / (benchmarks x items of its benchmark).
    shares: Float[Array, " item"]

    @classmethod
    def of(cls, known: KnownItems, benchmarks: NDArray[np.object_]) -> "SuiteItems":
        """Return the items of a suite whose score is the mean over its benchmarks."""
        _, belongs, sizes = np.unique(benchmarks, return_inverse=True, return_counts=True)
        return cls(
            *on_device(known),
            jnp.asarray(1 / (len(sizes) * sizes[belongs]), jnp.result_type(float)),
        )


class Prospects(NamedTuple):
    """Expected score of each subject, and expected gain from each unseen answer."""

    abilities: Abilities  # Abilities given the answers so far.
    score: Float[Array, " subject"]  # Expected score, with the answers so far kept.
    variance: Float[Array, " subject"]  # Variance of the score, with items' errors and chance.
    p_right: Float[Array, "subject item"]
    # Expected reduction of the variance by an answer; below 0 if it has been given already.
    gain: Float[Array, "subject item"]


def prospects(
    suite: SuiteItems,
    answers: DenseLayout,
    *,
    key: Array,
    n_draws: int = _N_DRAWS,
) -> Prospects:
    """Return how much every unseen answer is expected to reduce the variance of the suite score.

    Given the answers so far θ ~ N(m, V), as in `ability_steps`. For a draw θ_t let w_tj = p_j (1 -
    p_j), s_j = (m, 1) C_j (m, 1)ᵀ the variance that the item's own errors add to its linear
    predictor, and g_t = Σ_j u_j w_tj a_j the gradient of the score over unseen items, where u_j is
    an item's share. An answer has information w'_tj = w_tj / (1 + w_tj s_j) about the predictor, so
    it removes the mean over t of

    w'_tj (g_tᵀ V a_j)² / (1 + w'_tj a_jᵀ V a_j) + u_j² w_tj

    from the score's variance, which is the mean of g_tᵀ V g_t + Σ_j u_j² (w_tj + w_tj² s_j). The
    last term of the gain is the item's own chance, which an answer removes. Subjects come from
    N(0, I), the population of the scale.

    See rule "design" of `bayesirt.estimators.anchors.choose_anchors`.
    """
    first = _from_population(answers.shape[0], suite.items)
    abilities = _BELIEVE(suite.items, answers, first, _FIRST_STEPS)
    return _PROSPECTS(suite, answers, abilities, _noise(key, n_draws, suite))


def choose_adaptively(
    suite: SuiteItems,
    answers: DenseLayout,
    n_answers: int,
    *,
    key: Array,
    n_draws: int = _N_DRAWS,
) -> Int[Array, "subject answer"]:
    """Simulate adaptive answering: each subject answers its most informative items in turn."""
    successes, trials = map(jnp.asarray, answers)
    asked = jnp.zeros(answers.shape, bool)
    abilities = _from_population(answers.shape[0], suite.items)
    noise, order = _noise(key, n_draws, suite), []
    for k in range(n_answers):
        so_far = DenseLayout(jnp.where(asked, successes, 0), jnp.where(asked, trials, 0))
        abilities = _BELIEVE(suite.items, so_far, abilities, _MORE_STEPS if k else _FIRST_STEPS)
        best, asked = _ASK(suite, so_far, abilities, noise, asked, trials > 0)
        order.append(best)
    return jnp.stack(order, 1)


def _noise(key: Array, n_draws: int, suite: SuiteItems) -> Float[Array, "draw ability"]:
    return jax.random.normal(key, (n_draws, suite.items.a.shape[1]), suite.items.a.dtype)


def _from_population(n_subjects: int, items: Items) -> Abilities:
    return without_answers(standard_normal(items.a.shape[1], items.a.dtype), n_subjects)


def _believe(items: Items, answers: DenseLayout, start: Abilities, n_steps: int) -> Abilities:
    population = standard_normal(items.a.shape[1], items.a.dtype)
    return ability_steps(
        answers, items, population, start, usual_quadrature(answers, None), n_steps
    )


def _prospects(
    suite: SuiteItems,
    answers: DenseLayout,
    abilities: Abilities,
    noise: Float[Array, "draw ability"],
) -> Prospects:
    a, shares = suite.items.a, suite.shares
    is_open = answers.trials == 0
    roots = lapack.cholesky(abilities.covariance)
    errors = _error_variance(suite, abilities)
    reach = pairs(a, 1.0) @ twice_off_diagonal(abilities.covariance).T

    def add(sums: tuple[Array, Array, Array], z: Array) -> tuple[tuple[Array, Array, Array], None]:
        theta = abilities.mean + jnp.einsum("ikl,l->ik", roots, z)
        p = suite.items.right(theta)
        w = p * (1 - p)
        weights = jnp.where(is_open, w * shares, 0)
        slope = jnp.einsum("ik,ikl->il", weights @ a, abilities.covariance)
        of_abilities = (slope * (weights @ a)).sum(1)
        chance = jnp.where(is_open, shares**2 * w, 0)
        of_answers = (chance * (1 + w * errors)).sum(1)
        information = w / (1 + w * errors)
        gain = information * (slope @ a.T) ** 2 / (1 + information * reach.T) + chance
        return (sums[0] + p, sums[1] + of_abilities + of_answers, sums[2] + gain), None

    zeros = jnp.zeros(answers.shape, a.dtype)
    sums, _ = jax.lax.scan(add, (zeros, zeros[:, 0], zeros), noise)
    p, variance, gain = (x / len(noise) for x in sums)
    seen = answers.successes / jnp.maximum(answers.trials, 1)
    score = jnp.where(is_open, p, seen) @ shares
    return Prospects(abilities, score, variance, p, jnp.where(is_open, gain, -1))


def _error_variance(suite: SuiteItems, abilities: Abilities) -> Float[Array, "subject item"]:
    """Return the variance that items' errors add to each linear predictor."""
    ones = jnp.ones_like(abilities.mean[:, :1])
    with_one = jnp.concatenate([abilities.mean, ones], 1)
    return jnp.maximum(pairs(with_one, 1.0) @ twice_off_diagonal(suite.covariance).T, 0)


def _ask(
    suite: SuiteItems,
    so_far: DenseLayout,
    abilities: Abilities,
    noise: Array,
    asked: Bool[Array, "subject item"],
    there: Bool[Array, "subject item"],
) -> tuple[Int[Array, " subject"], Bool[Array, "subject item"]]:
    gain = _prospects(suite, so_far, abilities, noise).gain
    best = jnp.where(there & ~asked, gain, -jnp.inf).argmax(1)
    return best, asked.at[jnp.arange(len(best)), best].set(True)


_BELIEVE = jax.jit(_believe, static_argnums=3)
_PROSPECTS = jax.jit(_prospects)
_ASK = jax.jit(_ask)
