"""What answers say of each subject's abilities, given items or normal beliefs about them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

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

    Covariances become (AᵀE[W]A + Ω⁻¹)⁻¹; with `half`, precisions go half of the way: where items
    are steep, W depends so much on the covariance that whole steps would swing to and fro. Items
    that are not known, with covariances C, have E a aᵀ = â âᵀ + C_aa in place of â âᵀ, and E s a =
    â E s - C_a (θ, 1) E w (Stein 1981).
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
    """Return a lower bound of each marginal log likelihood, from that expected over abilities."""
    own = population.squares(abilities.mean)
    own += jnp.einsum("kl,ikl->i", population.precision, abilities.covariance)
    volume = jnp.linalg.slogdet(abilities.covariance)[1]
    volume += jnp.linalg.slogdet(population.precision)[1]
    return log_likelihood + (volume - own + abilities.mean.shape[1]) / 2


def abilities_given(
    layout: DenseLayout,
    items: Items,
    population: Normal,
    abilities: Abilities,
    quadrature: Quadrature,
) -> tuple[Abilities, Float[Array, ""]]:
    """Return abilities as if items were known, and a bound of the marginal log likelihood."""
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
    """Return the shift of the abilities, and what d is regressed on the design by, at their best.

    Parameter expansion: EM alone creeps along both, where each subject's posterior holds it back.
    They solve d + a shift = design c, with items' precision `weight` and those of c, and with the
    shift about the mean of the abilities.
    """
    n = items.a.shape[1]
    both = jnp.concatenate([-items.a, design], 1)
    squares, right = both.T @ both, both.T @ items.d
    if unknown is not None:
        squares = squares.at[:n, :n].add(unknown.sum(0)[:n, :n])
        right = right.at[:n].add(-unknown.sum(0)[:n, n])
    own = jnp.zeros_like(squares).at[n:, n:].set(jnp.diag(precisions))
    own = own.at[:n, :n].set(len(abilities.mean) * population.precision)
    right = (weight * right).at[:n].add(population.precision @ abilities.mean.sum(0))
    found = jnp.linalg.solve(weight * squares + own, right)
    return found[:n], found[n:]
