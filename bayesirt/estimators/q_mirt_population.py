"""Q-matrix model: the populations of subjects and items, given subjects and items."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayesirt.estimators import lapack
from bayesirt.estimators.ability_beliefs import best_location
from bayesirt.estimators.normal_beliefs import Abilities, Normal
from bayesirt.estimators.q_slots import SlotItems, Slots
from bayesirt.estimators.symmetric_matrices import inverse
from bayesirt.models.q_mirt import Structure

MU_A_SD, MU_D_SD = 0.5, 2.0
"""Standard deviations of the normal priors on μ_a and μ_d, as in the 2PL."""
USUAL_SPREADS = (0.3, 1.0, 0.5)
"""Prior spreads of log a, d and β, with the weight of `_SPREAD_WEIGHT` observed values."""

_SPREAD_WEIGHT = 2.0
_CORRELATION_WEIGHT = 2.0
"""Weight w, in subjects, of the density (|Ω| exp tr Ω⁻¹)^(-w/2) that shrinks correlations."""
_SCALE_STEPS = 3
_FARTHEST = 0.5
_FACTOR_STEPS = 10
_LARGEST_LOADING = 0.99
_HALVINGS = 8
_LEAST_LEFT = 0.25


class Spreads(NamedTuple):
    """Logarithms of the standard deviations of item parameters: log σ_a, log σ_d, log σ_β."""

    log_a: Float[Array, ""]
    d: Float[Array, ""]
    beta: Float[Array, ""]


class Population(NamedTuple):
    """Population parameters of subjects and items.

    β is how much easier items that need an ability are, in logits; `correlation` is Ω; `general` is
    λ, the correlation of each ability with the general one, or 0 in other structures. Intercepts
    shrink towards μ_d + Qβ (the model's μ_b is 0), which gives a closed-form penalty.
    """

    mu_a: Float[Array, ""]
    mu_d: Float[Array, ""]
    beta: Float[Array, " ability"]
    spreads: Spreads
    correlation: Float[Array, "ability ability"]
    general: Float[Array, " ability"]

    @property
    def abilities(self) -> Normal:
        """Population of the subjects."""
        return Normal(jnp.zeros_like(self.beta), inverse(self.correlation))

    def prior(self, slots: Slots) -> Normal:
        """Return the prior of each item's log slopes and d; its centre is 0 in empty slots."""
        of_log_a, of_d = (jnp.exp(-2 * x) for x in (self.spreads.log_a, self.spreads.d))
        d = self.mu_d + slots.over_abilities(self.beta)
        weights = jnp.where(slots.taken, of_log_a, 1)
        weights = jnp.concatenate([weights, jnp.broadcast_to(of_d, (len(d), 1))], 1)
        precision = weights[:, :, None] * jnp.eye(weights.shape[1], dtype=d.dtype)
        return Normal(SlotItems(jnp.where(slots.taken, self.mu_a, 0), d).both, precision)


def first_population(n_abilities: int, structure: Structure, like: Array) -> Population:
    """Return the initial population, with correlations of .49 unless abilities are independent."""
    general = jnp.full(n_abilities, 0.0 if structure == "independent" else 0.7, like.dtype)
    zero = jnp.zeros((), like.dtype)
    return Population(
        zero,
        zero,
        jnp.zeros(n_abilities, like.dtype),
        Spreads(*(jnp.log(zero + s) for s in USUAL_SPREADS)),
        one_factor(general),
        general,
    )


def one_factor(general: Float[Array, " ability"]) -> Float[Array, "ability ability"]:
    """Return Ω = λλᵀ + diag(1 - λ²)."""
    return jnp.outer(general, general) + jnp.diag(1 - general**2)


class QMirtPopulation(NamedTuple):
    """All parameters except those of single subjects."""

    items: SlotItems
    population: Population


def to_standard(
    slots: Slots, parameters: QMirtPopulation, abilities: Abilities
) -> tuple[QMirtPopulation, Abilities]:
    """Move location and scale of each ability to their most likely values, without changing η.

    Parameter expansion (Liu, Rubin & Wu 1998). Location is a linear system in the shifts, μ_d and
    β; scales take a few Newton steps in their logarithms and μ_a. Both include the items' priors.
    """
    return _scaled(slots, *_located(slots, parameters, abilities))


def _located(
    slots: Slots, parameters: QMirtPopulation, abilities: Abilities
) -> tuple[QMirtPopulation, Abilities]:
    items, population = parameters
    full_items = slots.items(items)
    shift, coefficients = best_location(
        full_items, abilities, population.abilities, *d_regression(slots, population)
    )
    items = items._replace(d=items.d + full_items.a @ shift)
    population = population._replace(mu_d=coefficients[0], beta=coefficients[1:])
    return QMirtPopulation(items, population), abilities._replace(mean=abilities.mean - shift)


def d_regression(slots: Slots, population: Population) -> tuple[Array, Array, Array]:
    """Return the design of d's regression on (μ_d, β), d's precision, and those of (μ_d, β)."""
    needs = slots.loadings(jnp.zeros(slots.taken.shape, population.beta.dtype))
    design = jnp.concatenate([jnp.ones_like(needs[:, :1]), needs], 1)
    of_beta = jnp.broadcast_to(jnp.exp(-2 * population.spreads.beta), population.beta.shape)
    precisions = jnp.concatenate([jnp.full(1, MU_D_SD**-2, of_beta.dtype), of_beta])
    return design, jnp.exp(-2 * population.spreads.d), precisions


def _scaled(
    slots: Slots, parameters: QMirtPopulation, abilities: Abilities
) -> tuple[QMirtPopulation, Abilities]:
    (items, population), n = parameters, len(abilities.mean)
    products = inverse(population.correlation) * abilities.scatter()
    weight = jnp.exp(-2 * population.spreads.log_a)
    counts = slots.over_items(jnp.ones_like(items.log_a))
    sums = slots.over_items(items.log_a)

    def newton(_: int, x: Array) -> Array:
        logs, mu_a = x[:-1], x[-1]
        shrunk = jnp.exp(-logs)
        per_pair = shrunk[:, None] * products * shrunk
        pulls = sums + counts * (logs - mu_a)
        of_logs = n - per_pair.sum(1) + weight * pulls
        of_mu = mu_a / MU_A_SD**2 - weight * pulls.sum()
        block = per_pair + jnp.diag(jnp.maximum(per_pair.sum(1), 0) + weight * counts)
        edge = -weight * counts
        corner = MU_A_SD**-2 + weight * counts.sum()
        hessian = jnp.block([[block, edge[:, None]], [edge[None, :], corner]])
        step = jnp.linalg.solve(hessian, jnp.append(of_logs, of_mu))
        return x - jnp.clip(step, -_FARTHEST, _FARTHEST)

    start = jnp.append(jnp.zeros_like(population.beta), population.mu_a)
    solution = jax.lax.fori_loop(0, _SCALE_STEPS, newton, start)
    logs, shrunk = solution[:-1], jnp.exp(-solution[:-1])
    log_a = items.log_a + jnp.where(slots.taken, logs[slots.ability], 0)
    after = QMirtPopulation(items._replace(log_a=log_a), population._replace(mu_a=solution[-1]))
    covariance = shrunk[:, None] * abilities.covariance * shrunk
    return after, Abilities(abilities.mean * shrunk, covariance)


def best_correlation(
    structure: Structure, abilities: Abilities, population: Population
) -> Population:
    """Return the population with correlations that fit the abilities, shrunk towards 0.

    A step of Fisher scoring among matrices with unit diagonal: M + ΩΛΩ, where M are the shrunken
    moments, and Λ is diagonal such that the sum has unit diagonal. A general factor is fitted to
    the result.
    """
    if structure == "independent":
        return population
    n, omega = len(abilities.mean), population.correlation
    identity = jnp.eye(len(omega), dtype=omega.dtype)
    moments = (abilities.scatter() + _CORRELATION_WEIGHT * identity) / (n + _CORRELATION_WEIGHT)
    lacking = jnp.linalg.solve(omega**2, 1 - jnp.diag(moments))
    observed = moments + omega * lacking @ omega
    observed = correlation_towards(omega, observed)
    if structure == "correlated":
        return population._replace(correlation=observed)

    def factor_step(_: int, general: Array) -> Array:
        """EM of factor analysis (Rubin & Thayer 1982)."""
        weights = jnp.linalg.solve(one_factor(general), general)
        with_factor = observed @ weights
        square = weights @ with_factor + 1 - weights @ general
        return jnp.clip(with_factor / square, 0, _LARGEST_LOADING)

    general = jax.lax.fori_loop(0, _FACTOR_STEPS, factor_step, population.general)
    return population._replace(correlation=one_factor(general), general=general)


def correlation_towards(
    start: Float[Array, "ability ability"], end: Float[Array, "ability ability"]
) -> Float[Array, "ability ability"]:
    """Move from a correlation matrix as far as possible towards a possibly indefinite one.

    The result is the end or, after as few halvings of the way as possible, a matrix in which each
    combination of abilities keeps at least a quarter of its variance. The diagonal is exactly 1.
    """
    shares = 0.5 ** jnp.arange(_HALVINGS, dtype=start.dtype)
    margins = (1 - _LEAST_LEFT) * start + shares[:, None, None] * (end - start)
    is_valid = jnp.isfinite(jnp.linalg.cholesky(margins)).all((1, 2))
    matrix = start + jnp.where(is_valid.any(), shares[jnp.argmax(is_valid)], 0) * (end - start)
    scale = jnp.sqrt(jnp.diag(matrix))
    return (matrix + matrix.T) / (2 * jnp.outer(scale, scale))


def best_spreads(
    slots: Slots,
    parameters: QMirtPopulation,
    item_covariance: Float[Array, "item parameter parameter"],
) -> Population:
    """Return the population with the spreads that fit the items, including their uncertainty."""
    items, population = parameters
    unknown = jnp.diagonal(item_covariance, axis1=1, axis2=2)
    squares = (items.both - population.prior(slots).centre) ** 2 + unknown
    design, *_ = d_regression(slots, population)
    of_location = inverse(_of_location(slots, population))
    of_mean = jnp.einsum("jk,kl,jl->j", design, of_location, design)
    of_log_a = jnp.where(slots.taken, squares[:, :-1], 0)
    of_beta = population.beta**2 + jnp.diag(of_location)[1:]
    sums = jnp.stack([x.sum() for x in (of_log_a, squares[:, -1] + of_mean, of_beta)])
    usual = jnp.asarray(USUAL_SPREADS, sums.dtype)
    variances = (sums + _SPREAD_WEIGHT * usual**2) / (_n_spread(slots) + _SPREAD_WEIGHT)
    return population._replace(spreads=Spreads(*jnp.log(variances) / 2))


def _n_spread(slots: Slots) -> Int[Array, "3"]:
    """Return the number of parameters of each spread."""
    return jnp.stack([slots.taken.sum(), *map(jnp.asarray, (len(slots.taken), slots.n_abilities))])


def _of_location(slots: Slots, population: Population) -> Float[Array, "coefficient coefficient"]:
    """Return the information about (μ_d, β) given the items."""
    design, weight, precisions = d_regression(slots, population)
    return weight * design.T @ design + jnp.diag(precisions)


def population_loss(
    slots: Slots,
    parameters: QMirtPopulation,
    item_covariance: Float[Array, "item parameter parameter"],
) -> Float[Array, ""]:
    """Return the negative log prior of items and of their population, up to a constant.

    Items, μ_d and β are integrated out by Laplace's approximation, which makes their spreads
    estimable.
    """
    (items, population), spreads = parameters, parameters.population.spreads
    squares = population.prior(slots).squares(items.both).sum()
    squares += jnp.exp(-2 * spreads.beta) * jnp.sum(population.beta**2)
    squares += population.mu_a**2 / MU_A_SD**2 + population.mu_d**2 / MU_D_SD**2
    logs = jnp.stack(spreads)
    pulls = _SPREAD_WEIGHT * (logs + jnp.asarray(USUAL_SPREADS) ** 2 * jnp.exp(-2 * logs) / 2)
    volumes = jnp.linalg.slogdet(_of_location(slots, population))[1]
    volumes -= lapack.log_determinant(item_covariance).sum()
    return squares / 2 + (_n_spread(slots) * logs + pulls).sum() + volumes / 2


def correlation_loss(structure: Structure, population: Population) -> Float[Array, ""]:
    """Return the penalty that shrinks correlations towards 0."""
    if structure == "independent":
        return jnp.zeros_like(population.mu_a)
    omega = population.correlation
    return _CORRELATION_WEIGHT / 2 * (jnp.linalg.slogdet(omega)[1] + jnp.trace(inverse(omega)))
