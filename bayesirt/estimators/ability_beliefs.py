"""Normal approximations to posteriors of abilities, given items or normal beliefs about them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.estimators import lapack
from bayesirt.estimators.cell_expectations import Quadrature, expected_terms
from bayesirt.estimators.normal_beliefs import Abilities, Items, Normal, Unknown
from bayesirt.estimators.step_halving import limited
from bayesirt.estimators.symmetric_matrices import inverse, packed, pairs, unpacked
from bayesirt.likelihood.cell_sums import DenseLayout

_STEPS, _LAST_STEPS = 2, 5


def ability_steps(
    layout: DenseLayout,
    items: Items,
    population: Normal,
    abilities: Abilities,
    quadrature: Quadrature,
    n_steps: int = _STEPS,
    unknown: Unknown = None,
    *,
    half: bool = False,
) -> Abilities:
    """Take Newton steps on every subject's abilities, all subjects at once.

    Covariances become (AᵀE[W]A + Ω⁻¹)⁻¹. With `half`, precisions move half of the way: if items are
    steep, W depends so strongly on the covariance that full steps would oscillate. For uncertain
    items with covariances C, E a aᵀ = â âᵀ + C_aa replaces â âᵀ, and E s a = â E s - C_a (θ, 1) E w
    (Stein 1981).
    """
    n = items.a.shape[1]
    squared = pairs(items.a, 1.0)
    if unknown is not None:
        squared += packed(unknown[:, :n, :n])

    def step(_: int, found: Abilities) -> Abilities:
        terms = expected_terms(layout, items, found, quadrature, unknown)
        score = terms.score @ items.a - population.pull(found.mean)
        precision = unpacked(terms.information @ squared, n) + population.precision
        if unknown is not None:
            lost = unpacked(terms.information @ packed(unknown[:, :n, :n]), n)
            score -= jnp.einsum("ikl,il->ik", lost, found.mean)
            score -= terms.information @ unknown[:, :n, n]
        if half:
            precision = (precision + inverse(found.covariance)) / 2
        covariance = inverse(precision)
        direction = jnp.einsum("ikl,il->ik", covariance, score)
        return Abilities(found.mean + limited(direction), covariance)

    return jax.lax.fori_loop(0, n_steps, step, abilities)


def evidence(
    abilities: Abilities, population: Normal, log_likelihood: Float[Array, " subject"]
) -> Float[Array, " subject"]:
    """Return a lower bound on each subject's marginal log likelihood from its expected one."""
    squares = population.squares(abilities.mean)
    squares += jnp.einsum("kl,ikl->i", population.precision, abilities.covariance)
    volume = lapack.log_determinant(abilities.covariance)
    volume += jnp.linalg.slogdet(population.precision)[1]
    return log_likelihood + (volume - squares + abilities.mean.shape[1]) / 2


def abilities_given(
    layout: DenseLayout,
    items: Items,
    population: Normal,
    abilities: Abilities,
    quadrature: Quadrature,
) -> tuple[Abilities, Float[Array, ""]]:
    """Return abilities with items treated as known, and a bound on the marginal log likelihood."""
    abilities = ability_steps(layout, items, population, abilities, quadrature, _LAST_STEPS)
    terms = expected_terms(layout, items, abilities, quadrature)
    of_subjects = terms.log_likelihood.sum(1, dtype=items.d.dtype)
    return abilities, evidence(abilities, population, of_subjects).sum()


def best_location(
    items: Items,
    abilities: Abilities,
    population: Normal,
    design: Float[Array, "item coefficient"],
    weight: Float[Array, ""],
    precisions: Float[Array, " coefficient"],
    unknown: Unknown = None,
) -> tuple[Float[Array, " ability"], Float[Array, " coefficient"]]:
    """Return the best shift of the abilities, and the coefficients c of d's regression.

    Parameter expansion: EM alone converges slowly along both, as each subject's posterior holds it
    back. The least-squares problem is d + a shift = design c, with precision `weight` for items,
    `precisions` for c, and the shift centred on the mean of the abilities.
    """
    xp = items.d.__array_namespace__()
    n = items.a.shape[1]
    of_shift, of_design = (0, len(precisions)), (n, 0)
    both = xp.concatenate([-items.a, design], 1)
    squares, right = both.T @ both, both.T @ items.d
    if unknown is not None:
        squares += xp.pad(unknown.sum(0)[:n, :n], of_shift)
        right -= xp.pad(unknown.sum(0)[:n, n], of_shift)
    prior = xp.pad(len(abilities.mean) * population.precision, of_shift)
    prior += xp.pad(xp.diag(precisions), of_design)
    right = weight * right + xp.pad(population.precision @ abilities.mean.sum(0), of_shift)
    solution = xp.linalg.solve(weight * squares + prior, right)
    return solution[:n], solution[n:]
