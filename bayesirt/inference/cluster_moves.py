"""Clusters of subjects in the 2PL: their prior, and the moves that it needs besides the 2PL's own.

Subjects of a cluster move together with it, and all of them towards it or away from it: where
their own responses hardly tell them apart, each by itself could only creep. The share of variance
between clusters is drawn with the clusters' abilities integrated out, and these given it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.inference.block_steps import (
    Conditional,
    chance_for,
    choose,
    derivatives,
    newton_line_move,
    newton_move,
    normal_draw,
)
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.site_terms import site_terms
from bayesirt.inference.two_pl_passes import Passes, SubjectSums
from bayesirt.inference.two_pl_sites import TwoPLPrior
from bayesirt.models import TWO_PL, Priors, ResponseModel

_LEAST_PRECISION = 0.5
"""Of a proposed logit of the share between clusters: towards 0 and 1 its density is flat."""


@dataclass(frozen=True)
class ClusteredPrior(TwoPLPrior):
    """The 2PL without data, whose subjects come in clusters, at unconstrained sites.

    Attributes
    ----------
    clusters : tuple of int
        Position of each subject's cluster, counted from 0 without a gap.
    """

    clusters: tuple[int, ...] = ()

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        """Position of each subject's cluster, shape (subject,)."""
        return np.asarray(self.clusters, np.int32)

    def model(self, sites: Position) -> Callable[[], Any]:
        """Return the NumPyro model without data."""
        return self._model(sites, self.codes)

    def own_of_subjects(self, sites: Position) -> tuple[Float[Array, " subject"], ...]:
        """Return the ability of each subject's cluster."""
        return (sites["gamma"][self.codes],)

    def of_theta(self, sites: Position, theta: Array, *own: Array) -> Float[Array, " subject"]:
        """Return the log prior density of abilities, given those of their clusters."""
        alone = sites | {"theta": theta, "gamma": own[0]}
        return site_terms(self._model(alone, np.arange(len(theta))), alone).each["theta"]

    def _model(self, sites: Position, codes: NDArray[np.integer]) -> Callable[[], Any]:
        sizes = len(sites["theta"]), len(sites["b" if "b" in sites else "d"])
        return partial(
            self.of.parameters,
            *sizes,
            self.priors,
            clusters=codes,
            n_clusters=len(sites["gamma"]),
        )


def two_pl_prior(
    priors: Priors, clusters: tuple[int, ...], model: ResponseModel = TWO_PL
) -> TwoPLPrior:
    """Return a model of one ability without data.

    Parameters
    ----------
    priors : Priors
    clusters : tuple of int
        Position of each subject's cluster; empty where subjects do not come in clusters.
    model : ResponseModel

    Returns
    -------
    TwoPLPrior
    """
    return ClusteredPrior(priors, model, clusters) if clusters else TwoPLPrior(priors, model)


def cluster_moves(prior: ClusteredPrior, passes: Passes) -> list[Move]:
    """Return the moves of one sweep that clusters need: three evaluations of the data.

    Parameters
    ----------
    prior : ClusteredPrior
    passes : Passes

    Returns
    -------
    list of callables
        Each (key, position) → (position, statistics).
    """
    return [partial(move_with_clusters, prior, passes), partial(draw_clusters, prior)]


def move_with_clusters(
    prior: ClusteredPrior, passes: Passes, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Move every cluster with its subjects; then all subjects towards their clusters or away.

    Parameters
    ----------
    prior : ClusteredPrior
    passes : Passes
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict of float scalars
        Shares accepted.
    """
    cluster_key, spread_key = jax.random.split(key)
    items = tuple(prior.coefficients(sites, prior.packed(sites)).T)
    sums = passes.subject_sums(sites["theta"], *items)
    sites, sums, clusters = _move_clusters(prior, passes, cluster_key, sites, sums, items)
    sites, spread = _move_within(prior, passes, spread_key, sites, sums, items)
    return sites, {"acceptance_clusters": clusters, "acceptance_within": spread}


def _move_clusters(
    prior: ClusteredPrior,
    passes: Passes,
    key: Array,
    sites: Position,
    sums: SubjectSums,
    items: tuple[Array, Array],
) -> tuple[Position, SubjectSums, Array]:
    """Move γ and the θ of its subjects by as much."""
    codes, here = prior.codes, sites["gamma"][:, None]

    def moved(position: Array) -> Position:
        further = position[:, 0] - sites["gamma"]
        return sites | {"gamma": position[:, 0], "theta": sites["theta"] + further[codes]}

    def conditional(position: Array, sums: SubjectSums) -> Conditional:
        def of_prior(gamma: Array) -> Array:
            return prior.terms(sites | {"gamma": gamma}).each["gamma"]

        of_clusters = SubjectSums(*(_by_cluster(x, codes, len(here)) for x in sums))
        slope, curvature = derivatives(of_prior, position[:, 0])
        return Conditional(
            of_clusters.log_likelihood + of_prior(position[:, 0]),
            (of_clusters.score + slope)[:, None],
            (of_clusters.information - curvature)[:, None, None],
        )

    def evaluate(position: Array) -> tuple[Conditional, SubjectSums]:
        found = passes.subject_sums(moved(position)["theta"], *items)
        return conditional(position, found), found

    current = conditional(here, sums), sums
    step = newton_move(chance_for(key, here), here, evaluate, current=current)
    own = step.accepted[codes]
    sums = jax.tree.map(partial(choose, own), step.notes[1], step.notes[0])
    return moved(step.position), sums, step.accepted.mean(dtype=here.dtype)


def _move_within(
    prior: ClusteredPrior,
    passes: Passes,
    key: Array,
    sites: Position,
    sums: SubjectSums,
    items: tuple[Array, Array],
) -> tuple[Position, Array]:
    """Move the share between clusters, and θ at the same distance from γ in units of its spread."""
    share, codes = sites["icc"], prior.codes
    centre = sites["gamma"][codes]

    def carried(share: Array) -> tuple[Position, Array]:
        growth = 0.5 * (jax.nn.log_sigmoid(-share) - jax.nn.log_sigmoid(-sites["icc"]))
        theta = centre + jnp.exp(growth) * (sites["theta"] - centre)
        return sites | {"icc": share, "theta": theta}, len(codes) * growth

    def of_prior(share: Array) -> Array:
        moved, log_jacobian = carried(share)
        return prior.terms(moved).total() + log_jacobian

    def evaluate(position: Array) -> tuple[Conditional, SubjectSums]:
        found = passes.subject_sums(carried(position[0, 0])[0]["theta"], *items)
        return conditional(position, found), found

    def conditional(position: Array, sums: SubjectSums) -> Conditional:
        at = position[0, 0]
        along = jax.jvp(lambda s: carried(s)[0]["theta"], (at,), (jnp.ones_like(at),))[1]
        slope, curvature = derivatives(of_prior, at)
        precision = jnp.maximum(sums.information @ along**2 - curvature, _LEAST_PRECISION)
        score = sums.score @ along + slope
        return Conditional(of_prior(at)[None], score[None, None], precision[None, None, None])

    def gain(old: SubjectSums, new: SubjectSums) -> Array:
        return (new.log_likelihood - old.log_likelihood).sum()[None]

    here = share[None, None]
    current = conditional(here, sums), sums
    step = newton_move(chance_for(key, here), here, evaluate, current=current, gain=gain)
    return carried(step.position[0, 0])[0], step.accepted[0].astype(share.dtype)


def draw_clusters(
    prior: ClusteredPrior, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Move the share of variance between clusters, then draw their abilities given the subjects'.

    Parameters
    ----------
    prior : ClusteredPrior
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict of float scalars
        Whether the share was accepted.
    """
    share_key, draw_key = jax.random.split(key)
    of_share = share_density(prior.codes, len(sites["gamma"]), sites["theta"])
    t, accepted = newton_line_move(
        share_key, lambda t: of_share(sites["icc"] + t), _LEAST_PRECISION
    )
    sites = sites | {"icc": sites["icc"] + t}

    def of_clusters(gamma: Array) -> Array:
        each = prior.terms(sites | {"gamma": gamma}).each
        return each["gamma"] + _by_cluster(each["theta"], prior.codes, len(gamma))

    gamma = normal_draw(draw_key, of_clusters, sites["gamma"])
    return sites | {"gamma": gamma}, {"acceptance_share": accepted.astype(t.dtype)}


def share_density(
    codes: NDArray[np.integer], n_clusters: int, theta: Float[Array, " subject"]
) -> Callable[[Array], Array]:
    """Return the log density of logit κ given θ, whatever the clusters' abilities.

    Parameters
    ----------
    codes : int array, shape (subject,)
        Position of each subject's cluster.
    n_clusters : int
    theta : float array, shape (subject,)

    Returns
    -------
    callable
        logit κ → log density, up to a constant.

    Notes
    -----
    The θ of a cluster of n subjects are normal with variance 1 and covariance κ: their mean has
    variance κ + (1 - κ)/n, and their n - 1 contrasts within have variance 1 - κ.
    """
    n = jnp.asarray(np.bincount(codes, minlength=n_clusters), theta.dtype)
    mean = _by_cluster(theta, codes, n_clusters) / n
    within = jnp.sum((theta - mean[codes]) ** 2)
    n_within = len(codes) - n_clusters

    def log_density(logit: Array) -> Array:
        log_rest = jax.nn.log_sigmoid(-logit)
        of_mean = jax.nn.sigmoid(logit) + jnp.exp(log_rest) / n
        means = -0.5 * jnp.sum(jnp.log(of_mean) + mean**2 / of_mean)
        contrasts = -0.5 * (n_within * log_rest + within * jnp.exp(-log_rest))
        return means + contrasts + jax.nn.log_sigmoid(logit) + log_rest

    return log_density


def _by_cluster(
    values: Float[Array, " subject"], codes: NDArray[np.integer], n_clusters: int
) -> Float[Array, " cluster"]:
    return jax.ops.segment_sum(values, codes, n_clusters)
