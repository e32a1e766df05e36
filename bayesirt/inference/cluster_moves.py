"""Clusters of subjects: their prior, and the moves that it needs besides a model's own.

Subjects of a cluster move together with it, and all of them towards it or away from it: where
their own responses hardly tell them apart, each by itself could only creep. The share of variance
between clusters is drawn with the clusters' abilities integrated out, and these given it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.estimators.cluster_shares import share_density
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
from bayesirt.inference.chain_starts import Start
from bayesirt.inference.one_ability import OneAbility
from bayesirt.likelihood.passes import Passes, SubjectSums
from bayesirt.point_estimate import PointEstimate

_LEAST_PRECISION = 0.5
"""Of a proposed logit of the share between clusters: towards 0 and 1 its density is flat."""


@dataclass(frozen=True)
class Clustered(OneAbility):
    """A model of one ability whose subjects come in clusters.

    Where its items have moves of their own, it is mixed with these: see `with_clusters`.
    """

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        """Position of each subject's cluster, shape (subject,)."""
        return np.asarray(self.clusters, np.int32)

    def text(self, sites: Position) -> Callable[[], Any]:
        """Return the NumPyro text without data."""
        return partial(super().text(sites), clusters=self.codes, n_clusters=len(sites["gamma"]))

    def start(self, point: PointEstimate, data: Any) -> Start:
        """Return where chains start, clusters among them, and how far apart."""
        centre, width = super().start(point, data)
        n = np.bincount(self.codes)
        mean = np.bincount(self.codes, centre["theta"]) / n
        se = np.sqrt(np.bincount(self.codes, width["theta"] ** 2)) / n
        share = "sigma_gamma" if self.skills else "icc"
        centre |= {"gamma": mean, share: np.array(0.0)}
        width |= {"gamma": se, share: np.array(1.0)}
        return centre, width

    def own_moves(self, data: Any, dtype: DTypeLike) -> tuple[list[Move], list[Move]]:
        """Return the moves that clusters need: three evaluations of the data."""
        before, after = super().own_moves(data, dtype)
        together = partial(move_with_clusters, self, data, dtype)
        return [together, partial(draw_clusters, self), *before], after


@cache
def with_clusters(own: type[OneAbility]) -> type[Clustered]:
    """Return the way of a model whose subjects come in clusters and whose items move as they do."""
    if own is OneAbility:
        return Clustered
    return type(f"Clustered{own.__name__}", (Clustered, own), {})


def move_with_clusters(
    way: Clustered, data: Any, dtype: DTypeLike, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Move every cluster with its subjects; then all subjects towards their clusters or away."""
    cluster_key, spread_key = jax.random.split(key)
    passes, items = way.passes(data, sites, dtype), way.coefficients_of(sites)
    sums = _sums(passes, sites["theta"], items)
    sites, sums, clusters = _move_clusters(way, passes, cluster_key, sites, sums, items)
    sites, spread = _move_within(way, passes, spread_key, sites, sums, items)
    return sites, {"acceptance_clusters": clusters, "acceptance_within": spread}


def _move_clusters(
    way: Clustered,
    passes: Passes,
    key: Array,
    sites: Position,
    sums: SubjectSums,
    items: Float[Array, "item dim"],
) -> tuple[Position, SubjectSums, Array]:
    """Move γ and the θ of its subjects by as much."""
    codes, here = way.codes, sites["gamma"][:, None]

    def moved(position: Array) -> Position:
        further = position[:, 0] - sites["gamma"]
        return sites | {"gamma": position[:, 0], "theta": sites["theta"] + further[codes]}

    def conditional(position: Array, sums: SubjectSums) -> Conditional:
        def of_prior(gamma: Array) -> Array:
            return way.terms(sites | {"gamma": gamma}).each["gamma"]

        of_clusters = SubjectSums(*(_by_cluster(x, codes, len(here)) for x in sums))
        slope, curvature = derivatives(of_prior, position[:, 0])
        return Conditional(
            of_clusters.log_likelihood + of_prior(position[:, 0]),
            (of_clusters.score + slope)[:, None],
            (of_clusters.information - curvature)[:, None, None],
        )

    def evaluate(position: Array) -> tuple[Conditional, SubjectSums]:
        found = _sums(passes, moved(position)["theta"], items)
        return conditional(position, found), found

    current = conditional(here, sums), sums
    step = newton_move(chance_for(key, here), here, evaluate, current=current)
    own = step.accepted[codes]
    sums = jax.tree.map(partial(choose, own), step.notes[1], step.notes[0])
    return moved(step.position), sums, step.accepted.mean(dtype=here.dtype)


def _move_within(
    way: Clustered,
    passes: Passes,
    key: Array,
    sites: Position,
    sums: SubjectSums,
    items: Float[Array, "item dim"],
) -> tuple[Position, Array]:
    """Move the spread within clusters, and θ at the same distance from γ in units of it.

    Its logarithm, or the share between clusters where that tells it.
    """
    name, codes = "icc" if "icc" in sites else "sigma_theta", way.codes
    share, centre = sites[name], sites["gamma"][codes]

    def log_spread(share: Array) -> Array:
        return 0.5 * jax.nn.log_sigmoid(-share) if name == "icc" else share

    def carried(share: Array) -> tuple[Position, Array]:
        growth = log_spread(share) - log_spread(sites[name])
        theta = centre + jnp.exp(growth) * (sites["theta"] - centre)
        return sites | {name: share, "theta": theta}, len(codes) * growth

    def of_prior(share: Array) -> Array:
        moved, log_jacobian = carried(share)
        return way.terms(moved).total() + log_jacobian

    def evaluate(position: Array) -> tuple[Conditional, SubjectSums]:
        found = _sums(passes, carried(position[0, 0])[0]["theta"], items)
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


def draw_clusters(way: Clustered, key: Array, sites: Position) -> tuple[Position, Statistics]:
    """Move the share of variance between clusters, if there is one, then draw their abilities."""
    share_key, draw_key = jax.random.split(key)
    told: Statistics = {}
    if "icc" in sites:
        of_share = share_density(way.codes, len(sites["gamma"]), sites["theta"])
        t, accepted = newton_line_move(
            share_key, lambda t: of_share(sites["icc"] + t), _LEAST_PRECISION
        )
        sites, told = (
            sites | {"icc": sites["icc"] + t},
            {"acceptance_share": accepted.astype(t.dtype)},
        )

    def of_clusters(gamma: Array) -> Array:
        each = way.terms(sites | {"gamma": gamma}).each
        return each["gamma"] + _by_cluster(each["theta"], way.codes, len(gamma))

    gamma = normal_draw(draw_key, of_clusters, sites["gamma"])
    return sites | {"gamma": gamma}, told


def _sums(passes: Passes, theta: Array, items: Array) -> SubjectSums:
    """Return what answers say of each subject's one ability, as numbers."""
    value, score, information = passes.subject_sums(theta[:, None], items)
    return SubjectSums(value, score[:, 0], information[:, 0, 0])


def _by_cluster(
    values: Float[Array, " subject"], codes: NDArray[np.integer], n_clusters: int
) -> Float[Array, " cluster"]:
    return jax.ops.segment_sum(values, codes, n_clusters)
