"""Additional moves of the Q-matrix model: the abilities' scales and correlations.

Each subject moves with all its abilities at once, each item with all its discriminations. Responses
do not depend on the spread of an ability, which moves together with everything that keeps the
predictors. Correlations move twice: given the abilities, along trajectories that need no pass over
the data, and together with the abilities, which helps if abilities have few informative items.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from numpyro.distributions import LKJCholesky, biject_to

from bayesirt.inference.block_steps import (
    Chance,
    Conditional,
    chance_for,
    derivatives,
    follow_trajectory,
    newton_move,
)
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.chain_starts import Start, place_leaning, place_population, usable
from bayesirt.inference.checkpoint import Samples
from bayesirt.inference.q_mirt_rotations import turn_abilities
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.inference.start_coordinates import FromMoments, StartCoordinates
from bayesirt.inference.subject_moves import Normals
from bayesirt.inference.two_way import TwoWay, abilities_by
from bayesirt.likelihood.loadings import Loadings
from bayesirt.models import QMirt
from bayesirt.models.mirt import MU_B_SD
from bayesirt.point_estimate import PointEstimate

_STEPS = 8
_STEP = 0.9
"""Length of a leapfrog step for the correlations, times √subjects and dim¼. Transformed as in
NumPyro, they are Fisher's z of partial correlations, whose standard errors are about 1 / √subjects
whatever their values."""
_LEAST_SIGMA = 0.1
_NEAR_ONE = 0.98
"""Largest initial correlation with the general ability, which must be within its bounds."""
_CORRELATION_WIDTH = 0.2


class ByQMatrix(TwoWay):
    """The Q-matrix model at unconstrained sites.

    An item's row holds its log discriminations in slots, then its intercept.
    """

    model: QMirt

    short_steps = True
    """With 158 subjects, 500 items and seven abilities, short steps doubled the effective sample
    size of the slowest intercept and hardly changed that of most."""

    @property
    def needs(self) -> Loadings:
        """Which abilities each item needs."""
        return self.model.needs

    def correlation(self, sites: Position) -> Float[Array, "ability ability"]:
        """Return Ω."""
        identity = jnp.eye(self.needs.n_abilities, dtype=sites["d"].dtype)
        return self.terms(sites).values.get("correlation", identity)

    def normals(self, sites: Position, data: Any) -> Normals:  # noqa: ARG002
        """Return the prior of each subject's abilities: N(0, Ω), or about its cluster's."""
        theta, inverse = sites["theta"], jnp.linalg.inv(self.correlation(sites))
        centre = jnp.zeros_like(theta)
        if self.clusters:
            inverse, centre = inverse / jax.nn.sigmoid(-sites["icc"]), sites["gamma"][self.codes]
        return Normals(centre @ inverse, jnp.broadcast_to(inverse, (len(theta), *inverse.shape)))

    def whitened(self, sites: Position) -> Float[Array, "ability subject"]:
        """Return abilities transformed to independent standard normal ones."""
        root = jnp.linalg.cholesky(self.correlation(sites))
        return jax.scipy.linalg.solve_triangular(root, sites["theta"].T, lower=True)

    def of_items(self, sites: Position, items: Array) -> Float[Array, " item"]:
        """Return the log prior density of each item, given the hyperparameters."""
        terms = self.terms(sites | self.unpacked(sites, items)).each
        return self.needs.in_slots(terms["a"]).sum(1) + terms["d"]

    def standard_items(self, sites: Position, items: Array) -> Float[Array, "dim item"]:
        """Return each item's sites, standardised by their populations."""
        new_sites = sites | self.unpacked(sites, items)
        terms = self.terms(new_sites)
        a, d = ((new_sites[x] - terms.centres[x]) / terms.spreads[x] for x in ("a", "d"))
        return jnp.concatenate([self.needs.in_slots(a), d[:, None]], 1).T

    def coefficients(self, sites: Position, items: Array) -> Float[Array, "item dim"]:  # noqa: ARG002
        """Return each item's discriminations in slots, 0 in empty slots, and d."""
        slopes = jnp.where(self.needs.filled, jnp.exp(items[:, :-1]), 0)
        return jnp.concatenate([slopes, items[:, -1:]], 1)

    def packed(self, sites: Position) -> Float[Array, "item dim"]:
        """Return each item's log discriminations in slots, 0 in empty slots, and intercept."""
        return jnp.concatenate([self.needs.in_slots(sites["a"]), sites["d"][:, None]], 1)

    def unpacked(self, sites: Position, items: Float[Array, "item dim"]) -> Position:  # noqa: ARG002
        """Return the items' separate sites."""
        return {"a": items[self.needs.item, self.needs.slot], "d": items[:, -1]}

    def chance(self, numbers: RandomNumbers, items: Float[Array, "item dim"]) -> Chance:
        """Draw the random numbers of one step of all items, 0 for empty slots."""
        drawn = chance_for(numbers, items)
        free = np.column_stack([self.needs.filled, np.ones(len(items), bool)])
        return drawn._replace(noise=jnp.where(free, drawn.noise, 0))

    def means(self, sites: Position) -> list[str]:
        """Return the names of means and β."""
        return [*super().means(sites), "beta"]

    def log_likelihood(self, values: Position, data: Any) -> Float[Array, ""]:
        """Return the log likelihood of all responses at the model's values."""
        slopes = self.needs.slopes(self.needs.in_slots(values["a"]))
        return super().log_likelihood(values | {"a": slopes}, data)

    def coordinates(self, point: PointEstimate, data: Any) -> FromMoments:
        """Return coordinates in which abilities are transformed to independent ones."""
        centre, width = self.start(point, data)
        root = np.linalg.cholesky(self.correlation(jax.tree.map(jnp.asarray, dict(centre))))
        back = np.linalg.inv(root).T
        parts = {x: np.asarray(centre[x]) @ back for x in ("theta", "gamma") if x in centre}
        around = StartCoordinates.of((centre | parts, width))
        return FromMoments.of(IndependentParts(around), self.model.lines, (centre, width))

    def own_moves(self, data: Any, dtype: DTypeLike) -> tuple[list[Move], list[Move]]:
        """Return the moves of scales and correlations."""
        blind = [partial(move, self) for move in (move_scales, move_correlations, turn_abilities)]
        return [], [*blind, partial(move_with_abilities, self, data, dtype)]

    def finished(self, samples: Samples, point: PointEstimate) -> tuple[Samples, dict[str, Any]]:  # noqa: ARG002
        """Return draws without the root of Ω, and the names of abilities and loadings."""
        if self.model.q is None:
            return samples, {}
        coords = self.model.q.coords()
        names = {name: coords[name] for name in ("ability", "ability_other", "loading")}
        return {name: x for name, x in samples.items() if name != "root"}, names

    def start(self, point: PointEstimate, data: Any) -> Start:  # noqa: ARG002
        """Return centre and width of the chains' starts, at unconstrained sites."""
        slopes, beta, structure = point["a"], point["beta"], self.model.structure
        start: Start = ({"theta": point["theta"]}, {"theta": usable(point["theta_se"])})
        centre, width = start
        place_population(start, "a", np.log(slopes), usable(point["a_se"] / slopes))
        loadings = np.zeros(self.needs.needs.shape)
        loadings[self.needs.item, self.needs.ability] = slopes
        easier = self.needs.needs @ beta
        place_leaning(start, "d", point["d"] - easier, usable(point["d_se"]), ("mu_b", loadings))
        spread = max(float(beta.std()), _LEAST_SIGMA)
        centre |= {"beta": beta, "sigma_beta": np.log(spread), "d": point["d"]}
        width |= {"beta": np.full(beta.shape, spread / 2), "sigma_beta": np.array(0.5)}
        if structure == "independent" or len(beta) == 1:
            return start
        if structure == "correlated":
            root = np.linalg.cholesky(point["correlation"])
            coordinates = biject_to(LKJCholesky(len(beta), 1).support)._inverse(root)
            name, centre["root"] = "root", np.asarray(coordinates)
        else:
            general = np.clip(point["general"], 1 - _NEAR_ONE, _NEAR_ONE)
            name, centre["general"] = "general", np.log(general / (1 - general))
        width[name] = np.full(centre[name].shape, _CORRELATION_WIDTH)
        return start


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class IndependentParts:
    """Coordinates in which ``theta`` is z, where θ = L z and L Lᵀ = Ω.

    Correlations about which the data are not informative can then move freely.
    """

    around: StartCoordinates

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.around.size

    def at(self, flat: Array, way: ByQMatrix) -> tuple[Position, Array]:
        """Return the unconstrained sites at flat coordinates, and the log Jacobian."""
        sites, log_jacobian = self.around.at(flat, way)
        root = jnp.linalg.cholesky(way.correlation(sites))
        log_jacobian += rows_of(sites) * jnp.log(jnp.diag(root)).sum()
        return sites | abilities_by(sites, root), log_jacobian


def scales_stretched(
    loadings: Loadings, sites: Position, t: Float[Array, " direction"]
) -> tuple[Position, Array]:
    """Change the spread of abilities and everything that keeps η; also return the log Jacobian."""
    by_ability, by_mean = t[:-1], t[-1]
    moved = {
        **abilities_by(sites, jnp.diag(jnp.exp(by_ability))),
        "a": sites["a"] - by_ability[loadings.ability],
        "mu_a": sites["mu_a"] + by_mean,
        "mu_b": sites["mu_b"] * jnp.exp(by_ability),
    }
    return sites | moved, (rows_of(sites) + 1) * by_ability.sum()


def rows_of(sites: Position) -> int:
    """Return the number of subjects and clusters."""
    return sum(len(sites[name]) for name in ("theta", "gamma") if name in sites)


def correlation_site(sites: Position) -> str | None:
    """Return the name of the site that holds the correlations, if there is one."""
    return next((name for name in ("root", "general") if name in sites), None)


def move_scales(
    way: ByQMatrix, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move the spreads of all abilities together with μ_a, without changing η.

    With e = exp(t), the log density of abilities and μ_b, which acts like one more subject, is
    -eᵀMe/2 + (n + 1) Σt for M = Ω⁻¹ ∘ ΘᵀΘ + diag(μ_b² / 4). Its Hessian is
    -diag(e) M diag(e) - diag(e ∘ Me). The log density of slopes is quadratic.
    """
    needs, theta = way.needs, way.independent(sites)
    together = jnp.linalg.inv(way.correlation(sites)) * (theta.T @ theta)
    together += jnp.diag((sites["mu_b"] / MU_B_SD) ** 2)
    volume = len(theta) + 1
    sigma = jnp.exp(sites["sigma_a"])
    deviations = (sites["a"] - sites["mu_a"]) / sigma
    counts = jnp.asarray(needs.needs.sum(0), theta.dtype)
    crossed = jnp.concatenate([jnp.diag(counts), counts[None]])
    design = jnp.concatenate([crossed, jnp.append(counts, counts.sum())[:, None]], 1) / sigma**2
    pulled = jnp.zeros(needs.n_abilities, theta.dtype).at[needs.ability].add(deviations) / sigma
    pulled = jnp.append(pulled, pulled.sum())

    def of_mean(t: Array) -> Array:
        return way.terms(sites | {"mu_a": sites["mu_a"] + t}).each["mu_a"]

    def evaluate(position: Array) -> tuple[Conditional, None]:
        t = position[0]
        e = jnp.exp(t[:-1])
        weighed = e * (together @ e)
        slope, curvature = derivatives(of_mean, t[-1])
        value = volume * t[:-1].sum() - weighed.sum() / 2 + of_mean(t[-1])
        value += pulled @ t - t @ design @ t / 2
        score = pulled - design @ t + jnp.append(volume - weighed, slope)
        ridge = jnp.append(jnp.maximum(weighed, 0), -curvature)
        outer = jnp.pad(e[:, None] * together * e, (0, 1))
        return Conditional(value[None], score[None], (design + outer + jnp.diag(ridge))[None]), None

    present = jnp.zeros((1, needs.n_abilities + 1), theta.dtype)
    step = newton_move(chance_for(numbers, present), present, evaluate)
    moved, _ = scales_stretched(needs, sites, step.position[0])
    return moved, {"acceptance_scales": step.accepted[0].astype(theta.dtype)}


def move_correlations(
    way: ByQMatrix, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move the correlations given the abilities: one Hamiltonian Monte Carlo step."""
    name = correlation_site(sites)
    if name is None:
        return sites, {}
    start = sites[name]
    theta = way.independent(sites)
    products, n_rows = theta.T @ theta, len(theta)

    def log_density(value: Array) -> Array:
        terms = way.terms(sites | {name: value})
        root = jnp.linalg.cholesky(terms.values["correlation"])
        seen = jax.scipy.linalg.cho_solve((root, True), products)
        return terms.each[name].sum() - n_rows * jnp.log(jnp.diag(root)).sum() - jnp.trace(seen) / 2

    step = _STEP / (jnp.sqrt(n_rows + 1.0) * start.size**0.25)
    end, accepted = follow_trajectory(numbers, start, log_density, step=step, n_steps=_STEPS)
    return sites | {name: end}, {"acceptance_correlations": accepted.astype(start.dtype)}


def move_with_abilities(
    way: ByQMatrix, data: Any, dtype: DTypeLike, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move the correlations and carry the abilities along, with z fixed.

    With θ = L z and z fixed, the density depends on L's prior and the responses only. The
    information of the responses is that about the abilities in the directions in which they move.
    """
    name = correlation_site(sites)
    if name is None:
        return sites, {}
    passes, items = way.passes(data, sites, dtype), way.coefficients_of(sites)

    def root(value: Array) -> Array:
        return jnp.linalg.cholesky(way.correlation(sites | {name: value}))

    back = jnp.linalg.inv(root(sites[name]))

    def carried(value: Array) -> Position:
        return abilities_by(sites, root(value) @ back)

    def carried_abilities(value: Array) -> Array:
        return carried(value)["theta"]

    def log_prior(value: Array) -> Array:
        return way.terms(sites | {name: value}).each[name].sum()

    def evaluate(position: Array) -> tuple[Conditional, Array]:
        value = position[0]
        along = jax.jacfwd(carried_abilities)(value)
        sums = passes.subject_sums(carried_abilities(value), items)
        of_prior, slope = jax.value_and_grad(log_prior)(value)
        score = slope + jnp.einsum("ik,ikp->p", sums.score, along)
        learnt = jnp.einsum("ikp,ikl,ilq->pq", along, sums.information, along)
        precision = learnt + jnp.eye(len(value))
        return Conditional(of_prior[None], score[None], precision[None]), sums.log_likelihood

    def gain(old: Array, new: Array) -> Array:
        return (new - old).sum()[None]

    start = sites[name][None]
    step = newton_move(chance_for(numbers, start), start, evaluate, gain=gain)
    value = step.position[0]
    moved = sites | carried(value) | {name: value}
    return moved, {"acceptance_with_abilities": step.accepted[0].astype(value.dtype)}
