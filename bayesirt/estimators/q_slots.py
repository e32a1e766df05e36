"""The abilities that each item needs, packed into slots, with positive slopes."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bayesirt.data.q_matrix import QMatrix
from bayesirt.estimators.normal_beliefs import Items
from bayesirt.estimators.symmetric_matrices import place_of_pairs
from bayesirt.likelihood.loadings import Loadings


class SlotItems(NamedTuple):
    """Items with log slopes, 0 in empty slots."""

    log_a: Float[Array, "item slot"]
    d: Float[Array, " item"]

    @property
    def both(self) -> Float[Array, "item parameter"]:
        """Log slopes, and d as the last parameter."""
        return jnp.concatenate([self.log_a, self.d[:, None]], 1)

    @classmethod
    def of(cls, both: Float[Array, "item parameter"]) -> "SlotItems":
        """Return items from log slopes with d as the last parameter."""
        return cls(both[:, :-1], both[:, -1])


class Slots(NamedTuple):
    """Indices of the abilities that items need, padded to the longest row.

    `pair` is the index of two abilities among all pairs; empty slots are those of ability 0. The
    length of `any_ability`, whose values are not used, is the number of abilities.
    """

    ability: Int[Array, "item slot"]
    taken: Bool[Array, "item slot"]
    pair: Int[Array, "item slot slot"]
    any_ability: Array

    @property
    def n_abilities(self) -> int:
        """Number of abilities."""
        return len(self.any_ability)

    def slopes(self, log_a: Float[Array, "item slot"]) -> Float[Array, "item slot"]:
        """Return slopes, 0 in empty slots."""
        return jnp.where(self.taken, jnp.exp(log_a), 0)

    def loadings(self, log_a: Float[Array, "item slot"]) -> Float[Array, "item ability"]:
        """Return slopes as a matrix, 0 if an item does not need an ability."""
        slopes = self.slopes(log_a)
        rows = jnp.arange(len(slopes))[:, None]
        matrix = jnp.zeros((len(slopes), self.n_abilities), slopes.dtype)
        return matrix.at[rows, self.ability].add(slopes)

    def items(self, items: SlotItems) -> Items:
        """Return items with a slope for every ability."""
        return Items(self.loadings(items.log_a), items.d)

    def own(self, values: Float[Array, "item ability"]) -> Float[Array, "item slot"]:
        """Return the values of the abilities that each item needs, 0 in empty slots."""
        return jnp.where(self.taken, jnp.take_along_axis(values, self.ability, 1), 0)

    def of_pairs(self, pairs: Float[Array, "item pair"]) -> Float[Array, "item slot slot"]:
        """Return the values of the pairs of abilities that each item needs, arbitrary elsewhere."""
        flat = self.pair.reshape(len(self.pair), -1)
        return jnp.take_along_axis(pairs, flat, 1).reshape(self.pair.shape)

    def over_items(self, values: Float[Array, "item slot"]) -> Float[Array, " ability"]:
        """Return the sum of values over the items that need each ability."""
        matrix = jnp.zeros(self.n_abilities, values.dtype)
        return matrix.at[self.ability].add(jnp.where(self.taken, values, 0))

    def over_abilities(self, values: Float[Array, " ability"]) -> Float[Array, " item"]:
        """Return the sum of values over the abilities that each item needs."""
        return jnp.where(self.taken, values[self.ability], 0).sum(1)


def slots_of(q: QMatrix) -> Slots:
    """Return the abilities that each item needs, in the order of `QMatrix.loadings`."""
    needs = Loadings.of(q.needs)
    ability, any_ability = needs.ability_of_slot, np.zeros(q.n_abilities, np.int8)
    pair = place_of_pairs(q.n_abilities)[ability[:, :, None], ability[:, None, :]]
    return Slots(*map(jnp.asarray, (ability, needs.filled, pair, any_ability)))
