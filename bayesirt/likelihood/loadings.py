"""The abilities on which each item loads."""

from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray


@dataclass(frozen=True)
class Loadings:
    """The abilities that each item needs, in rows of slots, padded to the longest row.

    Attributes
    ----------
    n_items, n_abilities : int
    rows : tuple of tuples of int, optional
        The abilities that each item needs, ascending; by default all.
    """

    n_items: int
    n_abilities: int
    rows: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def of(cls, needs: NDArray[np.bool_]) -> "Loadings":
        """Build from a Q-matrix, shape (item, ability)."""
        rows = tuple(tuple(map(int, np.flatnonzero(row))) for row in needs)
        return cls(len(needs), needs.shape[1], rows)

    @cached_property
    def needs(self) -> NDArray[np.bool_]:
        """The Q-matrix, shape (item, ability)."""
        matrix = np.zeros((self.n_items, self.n_abilities), bool)
        matrix[self.item, self.ability] = True
        return matrix

    @cached_property
    def needed(self) -> tuple[tuple[int, ...], ...]:
        """The abilities that each item needs."""
        every = tuple(range(self.n_abilities))
        return (every,) * self.n_items if self.rows is None else self.rows

    @cached_property
    def item(self) -> NDArray[np.intp]:
        """Index of the item of each loading."""
        return np.repeat(np.arange(self.n_items), [len(row) for row in self.needed])

    @cached_property
    def ability(self) -> NDArray[np.intp]:
        """Index of the ability of each loading."""
        return np.array([k for row in self.needed for k in row], np.intp)

    @cached_property
    def slot(self) -> NDArray[np.intp]:
        """Slot of each loading in the row of its item."""
        return np.array([s for row in self.needed for s in range(len(row))], np.intp)

    @cached_property
    def width(self) -> int:
        """Number of abilities that the most demanding item needs."""
        return self.n_abilities if self.rows is None else max(map(len, self.rows))

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """Whether a slot holds a loading, shape (item, slot)."""
        mask = np.zeros((self.n_items, self.width), bool)
        mask[self.item, self.slot] = True
        return mask

    @cached_property
    def ability_of_slot(self) -> NDArray[np.intp]:
        """Ability of each slot, shape (item, slot); 0 in empty slots."""
        abilities = np.zeros((self.n_items, self.width), np.intp)
        abilities[self.item, self.slot] = self.ability
        return abilities

    @cached_property
    def pairs(self) -> NDArray[np.intp]:
        """Pairs of abilities that some item needs together, the first not after the second."""
        needs = self.needs.astype(float)
        together = np.ones((self.n_abilities,) * 2) if self.rows is None else needs.T @ needs
        return np.array(np.nonzero(np.triu(together)))

    @cached_property
    def place_of_pair(self) -> NDArray[np.intp]:
        """Index of each pair of abilities in `pairs`; one after the last if it is not there."""
        positions = np.full((self.n_abilities,) * 2, self.pairs.shape[1])
        first, second = self.pairs
        positions[first, second] = positions[second, first] = np.arange(len(first))
        return positions

    def products(self, values: Float[Array, "row ability"]) -> Float[Array, "row pair"]:
        """Return the products of each pair of abilities."""
        return values[:, self.pairs[0]] * values[:, self.pairs[1]]

    def as_matrices(self, values: Float[Array, "row pair"]) -> Float[Array, "row ability ability"]:
        """Return values of pairs as symmetric matrices, 0 if no item needs both."""
        return jnp.pad(values, ((0, 0), (0, 1)))[:, self.place_of_pair]

    def own(self, values: Float[Array, "item ability"]) -> Float[Array, "item slot"]:
        """Return the values of each item's slots; 0 in empty slots."""
        if self.rows is None:
            return values
        slot_values = jnp.take_along_axis(values, jnp.asarray(self.ability_of_slot), 1)
        return jnp.where(self.filled, slot_values, 0)

    def own_pairs(self, values: Float[Array, "item pair"]) -> Float[Array, "item slot slot"]:
        """Return the values of each pair of an item's slots; 0 in empty slots."""
        if self.rows is None:
            return values[:, self.place_of_pair]
        abilities = self.ability_of_slot
        both = self.place_of_pair[abilities[:, :, None], abilities[:, None, :]]
        both = np.minimum(both, self.pairs.shape[1] - 1)
        pairs = jnp.take_along_axis(values, both.reshape(self.n_items, -1), 1).reshape(both.shape)
        return jnp.where(self.filled[:, :, None] & self.filled[:, None, :], pairs, 0)

    def in_slots(self, values: Float[Array, " loading"]) -> Float[Array, "item slot"]:
        """Return loadings in rows of slots; 0 in empty slots."""
        return jnp.zeros(self.filled.shape, values.dtype).at[self.item, self.slot].set(values)

    def slopes(self, slots: Float[Array, "item slot"]) -> Float[Array, "item ability"]:
        """Return slots as a matrix, with 0 for abilities that an item does not need."""
        if self.rows is None:
            return slots
        matrix = jnp.zeros((self.n_items, self.n_abilities), slots.dtype)
        return matrix.at[self.item, self.ability].set(slots[self.item, self.slot])
