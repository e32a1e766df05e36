"""The joint Laplace approximation: a normal posterior around the joint mode.

Abilities, items and the items' means are estimated jointly, so every variance includes the
uncertainty of all others. The items' spreads are estimated (empirical Bayes) and then held fixed.
"""

import time
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.data.clusters import Clusters
from bayesirt.data.responses import Responses
from bayesirt.estimators.cluster_shares import draw_clusters_given, draw_shares, products
from bayesirt.estimators.joint.curvature import DenseCurvature
from bayesirt.estimators.joint.density import STANDARD, AbilityPrior
from bayesirt.estimators.joint.information import JointProblem, joint_problem
from bayesirt.estimators.joint.mode import Centre, Mode, find_mode
from bayesirt.estimators.marginal import usual_items
from bayesirt.estimators.registry import fit_point
from bayesirt.inference.item_populations import draw_item_populations
from bayesirt.inference.level_and_scale import redraw_level_and_scale
from bayesirt.inference.options import RunOptions
from bayesirt.inference.ways import way_of
from bayesirt.models import Priors, ResponseModel, TwoPL
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior

FEW = 20
"""Number of subjects or items below which the approximation is not trusted. According to
`bayesirt study calibration`, its 90% intervals credibly cover at least 85% of all abilities and
items from 12 x 8 on, and of the intercepts of the most extreme items from somewhere between
20 x 15 and 40 x 40 on."""

Samples = dict[str, NDArray[np.floating]]


class ApproximationWarning(UserWarning):
    """The responses hold too little information for a normal approximation."""


DENSE_UP_TO = 8000
"""Size of the smaller side up to which its information matrix is factored as a whole."""


@dataclass(frozen=True)
class Search:
    """Options of the search for the mode."""

    # Centre of the normal distribution: a second-order estimate of the posterior mean, or the joint
    # mode itself, at which abilities are too close to each other.
    centre: Centre = "mean"
    max_iterations: int = 300  # Maximum number of Newton steps.
    # Stop when the last step, and the extrapolated sum of all further steps, are at most this many
    # posterior standard deviations (root mean square).
    tol: float = 1e-2
    # With more parameters on the smaller side no matrix is formed: draws are solved for by
    # conjugate gradients with the expected information, which takes far longer per draw.
    dense_up_to: int = DENSE_UP_TO
    # Precision of the passes over cells for the curvature and the draws; JAX's default float.
    # ``jnp.float32`` halves their time and memory. Sums, gradients and factorisations are not
    # affected.
    dtype: Any = None


def sample_laplace(
    responses: Responses,
    *,
    key: Array,
    model: ResponseModel | None = None,
    init: PointEstimate | None = None,
    options: RunOptions | None = None,
    search: Search | None = None,
) -> Posterior:
    """Draw from the joint Laplace approximation of the posterior of a model of one ability.

    With H the negative Hessian of the log joint density of (θ, items, means) at its mode, given the
    spreads σ and the lean μ_b, draws are from N(mode, H⁻¹), by eliminating the larger side: see
    `bayesirt.estimators.joint.arrow_system`. With free slopes, a draw whose slopes sum to less than
    0 is reflected together with its abilities, which leaves the likelihood unchanged. The level and
    unit, which no response determines, and the items' population are then redrawn from the full
    prior: see `bayesirt.inference.level_and_scale`.

    Tierney & Kadane 1986.
    """
    model, options, search = model or TwoPL(), options or RunOptions(), search or Search()
    priors, began = model.priors, time.perf_counter()
    before = STANDARD if responses.clusters is None else _in_clusters(responses.clusters)
    problem = joint_problem(responses.cells, model, before=before, dtype=search.dtype)
    init = fit_point(responses, model=model) if init is None else init
    leans = problem.coordinates.learned and priors.slopes != "rasch"
    mode = mode_found(problem, init, leans=leans, options=options, search=search)
    warn_where_rough(responses, mode)
    draw_key, redraw_key = jax.random.split(key)
    n_draws = options.num_chains * options.num_samples
    samples = draw_sites(problem, mode, model, draw_key, n_draws)
    if responses.clusters is not None:
        samples |= _with_clusters(samples, responses.clusters, priors, redraw_key, leans=leans)
    elif leans:
        samples |= redraw_level_and_scale(samples, priors, redraw_key)
    attributes = {
        "centre": mode.centre,
        **how_found(responses, problem, mode),
        "sampling_seconds": time.perf_counter() - began,
    }
    return way_of(model).posterior(in_chains(samples, options), {}, responses, init, attributes)


def _in_clusters(clusters: Clusters) -> AbilityPrior:
    """Return the prior of abilities, with half of their variance assumed between clusters."""
    return AbilityPrior(0.0, 2.0, jnp.asarray(clusters.codes), 0.5)


def _with_clusters(
    samples: Samples, clusters: Clusters, priors: Priors, key: Array, *, leans: bool
) -> Samples:
    """Redraw level and unit, then draw the share between clusters and the clusters' abilities."""
    codes, n = jnp.asarray(clusters.codes), len(clusters.names)
    first_key, level_key, share_key, key = jax.random.split(key, 4)
    moved, theta = {}, samples["theta"]
    if leans:
        seen = products(theta, draw_shares(theta, codes, n, first_key), codes, n)
        moved = redraw_level_and_scale(samples, priors, level_key, products=seen)
        theta = moved["theta"]
    share = draw_shares(theta, codes, n, share_key)
    gamma = draw_clusters_given(theta, share, codes, n, key)
    return moved | {"icc": np.asarray(share), "gamma": np.asarray(gamma)}


def mode_found(
    problem: JointProblem, init: PointEstimate, *, leans: bool, options: RunOptions, search: Search
) -> Mode:
    """Return the joint mode, with abilities shifted such that intercepts do not lean on slopes."""
    start = {
        name: init[name]
        for name in ("theta", "a", "d", *problem.family.further)
        if name in init.parameters
    }
    find = partial(
        find_mode,
        problem,
        start,
        centre=search.centre,
        tol=search.tol,
        max_iterations=search.max_iterations,
        dense_up_to=search.dense_up_to,
        tell=options.announce,
    )
    mode = find(leans=leans)
    if leans and _bent(mode):  # slopes near 0 curve more if the origin is far below all abilities
        upright = find()
        mode = mode if _bent(upright) else upright
    return mode


def in_chains(samples: Samples, options: RunOptions) -> Samples:
    """Reshape independent draws into chains, only because this is how draws are stored."""
    return {k: x.reshape(options.num_chains, -1, *x.shape[1:]) for k, x in samples.items()}


def warn_where_rough(responses: Responses, mode: Mode) -> None:
    """Issue an `ApproximationWarning` if a normal approximation is rough for these responses."""
    if _few(responses) or _bent(mode):
        warnings.warn(
            f"laplace: a normal approximation is rough for {responses.n_subjects} subjects x "
            f"{responses.n_items} items with so little information; use blocked chains",
            ApproximationWarning,
            stacklevel=3,
        )


def _few(responses: Responses) -> bool:
    """Return whether there are too few subjects or items, or answers per clustered subject."""
    if min(responses.cells.shape) < FEW:
        return True
    usual = np.median(responses.cells.totals(1).trials)
    return responses.clusters is not None and bool(usual < FEW)


def _bent(mode: Mode) -> bool:
    """Return whether the expected information had to replace the observed one."""
    return isinstance(mode.curvature, DenseCurvature) and not mode.curvature.observed


def how_found(responses: Responses, problem: JointProblem, mode: Mode) -> dict[str, Any]:
    """Return attributes that describe how the approximation was computed."""
    names = problem.coordinates.names
    held = {f"sigma_{name}": float(spread) for name, spread in zip(names, mode.spread, strict=True)}
    how = "estimated by empirical Bayes, then held fixed"
    return {
        "engine": "laplace",
        "approximate": 1,
        "few": int(_few(responses)),
        "hyperparameters": (
            f"{' and '.join(held)} {how}" if problem.coordinates.learned else "fixed by the priors"
        ),
        **(held if problem.coordinates.learned else {}),
        "information": "observed" if mode.curvature.observed else "expected",
        "iterations": len(mode.steps),
        "converged": int(mode.converged),
        "stop_reason": mode.stop_reason,
    }


def draw_sites(
    problem: JointProblem, mode: Mode, model: ResponseModel, key: Array, n_draws: int
) -> Samples:
    """Draw the model's sites."""
    priors = model.priors
    theta, items, means = _draw_parameters(problem, mode, key, n_draws)
    named = dict(zip(problem.coordinates.names, items, strict=True))
    samples: Samples = {"theta": theta}
    if problem.coordinates.learned:
        samples |= {f"mu_{name}": means[:, k] for k, name in enumerate(named)}
    if priors.slopes == "rasch":
        named["a"] = np.ones_like(named["d"])
    elif priors.slopes == "positive":
        np.exp(named["a"], out=named["a"])
    else:
        sign = np.where(named["a"].sum(1) > 0, 1, -1).astype(theta.dtype)
        for values in (theta, named["a"]):
            values *= sign[:, None]
        samples["mu_a"] *= sign
    if priors.kind == "fixed":
        named["d"] = -named["a"] * named["b"]
    else:
        named["b"] = -named["d"] / named["a"]
    samples |= {name: named.pop(name) for name in ("a", "d", "b")}
    others = draw_item_populations(model, named, jax.random.fold_in(key, n_draws))
    usual = usual_items(model)
    for name, transform, centre in zip(
        model.family.further, usual.to_values[2:], usual.centres[2:], strict=True
    ):
        coordinate = named.get(name, np.full_like(samples["d"], centre))  # a fixed guessing floor
        others[name] = transform(coordinate)
    return samples | {name: np.asarray(x) for name, x in others.items()}


def _draw_parameters(
    problem: JointProblem, mode: Mode, key: Array, n_draws: int
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
    """Return draws of θ (draw, subject), items (coordinate, draw, item), means (draw, mean)."""
    theta, items, means = (np.asarray(x, problem.dtype) for x in mode.point)
    n_items, n_coordinates = items.shape
    kept, pieces = mode.curvature.draw(key, n_draws)
    sides = np.asarray(kept)[: len(kept) - len(means)]
    drawn_means = np.asarray(kept)[len(sides) :].T + means
    drawn_items = np.empty((n_coordinates, n_draws, n_items), problem.dtype)
    if problem.eliminates_items:
        drawn_theta = sides.T + theta
        for units, piece in pieces:
            drawn_items[:, :, units] = piece.transpose(1, 2, 0) + items[units].T[:, None]
        return drawn_theta, drawn_items, drawn_means
    drawn_theta = np.empty((n_draws, len(theta)), problem.dtype)
    blocks = sides.reshape(n_items, n_coordinates, n_draws)
    np.add(blocks.transpose(1, 2, 0), items.T[:, None], out=drawn_items)
    for units, piece in pieces:
        drawn_theta[:, units] = piece[:, 0].T + theta[units]
    return drawn_theta, drawn_items, drawn_means
