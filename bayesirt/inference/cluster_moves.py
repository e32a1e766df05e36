"""Clusters of subjects: their prior and the additional moves that it needs.

Each cluster moves together with its subjects, and all subjects move towards or away from their
clusters: where responses hardly distinguish the subjects of a cluster, moving one subject at a time
mixes slowly. The share of variance between clusters is drawn with the clusters' abilities
integrated out, then the abilities given the share.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.estimators.cluster_shares import near_share, share_density
from bayesirt.inference.block_steps import (
    Conditional,
    chance_for,
    choose,
    derivatives,
    joint_normal_draw,
    log_uniform,
    newton_move,
)
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.chain_starts import Start
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.inference.subject_moves import Normals
from bayesirt.inference.two_way import TwoWay
from bayesirt.likelihood.passes import SubjectSums
from bayesirt.point_estimate import PointEstimate

_LEAST_PRECISION = 0.5
"""Least precision of the proposal that moves all subjects towards or away from their clusters."""

_Sums = Callable[[Array], SubjectSums]
"""Function from abilities to each subject's log likelihood and its derivatives."""


@dataclass(frozen=True)
class Clustered(TwoWay):
    """Mixin for a model whose subjects are clustered: see `with_clusters`."""

    def text(self, sites: Position) -> Callable[[], Any]:
        """Return the NumPyro model without data."""
        return partial(super().text(sites), clusters=self.codes, n_clusters=len(sites["gamma"]))

    def start(self, point: PointEstimate, data: Any) -> Start:
        """Return centre and width of the chains' starts, including clusters."""
        centre, width = super().start(point, data)  # type: ignore[safe-super]
        n = np.bincount(self.codes)
        members = self.codes == np.arange(len(n))[:, None]
        theta = np.asarray(centre["theta"])
        n = n.reshape(-1, *(1,) * (theta.ndim - 1))
        share = "sigma_gamma" if self.skills else "icc"
        se = np.sqrt(members @ np.asarray(width["theta"]) ** 2) / n
        placed = dict(centre) | {"gamma": members @ theta / n, share: np.array(0.0)}
        return placed, dict(width) | {"gamma": se, share: np.array(1.0)}

    def own_moves(self, data: Any, dtype: DTypeLike) -> tuple[list[Move], list[Move]]:
        """Return the moves for clusters, which cost three evaluations of the data."""
        before, after = super().own_moves(data, dtype)
        together = partial(move_with_clusters, self, data, dtype)
        return [together, partial(draw_clusters, self), *before], after


@cache
def with_clusters(own: type[TwoWay]) -> type[Clustered]:
    """Return the class for a model whose subjects are clustered."""
    return type(f"Clustered{own.__name__}", (Clustered, own), {})


def move_with_clusters(
    way: Clustered, data: Any, dtype: DTypeLike, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move every cluster with its subjects, then all subjects towards or away from clusters."""
    passes, items = way.passes(data, sites, dtype), way.coefficients_of(sites)
    evidence = way.beside(sites, data)

    def all_sums(theta: Array) -> SubjectSums:
        answers = passes.subject_sums(theta, items)
        if evidence is None:
            return answers
        value, slope = evidence.at(theta)
        return jax.tree.map(jnp.add, answers, SubjectSums(value, slope, evidence.precision))

    sums = all_sums(way.theta(sites))
    sites, sums, clusters = _move_clusters(way, all_sums, numbers, sites, sums)
    sites, spread = _move_within(way, all_sums, numbers, sites, sums)
    sites = way.after_subjects(numbers, sites, data)
    return sites, {"acceptance_clusters": clusters, "acceptance_within": spread}


def _move_clusters(
    way: Clustered, all_sums: _Sums, numbers: RandomNumbers, sites: Position, sums: SubjectSums
) -> tuple[Position, SubjectSums, Array]:
    """Move each γ together with the θ of its subjects."""
    codes, old_gamma, theta = way.codes, _gamma(sites), way.theta(sites)
    prior = Normals.of(lambda gamma: _terms_at(way, sites, gamma)["gamma"], old_gamma)

    def moved(gamma: Array) -> Array:
        return theta + (gamma - old_gamma)[codes]

    def conditional(gamma: Array, sums: SubjectSums) -> Conditional:
        of_clusters = SubjectSums(*(_by_cluster(x, codes, len(old_gamma)) for x in sums))
        value, slope = prior.at(gamma)
        return Conditional(
            of_clusters.log_likelihood + value,
            of_clusters.score + slope,
            of_clusters.information + prior.precision,
        )

    def evaluate(gamma: Array) -> tuple[Conditional, SubjectSums]:
        new_sums = all_sums(moved(gamma))
        return conditional(gamma, new_sums), new_sums

    current = conditional(old_gamma, sums), sums
    step = newton_move(chance_for(numbers, old_gamma), old_gamma, evaluate, current=current)
    accepted = step.accepted[codes]
    sums = jax.tree.map(partial(choose, accepted), step.notes[1], step.notes[0])
    sites = way.with_theta(_with_gamma(sites, step.position), moved(step.position))
    return sites, sums, step.accepted.mean(dtype=old_gamma.dtype)


def _move_within(
    way: Clustered, all_sums: _Sums, numbers: RandomNumbers, sites: Position, sums: SubjectSums
) -> tuple[Position, Array]:
    """Move the spread within clusters, and keep each θ at the same distance from γ in its units.

    The spread is moved by its logarithm, or by the logit of the share between clusters. The change
    of volume cancels the change of θ's prior density.
    """
    name = "icc" if "icc" in sites else "sigma_theta"
    share, theta = sites[name], way.theta(sites)
    centre = _gamma(sites)[way.codes]

    def log_spread(share: Array) -> Array:
        return 0.5 * jax.nn.log_sigmoid(-share) if name == "icc" else share

    def carried(share: Array) -> Array:
        return centre + jnp.exp(log_spread(share) - log_spread(sites[name])) * (theta - centre)

    def of_prior(share: Array) -> Array:
        each = way.terms(sites | {name: share}).each
        return each[name] + each["gamma"].sum()

    def evaluate(position: Array) -> tuple[Conditional, SubjectSums]:
        new_sums = all_sums(carried(position[0, 0]))
        return conditional(position, new_sums), new_sums

    def conditional(position: Array, sums: SubjectSums) -> Conditional:
        at = position[0, 0]
        along = jax.jvp(carried, (at,), (jnp.ones_like(at),))[1]
        slope, curvature = derivatives(of_prior, at)
        learnt = jnp.einsum("ik,ikl,il->", along, sums.information, along)
        precision = jnp.maximum(learnt - curvature, _LEAST_PRECISION)
        score = (sums.score * along).sum() + slope
        return Conditional(of_prior(at)[None], score[None, None], precision[None, None, None])

    def gain(old: SubjectSums, new: SubjectSums) -> Array:
        return (new.log_likelihood - old.log_likelihood).sum()[None]

    start = share[None, None]
    current = conditional(start, sums), sums
    step = newton_move(chance_for(numbers, start), start, evaluate, current=current, gain=gain)
    new_share = step.position[0, 0]
    sites = way.with_theta(sites | {name: new_share}, carried(new_share))
    return sites, step.accepted[0].astype(share.dtype)


def draw_clusters(
    way: Clustered, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move the share of variance between clusters, if it is a site, then draw their abilities."""
    old_gamma, statistics = _gamma(sites), {}
    if "icc" in sites:
        icc, accepted = share_moved(numbers, way, sites["icc"], way.whitened(sites))
        sites, statistics = sites | {"icc": icc}, {"acceptance_share": accepted}

    def of_clusters(gamma: Array) -> Array:
        each = _terms_at(way, sites, gamma)
        return each["gamma"] + _by_cluster(each["theta"], way.codes, len(gamma))

    given = Normals.of(of_clusters, old_gamma)
    step = joint_normal_draw(numbers, given.at(old_gamma)[1], given.precision)
    return _with_gamma(sites, old_gamma + step), statistics


def share_moved(
    numbers: RandomNumbers, way: TwoWay, logit: Array, values: Float[Array, "*ability subject"]
) -> tuple[Array, Array]:
    """Move the logit of a share of variance given subjects' values; return it and 1 if accepted.

    The proposal approximates the whole density, not the density near the current value: far below
    the mode, local derivatives are hardly informative about its location.
    """
    of_share = share_density(way.codes, max(way.clusters) + 1, values)
    proposal, drawn_by = near_share(numbers.key(), of_share)
    ratio = of_share(proposal) - drawn_by(proposal) - of_share(logit) + drawn_by(logit)
    accepted = log_uniform(numbers, ratio) < ratio
    return choose(accepted, proposal, logit), accepted.astype(logit.dtype)


def _gamma(sites: Position) -> Float[Array, "cluster ability"]:
    return sites["gamma"].reshape(len(sites["gamma"]), -1)


def _with_gamma(sites: Position, gamma: Float[Array, "cluster ability"]) -> Position:
    return sites | {"gamma": gamma.reshape(sites["gamma"].shape)}


def _terms_at(way: Clustered, sites: Position, gamma: Array) -> dict[str, Array]:
    return way.terms(_with_gamma(sites, gamma)).each


def _by_cluster(values: Array, codes: NDArray[np.integer], n_clusters: int) -> Array:
    return jax.ops.segment_sum(values, codes, n_clusters)
