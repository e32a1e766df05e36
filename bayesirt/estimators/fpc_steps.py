"""Fixed-parameter calibration: EM steps on new items and abilities."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.estimators.ability_beliefs import abilities_given
from bayesirt.estimators.cell_expectations import Quadrature
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.item_newton import item_step, items_loss
from bayesirt.estimators.normal_beliefs import (
    Abilities,
    Beliefs,
    Items,
    Normal,
    first_unknown,
    standard_normal,
)
from bayesirt.estimators.subject_scores import posterior_of
from bayesirt.estimators.symmetric_matrices import from_root, inverse, to_root
from bayesirt.estimators.variational_em import Expectation, expectation
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.models.mirt import USUAL_SPREAD

AbilityPopulation = Literal["estimated", "standard"]

_OF_ITEMS = ("score", "information", "of_items")


class Usual(NamedTuple):
    """Mean and covariance of known (a, d), to which new items shrink as with `weight` items."""

    centre: Float[Array, " parameter"]
    covariance: Float[Array, "parameter parameter"]
    weight: float


class FPCParameters(NamedTuple):
    """All estimated parameters except those of single subjects.

    New items, their mean and `to_root` of their covariance; mean and `to_root` of the covariance of
    the reference subjects' population.
    """

    items: Items
    centre: Float[Array, " parameter"]
    root: Float[Array, "parameter parameter"]
    mean: Float[Array, " ability"]
    ability_root: Float[Array, "ability ability"]

    @property
    def prior(self) -> Normal:
        """Prior of each new item."""
        return Normal(self.centre, inverse(from_root(self.root)))

    @property
    def population(self) -> Normal:
        """Population of the reference subjects."""
        return Normal(self.mean, inverse(from_root(self.ability_root)))


class FPCProblem(NamedTuple):
    """The fixed data; the layout has new items first, then known ones."""

    layout: DenseLayout
    known: Items
    usual: Usual

    def new(self) -> DenseLayout:
        """Return the answers to new items."""
        n = self.layout.shape[1] - len(self.known.d)
        return DenseLayout(*(x[:, :n] for x in self.layout))

    def with_known(self, items: Items) -> Items:
        """Return new items followed by known ones."""
        return Items(*(jnp.concatenate(both) for both in zip(items, self.known, strict=True)))


def problem_of(
    responses: Responses, known: KnownItems, anchors: KnownItems, order: NDArray[np.intp]
) -> FPCProblem:
    """Return the fixed data from responses; `order` puts new items first."""
    dtype = jnp.result_type(float)
    layout = DenseLayout(*(jnp.asarray(x[:, order]) for x in responses.cells.matrices()))
    n = known.n_abilities
    both = np.concatenate([known.a, known.d[:, None]], 1)
    off = both - both.mean(0)
    vague = np.diag([USUAL_SPREAD**2] * n + [1.0])
    usual = Usual(
        jnp.asarray(both.mean(0), dtype),
        jnp.asarray((off.T @ off + vague) / (len(both) + 1), dtype),
        n + 2.0,
    )
    given = Items(jnp.asarray(anchors.a, dtype), jnp.asarray(anchors.d, dtype))
    return FPCProblem(layout, given, usual)


def start(problem: FPCProblem, population: AbilityPopulation) -> tuple[FPCParameters, Beliefs]:
    """Return new items with typical slopes, and abilities from the answers to known items."""
    new, n = problem.new(), problem.known.a.shape[1]
    dtype = problem.known.d.dtype
    n_new = new.shape[1]
    answered = DenseLayout(*(x[:, n_new:] for x in problem.layout))
    standard = standard_normal(n, dtype)
    abilities = posterior_of(answered, problem.known, standard)
    mean, root = standard.centre, to_root(standard.precision)
    if population == "estimated":
        mean, root = _best_abilities(abilities)
    successes, trials = (x.sum(0).astype(dtype) for x in new)
    logit = jnp.log((successes + 0.5) / (trials - successes + 0.5))
    a = jnp.broadcast_to(problem.usual.centre[:n], (n_new, n))
    items = Items(a, logit - a @ mean)
    usual = problem.usual
    unknown = first_unknown(items)
    parameters = FPCParameters(items, usual.centre, to_root(usual.covariance), mean, root)
    return parameters, Beliefs(abilities, unknown)


def _expectation(
    quadrature: Quadrature, problem: FPCProblem, parameters: FPCParameters, beliefs: Beliefs
) -> Expectation:
    """Return the E-step at some parameters, with the equations of new items only."""
    both, n_new = problem.with_known(parameters.items), len(parameters.items.d)
    unknown = jnp.zeros((len(both.d), *beliefs.unknown.shape[1:]), both.d.dtype)
    unknown = unknown.at[:n_new].set(beliefs.unknown)
    all_beliefs = beliefs._replace(unknown=unknown)
    e_step = expectation(problem.layout, both, parameters.population, all_beliefs, quadrature)
    of_new = {name: getattr(e_step.equations, name)[:n_new] for name in _OF_ITEMS}
    return e_step._replace(
        beliefs=beliefs._replace(abilities=e_step.beliefs.abilities),
        equations=e_step.equations._replace(**of_new),
    )


def _loss(usual: Usual, parameters: FPCParameters, unknown: Array, bound: Array) -> Array:
    """Return the negative lower bound, with items integrated out too, plus the hyperprior."""
    prior, population = parameters.prior, parameters.population
    off = parameters.centre - usual.centre
    hyper = jnp.trace(prior.precision @ (usual.covariance + jnp.outer(off, off)))
    hyper = usual.weight * (hyper - jnp.linalg.slogdet(prior.precision)[1])
    hyper += jnp.trace(population.precision) - jnp.linalg.slogdet(population.precision)[1]
    return items_loss(parameters.items, unknown, prior) + hyper / 2 - bound


def _em_step(
    quadrature: Quadrature,
    population: AbilityPopulation,
    problem: FPCProblem,
    parameters: FPCParameters,
    beliefs: Beliefs,
) -> tuple[FPCParameters, Beliefs, Float[Array, ""]]:
    """Take one EM step; the returned loss is that before the step."""
    prior, usual = parameters.prior, problem.usual
    now, equations, bound = _expectation(quadrature, problem, parameters, beliefs)
    loss = _loss(usual, parameters, beliefs.unknown, bound)
    unknown = equations.damped_covariance(prior, beliefs.unknown)
    both = item_step(problem.new(), parameters.items.both, prior, now, quadrature, equations)
    weight = len(both) + usual.weight
    centre = (both.sum(0) + usual.weight * usual.centre) / weight
    off, pulled = both - centre, centre - usual.centre
    scatter = off.T @ off + unknown.sum(0)
    scatter += usual.weight * (usual.covariance + jnp.outer(pulled, pulled))
    mean, ability_root = parameters.mean, parameters.ability_root
    if population == "estimated":
        mean, ability_root = _best_abilities(now.abilities)
    after = FPCParameters(Items.of(both), centre, to_root(scatter / weight), mean, ability_root)
    return after, Beliefs(now.abilities, unknown), loss


def _best_abilities(abilities: Abilities) -> tuple[Array, Array]:
    """Return mean and root of the abilities' population, shrunk to I with a weight of 1 subject."""
    mean = abilities.mean.mean(0)
    off = abilities._replace(mean=abilities.mean - mean)
    scatter = off.scatter() + jnp.eye(len(mean), dtype=mean.dtype)
    return mean, to_root(scatter / (len(off.mean) + 1))


def _given_items(
    quadrature: Quadrature, problem: FPCProblem, parameters: FPCParameters, abilities: Abilities
) -> tuple[Abilities, Float[Array, ""]]:
    """Return abilities with items treated as known, and a bound on the marginal log likelihood."""
    both = problem.with_known(parameters.items)
    return abilities_given(problem.layout, both, parameters.population, abilities, quadrature)


em_step: Any = jax.jit(_em_step, static_argnums=(0, 1))
given_items: Any = jax.jit(_given_items, static_argnums=0)
