"""Multidimensional 2PL: the population of items, and the axes of the abilities.

These are a few small matrices, which NumPy computes: compiling would take far longer.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from bayesirt.estimators.ability_beliefs import best_location
from bayesirt.estimators.normal_beliefs import Abilities, Beliefs, Items, Normal, standard_normal
from bayesirt.estimators.symmetric_matrices import from_root, to_root
from bayesirt.likelihood.host_arrays import host
from bayesirt.models.mirt import MU_A_SD, MU_D_SD, SIGMA_D_SCALE, USUAL_SPREAD


class ItemPopulation(NamedTuple):
    """The population of items; `root_a` is `to_root` of the slopes' covariance Λ⁻¹.

    Intercepts shrink towards μ_d only (the model's μ_b is 0), which gives a closed-form penalty.
    """

    mu_a: Float[Array, " ability"]
    root_a: Float[Array, "ability ability"]
    mu_d: Float[Array, ""]
    log_sigma_d: Float[Array, ""]

    @property
    def precision_a(self) -> Float[Array, "ability ability"]:
        """Λ."""
        covariance = from_root(self.root_a)
        return covariance.__array_namespace__().linalg.inv(covariance)

    @property
    def prior(self) -> Normal:
        """Prior of each item's (a, d)."""
        xp = self.mu_a.__array_namespace__()
        of_d = xp.exp(-2 * self.log_sigma_d).reshape(1, 1)
        precision = xp.pad(self.precision_a, (0, 1)) + xp.pad(of_d, (len(self.mu_a), 0))
        return Normal(xp.append(self.mu_a, self.mu_d), precision)


class MirtPopulation(NamedTuple):
    """All parameters except those of single subjects."""

    items: Items
    population: ItemPopulation


Moved = tuple[MirtPopulation, Beliefs]
"""Parameters and beliefs in other axes of the abilities."""


def first_population(n_abilities: int, like: Array) -> ItemPopulation:
    """Return the initial population: slopes centred on 0 with typical spreads."""
    zero = np.zeros((), like.dtype)
    spread = np.diag(np.full(n_abilities, np.log(2 * USUAL_SPREAD), like.dtype))
    start = np.zeros(n_abilities, like.dtype), spread, zero, zero
    return ItemPopulation(*map(host, start))


def moved_axes(
    parameters: MirtPopulation,
    beliefs: Beliefs,
    matrix: Float[Array, "k k"],
    shift: Float[Array, " k"],
) -> Moved:
    """Change axes by θ = matrix θ' + shift, without changing the likelihood."""
    (items, population), (abilities, unknown) = parameters, beliefs
    xp = shift.__array_namespace__()
    to_new = xp.linalg.inv(matrix)
    corner = xp.asarray([[0.0] * len(shift) + [1.0]], dtype=shift.dtype)
    change = xp.concatenate([xp.concatenate([matrix.T, shift[None]]), corner.T], 1)
    population = population._replace(
        mu_a=matrix.T @ population.mu_a,
        root_a=to_root(matrix.T @ from_root(population.root_a) @ matrix),
    )
    mean, covariance = (abilities.mean - shift) @ to_new.T, to_new @ abilities.covariance @ to_new.T
    items = Items(items.a @ matrix, items.d + items.a @ shift)
    new_beliefs = Beliefs(Abilities(mean, covariance), change @ unknown @ change.T)
    return MirtPopulation(items, population), new_beliefs


def to_standard(parameters: MirtPopulation, beliefs: Beliefs, before: Items) -> Moved:
    """Move location, scales and angles of the abilities to their most likely values.

    Parameter expansion (Liu, Rubin & Wu 1998): EM alone converges slowly, as each subject's
    posterior holds it back. With θ = B θ' and the slopes' population moving along, the penalised
    loss in S = B Bᵀ is (tr S⁻¹M + (N + 1) log|S| + μ_aᵀ S μ_a) / 2, where M = Σ_i E θθᵀ + s² Λ. Its
    minimum satisfies M = (N + 1) S + S μ_a μ_aᵀ S, that is S = (M - x² M μ_a μ_aᵀ M) / (N + 1) with
    (N + 1) x + x² μ_aᵀ M μ_a = 1. B is the symmetric root, rotated such that slopes are closest to
    those before (Procrustes): the loss does not depend on rotations, and steps that include one
    would never converge.
    """
    (items, population), abilities = parameters, beliefs.abilities
    shift, mu_d = best_shift(parameters, beliefs)
    n, mu = len(abilities.mean) + 1, population.mu_a / MU_A_SD
    scatter = abilities._replace(mean=abilities.mean - shift).scatter()
    scatter += USUAL_SPREAD**2 * population.precision_a
    along = scatter @ mu
    x = 2 / (n + (n**2 + 4 * (mu @ along)) ** 0.5)
    best = (scatter - (x**2) * along[:, None] * along) / n
    values, vectors = np.linalg.eigh((best + best.T) / 2)
    matrix = (vectors * values**0.5) @ vectors.T
    left, _, right = np.linalg.svd(matrix @ (items.a.T @ before.a))
    parameters = MirtPopulation(items, population._replace(mu_d=mu_d))
    return moved_axes(parameters, beliefs, matrix @ left @ right, shift)


def best_shift(
    parameters: MirtPopulation, beliefs: Beliefs
) -> tuple[Float[Array, " ability"], Float[Array, ""]]:
    """Return the most likely location of the abilities, and μ_d at that location."""
    (items, population), (abilities, unknown) = parameters, beliefs
    n, dtype = items.a.shape[1], items.d.dtype
    weight, precisions = host(np.exp(-2 * population.log_sigma_d)), host([MU_D_SD**-2], dtype)
    ones, standard = host(np.ones((len(items.d), 1)), dtype), standard_normal(n, dtype)
    shift, (mu_d,) = best_location(items, abilities, standard, ones, weight, precisions, unknown)
    return shift, mu_d


def best_population(parameters: MirtPopulation, beliefs: Beliefs) -> ItemPopulation:
    """Return the population that fits the items, including their uncertainty."""
    ((a, d), population), covariance = parameters, beliefs.unknown
    n_items, n = a.shape
    precision = population.precision_a
    of_mean = n_items * precision + np.eye(n, dtype=a.dtype) / MU_A_SD**2
    mu_a = host(np.linalg.solve(of_mean, precision @ a.sum(0)))
    scatter = (a - mu_a).T @ (a - mu_a) + covariance[:, :n, :n].sum(0)
    usual = USUAL_SPREAD**2 * np.eye(n, dtype=a.dtype)
    of_d = ((d - population.mu_d) ** 2 + covariance[:, n, n]).sum()
    root = to_root((scatter + usual) / (n_items + 1))
    return ItemPopulation(mu_a, root, population.mu_d, best_log_sigma_d(of_d, n_items))


def best_log_sigma_d(squares: Float[Array, ""], n_items: int) -> Float[Array, ""]:
    """Return log s for the best σ_d, s, which solves n / s - squares / s³ + s / scale² = 0."""
    inner = (n_items**2 + 4 * squares / SIGMA_D_SCALE**2) ** 0.5
    return host(np.log(2 * squares / (n_items + inner)) / 2)


def population_loss(population: ItemPopulation) -> Float[Array, ""]:
    """Return the negative log prior of the population, up to a constant."""
    precision = population.precision_a
    xp = precision.__array_namespace__()
    loss = USUAL_SPREAD**2 * xp.trace(precision) - xp.linalg.slogdet(precision)[1]
    loss += (population.mu_a**2).sum() / MU_A_SD**2 + population.mu_d**2 / MU_D_SD**2
    return (loss + xp.exp(2 * population.log_sigma_d) / SIGMA_D_SCALE**2) / 2


def in_principal_axes(parameters: MirtPopulation, beliefs: Beliefs) -> Moved:
    """Rotate the axes such that Σ_j a_j a_jᵀ is diagonal and descending, and Σ_j a ≥ 0."""
    a = parameters.items.a
    _, vectors = np.linalg.eigh(a.T @ a)
    vectors = vectors[:, ::-1]
    rotation = vectors * np.where((a @ vectors).sum(0) < 0, -1, 1).astype(a.dtype)
    return moved_axes(parameters, beliefs, rotation, host(np.zeros_like(a[0])))
