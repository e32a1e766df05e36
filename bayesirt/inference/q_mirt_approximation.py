"""The posterior with what answers say put as one normal density, and draws from it.

That density is of square roots of discriminations, and of intercepts, in which it is nearly normal.
Priors are the model's own, so that what they bend is bent here, and the spreads of items are drawn
like all else.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.estimators.normal_beliefs import Abilities
from bayesirt.inference.blocked import Position
from bayesirt.inference.hamiltonian import follow
from bayesirt.inference.q_mirt_information import (
    CellDerivatives,
    QMirtProblem,
    directions,
    flat_parameters,
    in_chunks,
    turning_of,
    with_parameters,
)
from bayesirt.inference.q_mirt_mode import SPREADS, MarginalMode

_TRAJECTORIES, _FEW_TRAJECTORIES = 12, 5
_MANY = 500
"""Parameters beyond which spreads are known well, and few trajectories do."""
_LENGTH = 1.6
"""Of a trajectory, in standard deviations."""
_STEP = 1.0
"""Of the longest leapfrog step, in units of dim^-¼."""
_SUBJECTS = 64
"""Whose abilities are drawn at a time."""


class _Scales(NamedTuple):
    root: Array
    of_spreads: Array


@dataclass(frozen=True, eq=False)
class Approximation:
    """The posterior of all that belongs to no single subject."""

    problem: QMirtProblem
    peak: MarginalMode
    score: Float[Array, " parameter"]
    # Of the answers at the peak, in the coordinates of `away`.
    information: Float[Array, "parameter parameter"]
    scales: _Scales  # Of the coordinates in which trajectories run.

    @classmethod
    def around(cls, problem: QMirtProblem, peak: MarginalMode) -> "Approximation":
        """Take what answers say at a peak."""
        n_loadings = len(peak.sites["a"])
        chained = jnp.where(jnp.arange(len(peak.score)) < n_loadings, peak.score, 0)

        def of_spreads(log_spreads: Array) -> Array:
            return problem.log_prior(peak.sites | dict(zip(SPREADS, log_spreads, strict=True)))

        here = jnp.stack([peak.sites[name] for name in SPREADS])
        curvature = -jnp.diag(jax.hessian(of_spreads)(here))
        scales = _Scales(
            jnp.linalg.cholesky(peak.learnt + peak.known), jnp.maximum(curvature, 1) ** -0.5
        )
        return cls(problem, peak, peak.score, peak.learnt + jnp.diag(chained) / 2, scales)

    def log_density(self, sites: Position) -> Float[Array, ""]:
        """Return the log density of sites without ``theta``."""
        away = self.away(sites)
        pulled = jax.lax.stop_gradient(self.information @ away)
        squares = away @ pulled
        squares -= jax.lax.stop_gradient(squares) / 2  # so that one product gives the slope too
        return self.score @ away - squares + self.problem.log_prior(sites)

    def away(self, sites: Position) -> Float[Array, " parameter"]:
        """Return how far parameters are from the peak; 2 (√r - 1) for a ratio r of slopes."""
        change = jax.tree.map(jnp.subtract, sites, self.peak.sites)
        return flat_parameters(change | {"a": 2 * jnp.expm1(change["a"] / 2)})

    def draw(self, key: Array) -> Position:
        """Draw sites without ``theta``: from the normal density, then by trajectories."""
        n_parameters, n_spreads = len(self.score), len(SPREADS)
        start_key, key = jax.random.split(key)
        dtype = self.score.dtype
        start = jax.random.normal(start_key, (n_parameters + n_spreads,), dtype)
        step = _STEP * len(start) ** -0.25
        n_steps = int(_LENGTH / (0.75 * step)) + 1
        times = _FEW_TRAJECTORIES if n_parameters > _MANY else _TRAJECTORIES

        def log_density(z: Array) -> Array:
            return self.log_density(self._sites(z))

        def again(time: Array, z: Array) -> Array:
            own = jax.random.fold_in(key, time)
            return follow(own, z, log_density, step=step, n_steps=n_steps).position

        return self._sites(jax.lax.fori_loop(0, times, again, start))

    def _sites(self, z: Float[Array, " coordinate"]) -> Position:
        root, widths = self.scales
        change = jax.scipy.linalg.solve_triangular(root, z[: len(root)], lower=True, trans=1)
        sites = with_parameters(self.peak.sites, flat_parameters(self.peak.sites) + change)
        spreads = z[len(root) :] * widths
        return sites | {n: sites[n] + t for n, t in zip(SPREADS, spreads, strict=True)}


def draw_abilities(
    problem: QMirtProblem,
    peak: MarginalMode,
    away: Float[Array, "draw parameter"],
    keys: Array,
) -> Float[Array, "draw subject ability"]:
    """Draw abilities given parameters so far away from the peak.

    θ_i ~ N(m_i + V_i G_i away, V_i), G_i the mixed derivatives of the subject's log density.
    """
    sites, (mean, covariance) = peak.sites, peak.abilities
    turning = turning_of(problem, sites)

    def shifts(chunk: tuple[CellDerivatives, Abilities]) -> Array:
        along = directions(problem, sites, turning, *chunk).along
        return jnp.einsum("sp,ipk->isk", away.astype(along.dtype), along)

    chunks = in_chunks(problem, problem.cells(sites, peak.abilities), peak.abilities, _SUBJECTS)
    shifted = jax.lax.map(shifts, chunks)
    shifted = shifted.reshape(-1, *shifted.shape[2:])[: len(mean)]
    noise = jax.vmap(lambda key: jax.random.normal(key, mean.shape, mean.dtype))(keys)
    parts = jnp.moveaxis(shifted, 1, 0).astype(mean.dtype) + noise
    return mean + jnp.einsum("ikl,sil->sik", jnp.linalg.cholesky(covariance), parts)
