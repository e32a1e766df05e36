"""A Newton-Metropolis step of all subjects at once, in one pass over the data.

A subject's step depends on its own cells only. So one pass over blocks of rows evaluates the
current state and the proposal, accepts or rejects, and computes the sums for items at the new
state.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.inference.block_steps import Chance, Conditional, newton_move, newton_step
from bayesirt.likelihood.cell_sums import Layout
from bayesirt.likelihood.family import PredictorTerms
from bayesirt.likelihood.passes import ItemSums, Passes

_Notes = tuple[PredictorTerms, Array]
_LEAST_GROWTH = -2.0
"""Least growth of a cell's log information over half a step."""
_FEW_CELLS = 2**15
"""Cells up to which both evaluations are a loop, which compiles faster but copies cells."""


class Normals(NamedTuple):
    """A normal prior of each subject's abilities, exp(pull · θ - θᵀ P θ / 2)."""

    pull: Float[Array, "subject ability"]
    precision: Float[Array, "subject ability ability"]

    @classmethod
    def of(cls, log_density: Callable[[Array], Array], like: Array) -> "Normals":
        """Build from log densities that are quadratic in each subject's abilities."""
        origin = jnp.zeros_like(like)

        def pull(theta: Array) -> Array:
            return jax.grad(lambda x: log_density(x).sum())(theta)

        def curvature(axis: Array) -> Array:
            return jax.jvp(pull, (origin,), (jnp.broadcast_to(axis, origin.shape),))[1]

        axes = jnp.eye(origin.shape[1], dtype=origin.dtype)
        return cls(pull(origin), -jax.vmap(curvature, out_axes=2)(axes))

    def at(self, theta: Float[Array, "subject ability"]) -> tuple[Array, Array]:
        """Return the log densities and their gradients."""
        pulled = jnp.einsum("ikl,il->ik", self.precision, theta)
        return (theta * (self.pull - pulled / 2)).sum(1), self.pull - pulled


class SubjectStep(NamedTuple):
    """The subjects' new state, and the sums for items at it."""

    theta: Float[Array, "subject ability"]
    accepted: Array  # shape (subject,)
    sums: ItemSums


def move_subjects(
    passes: Passes,
    chance: Chance,
    theta: Float[Array, "subject ability"],
    coefficients: Float[Array, "item dim"],
    priors: Normals,
) -> SubjectStep:
    """Make one Newton-Metropolis step of every subject, with two evaluations of every cell.

    The precision of a proposal is about that halfway along Newton's step. Far out in a tail, where
    answers are hardly informative, the local precision would lead beyond the mode, and hardly any
    step back would be proposed.
    """
    rows = theta, chance, priors
    (theta, accepted), sums = passes.by_rows(partial(_moved, passes), rows, coefficients)
    return SubjectStep(theta, accepted, sums)


def _moved(
    passes: Passes,
    layout: Layout,
    rows: tuple[Any, ...],
    slopes: Array,
    others: tuple[Array, ...],
) -> tuple[tuple[Array, Array], ItemSums]:
    theta, chance, priors = rows

    def evaluate(position: Array) -> tuple[Conditional, _Notes]:
        terms, growth = passes.terms_of(layout, position, slopes, others)
        value, slope = priors.at(position)
        score = slope + passes.score_over_items(layout, terms.score[0], slopes)

        def with_information(information: Array) -> Conditional:
            learnt = passes.learnt_over_items(layout, information, slopes)
            return Conditional(value, score, learnt + priors.precision)

        cell_information = terms.information[0][0]
        step = newton_step(with_information(cell_information)).astype(cell_information.dtype)
        still = jnp.zeros_like(others[0], cell_information.dtype)
        along = layout.predictor(step, slopes.astype(cell_information.dtype), still)
        rate = growth / jnp.maximum(cell_information, jnp.finfo(cell_information.dtype).tiny)
        grown = (1 + jnp.maximum(rate * along / 2, _LEAST_GROWTH) / 4) ** 4  # about exp
        most = jnp.maximum(cell_information, passes.family.bound(layout.trials))
        halfway = jnp.minimum(grown * cell_information, most)
        return with_information(halfway), (terms, growth)

    def gain(old: _Notes, new: _Notes) -> Array:
        change = new[0].log_likelihood - old[0].log_likelihood
        return layout.over_items(change, jnp.ones_like(others[0], change.dtype))

    few = len(theta) * slopes.shape[0] <= _FEW_CELLS
    current = None if few else evaluate(theta)
    step = newton_move(chance, theta, evaluate, current=current, gain=gain)
    accepted = layout.to_cells(step.accepted)
    terms, growth = jax.tree.map(partial(jnp.where, accepted), step.notes[1], step.notes[0])
    sums = passes.sums_over_subjects(layout, step.position, terms, growth)
    return (step.position, step.accepted), sums
