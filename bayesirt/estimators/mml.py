"""Marginal maximum likelihood (MML): items alone are estimated, abilities are integrated out.

A joint estimate of abilities and items is biased where each ability rests on few items: both
adapt to the same noise, and slopes come out too steep. Here abilities are N(0, 1), and each
subject's integral has its own nodes, around where that subject's answers put it (Bock & Aitkin
1981, with adaptive Gauss-Hermite quadrature). The EM steps are accelerated by SQUAREM
(Varadhan & Roland 2008).
"""

from dataclasses import asdict
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.estimators.block_newton import item_direction
from bayesirt.estimators.cell_sums import cell_sums
from bayesirt.estimators.driver import iterate
from bayesirt.estimators.parameter_table import parameter_table
from bayesirt.estimators.starts import logit_start
from bayesirt.estimators.weak_prior import WeakPrior
from bayesirt.families import LOGIT, Family
from bayesirt.likelihood import DenseLayout, Layout, layout_of
from bayesirt.point_estimate import PointEstimate
from bayesirt.responses import Responses

BARELY_ANY = WeakPrior(1.0, 0.01, 0.01)
"""Standard deviations of 10 for a and d: felt only by items that are all right or all wrong."""

_MODE_STEPS = 2
_FARTHEST = 1.0
_LONGEST_LEAP = 16.0


class Expectation(NamedTuple):
    """What the subjects' posteriors, given items, say.

    Attributes
    ----------
    log_likelihood : float array, shape (subject,)
        log ∫ p(responses | θ) N(θ; 0, 1) dθ.
    mode, mean, sd : float array, shape (subject,)
        Of θ.
    nodes : float array, shape (node, subject)
        Abilities at which each posterior was evaluated.
    weights : float array, shape (node, subject)
        Posterior probability of each node.
    score : float array, shape (2, item)
        Expected derivative of the log likelihood in (a, d): the marginal one's, by Fisher.
    information : float array, shape (3, item)
        Expected information aa, ad and dd, as if abilities were seen.
    """

    log_likelihood: Float[Array, " subject"]
    mode: Float[Array, " subject"]
    mean: Float[Array, " subject"]
    sd: Float[Array, " subject"]
    nodes: Float[Array, "node subject"]
    weights: Float[Array, "node subject"]
    score: Float[Array, "2 item"]
    information: Float[Array, "3 item"]


class MMLState(NamedTuple):
    """Where the iteration stands.

    Attributes
    ----------
    items : float array, shape (2, item)
        a and d.
    mode : float array, shape (subject,)
        Of the subjects' posteriors, to start the next search for it.
    loss : float
        Negative marginal log likelihood with the prior, at `items`.
    """

    items: Float[Array, "2 item"]
    mode: Float[Array, " subject"]
    loss: Float[Array, ""]


def fit_mml(
    responses: Responses,
    *,
    prior: WeakPrior = BARELY_ANY,
    n_nodes: int = 21,
    tol: float | None = None,
    max_iterations: int = 500,
) -> PointEstimate:
    """Fit the 2PL's items by marginal maximum likelihood, with a ≥ 0 and θ ~ N(0, 1).

    Parameters
    ----------
    responses : Responses
    prior : WeakPrior
        Keeps items finite; its part on θ is not used.
    n_nodes : int
        Quadrature nodes of each subject.
    tol : float, optional
        Stop when the loss changes by at most this share of itself; by default 1e-10, or what the
        number format allows.
    max_iterations : int
        Each of three EM steps.

    Returns
    -------
    PointEstimate
        θ is the posterior mean (EAP) and theta_se the posterior standard deviation, given items;
        a_se and d_se come from the observed information of all items together (Louis 1982),
        whose cost grows with the square of the number of items.

    References
    ----------
    Bock & Aitkin 1981; Liu & Pierce 1994; Louis 1982; Varadhan & Roland 2008.

    Examples
    --------
    >>> import numpy as np
    >>> answers = np.tri(6, 5)
    >>> fit_mml(Responses.from_arrays(answers))["theta"].argmax()
    np.int64(4)
    """
    layout = layout_of(responses)
    theta, a, d = logit_start(responses)
    if tol is None:
        tol = max(1e-10, 4 * float(jnp.finfo(theta.dtype).eps))
    advance = jax.jit(squarem_step, static_argnums=(1, 3))
    items = jnp.stack([a, d])
    first = jax.jit(expectation, static_argnums=(1, 2))(layout, LOGIT, n_nodes, items, theta)
    state, run = iterate(
        lambda s: advance(layout, LOGIT, prior, n_nodes, s),
        MMLState(items, first.mode, _loss(first, items, prior)),
        lambda s: s.loss,
        tol=tol,
        max_iterations=max_iterations,
        name="mml",
    )
    found = jax.jit(expectation, static_argnums=(1, 2))(
        layout, LOGIT, n_nodes, state.items, state.mode
    )
    settings = {
        "estimator": "mml",
        "theta_scale": "population",
        "n_nodes": n_nodes,
        "tol": tol,
        **{f"prior_{k}": v for k, v in asdict(prior).items()},
    }
    log_likelihood = float(found.log_likelihood.sum())
    of_a, of_d, of_both = _covariance(responses, state.items, found, prior)
    parameters = parameter_table(
        responses,
        (found.mean, *state.items),
        (found.sd, np.sqrt(of_a), np.sqrt(of_d)),
        -of_both / of_a,
    )
    return PointEstimate(parameters, log_likelihood, *run[:3], run.trace, settings)


def squarem_step(
    layout: Layout, family: Family, prior: WeakPrior, n_nodes: int, state: MMLState
) -> MMLState:
    """Take two EM steps, extrapolate them, and settle by a third.

    Notes
    -----
    With r the first step and v the change from the first to the second, the leap is
    x - 2 α r + α² v, α = -|r| / |v|. It is kept where the loss is no higher than after one step.
    """
    once, before = _em_step(layout, family, prior, n_nodes, state.items, state.mode)
    twice, middle = _em_step(layout, family, prior, n_nodes, once, before.mode)
    r = once - state.items
    v = twice - once - r
    alpha = -jnp.sqrt((r**2).sum() / jnp.maximum((v**2).sum(), jnp.finfo(v.dtype).tiny))
    alpha = jnp.clip(alpha, -_LONGEST_LEAP, -1)
    leap = state.items - 2 * alpha * r + alpha**2 * v
    leap = jnp.stack([jnp.maximum(leap[0], 0), leap[1]])
    settled, there = _em_step(layout, family, prior, n_nodes, leap, middle.mode)
    better = _loss(there, leap, prior) <= _loss(middle, once, prior)
    items = jnp.where(better, settled, twice)
    mode = jnp.where(better, there.mode, middle.mode)
    found = expectation(layout, family, n_nodes, items, mode)
    return MMLState(items, found.mode, _loss(found, items, prior))


def expectation(
    layout: Layout,
    family: Family,
    n_nodes: int,
    items: Float[Array, "2 item"],
    mode: Float[Array, " subject"],
) -> Expectation:
    """Integrate abilities out by adaptive Gauss-Hermite quadrature.

    Parameters
    ----------
    layout : Layout
    family : Family
    n_nodes : int
    items : float array, shape (2, item)
        a and d.
    mode : float array, shape (subject,)
        Where to begin the search for each posterior's mode.

    Returns
    -------
    Expectation
    """
    a, d = items
    for _ in range(_MODE_STEPS):
        sums = cell_sums(layout, family, mode, a, d)
        curvature = sums.theta_information + 1
        step = (sums.theta_score - mode) / curvature
        mode = mode + jnp.clip(step, -_FARTHEST, _FARTHEST)
    points, log_weights = _gauss_hermite(n_nodes, mode.dtype)
    nodes = mode + points[:, None] / jnp.sqrt(curvature)

    def log_density(theta: Array) -> Array:
        terms = family.terms(layout.predictor(theta, a, d), layout.successes, layout.trials)
        return layout.over_items(terms.log_likelihood, jnp.ones_like(a)) - theta**2 / 2

    def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
        theta, weight = node
        terms = family.terms(layout.predictor(theta, a, d), layout.successes, layout.trials)
        score, information = terms.score, terms.information
        rows = (
            layout.over_subjects(score, weight * theta),
            layout.over_subjects(score, weight),
            layout.over_subjects(information, weight * theta**2),
            layout.over_subjects(information, weight * theta),
            layout.over_subjects(information, weight),
        )
        return total + jnp.stack(rows), None

    joint = jax.lax.map(log_density, nodes) + log_weights[:, None]
    log_likelihood = jax.nn.logsumexp(joint, axis=0)
    weights = jnp.exp(joint - log_likelihood)
    of_items, _ = jax.lax.scan(add, jnp.zeros((5, len(a)), a.dtype), (nodes, weights))
    mean = (weights * nodes).sum(0)
    sd = jnp.sqrt((weights * (nodes - mean) ** 2).sum(0))
    log_likelihood = log_likelihood - jnp.log(curvature) / 2
    return Expectation(log_likelihood, mode, mean, sd, nodes, weights, of_items[:2], of_items[2:])


def _gauss_hermite(n_nodes: int, dtype: jnp.dtype) -> tuple[Array, Array]:
    """Return points x and log w + x²/2 of ∫ f dx = Σ w exp(x²/2) f(x), per √(2π)."""
    points, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    log_weights = np.log(weights) + points**2 / 2 - np.log(2 * np.pi) / 2
    return jnp.asarray(points, dtype), jnp.asarray(log_weights, dtype)


def _em_step(
    layout: Layout,
    family: Family,
    prior: WeakPrior,
    n_nodes: int,
    items: Float[Array, "2 item"],
    mode: Float[Array, " subject"],
) -> tuple[Float[Array, "2 item"], Expectation]:
    """Take one Newton step on the expected log likelihood of the items."""
    found = expectation(layout, family, n_nodes, items, mode)
    step = item_direction(items, found.score, found.information, prior)
    return items + jnp.clip(step, -_FARTHEST, _FARTHEST), found


def _loss(found: Expectation, items: Float[Array, "2 item"], prior: WeakPrior) -> Array:
    return prior.loss(jnp.zeros(1), *items) - found.log_likelihood.sum()


def _covariance(
    responses: Responses, items: Array, found: Expectation, prior: WeakPrior
) -> tuple[NDArray[np.float64], ...]:
    """Return the variances of a and d and their covariance, from the observed information.

    Notes
    -----
    Information that seen abilities would give, less what not seeing them costs: the posterior
    covariance of the score (Louis 1982). Directions of which the data know nothing keep the
    prior's precision.
    """
    layout = DenseLayout(*map(jnp.asarray, responses.cells.matrices()))
    lost = np.asarray(jax.jit(_lost_information)(layout, items, found), np.float64)
    aa, ad, dd = np.asarray(found.information, np.float64)
    n = len(aa)
    information = -lost
    at = np.arange(n)
    information[at, at] += aa
    information[n + at, n + at] += dd
    information[at, n + at] += ad
    information[n + at, at] += ad
    information += np.diag(np.repeat([prior.a_precision, prior.d_precision], n))
    values, vectors = np.linalg.eigh(information)
    least = max(min(prior.a_precision, prior.d_precision), np.finfo(float).eps * values[-1])
    shares = vectors / np.sqrt(np.maximum(values, least))
    of_a, of_d = shares[:n], shares[n:]
    return (of_a**2).sum(1), (of_d**2).sum(1), (of_a * of_d).sum(1)


def _lost_information(layout: DenseLayout, items: Array, found: Expectation) -> Array:
    """Return Σ_i of the posterior covariance of subject i's score in (a, d)."""

    def add(
        sums: tuple[Array, Array], node: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], None]:
        theta, weight = node
        eta = layout.predictor(theta, *items)
        score = LOGIT.terms(eta, layout.successes, layout.trials).score
        both = jnp.concatenate([score * theta[:, None], score], axis=1)
        squares, mean = sums
        return (squares + both.T @ (weight[:, None] * both), mean + weight[:, None] * both), None

    n_subjects, n_items = layout.trials.shape
    zeros = jnp.zeros((2 * n_items, 2 * n_items)), jnp.zeros((n_subjects, 2 * n_items))
    (squares, mean), _ = jax.lax.scan(add, zeros, (found.nodes, found.weights))
    return squares - mean.T @ mean
