"""The Q-matrix model's unconstrained sites: their prior, and what no response sees of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.inference.block_steps import Chance, chance_for
from bayesirt.inference.blocked import Position
from bayesirt.inference.two_pl_sites import AnswersPrior
from bayesirt.models.q_mirt import QMirtParameters, Structure, q_mirt_parameters


@dataclass(frozen=True)
class Pattern:
    """Which abilities each item needs, in rows that are as long as the longest.

    Attributes
    ----------
    needed : tuple of tuples of int
        The abilities that each item needs, ascending.
    n_abilities : int
    """

    needed: tuple[tuple[int, ...], ...]
    n_abilities: int

    @classmethod
    def of(cls, needs: NDArray[np.bool_]) -> "Pattern":
        """Take the pattern of a Q-matrix, shape (item, ability)."""
        return cls(tuple(tuple(map(int, np.flatnonzero(row))) for row in needs), needs.shape[1])

    @cached_property
    def needs(self) -> NDArray[np.bool_]:
        """The Q-matrix, shape (item, ability)."""
        matrix = np.zeros((len(self.needed), self.n_abilities), bool)
        matrix[self.item, self.ability] = True
        return matrix

    @cached_property
    def item(self) -> NDArray[np.intp]:
        """Position of the item of each loading."""
        return np.repeat(np.arange(len(self.needed)), [len(row) for row in self.needed])

    @cached_property
    def ability(self) -> NDArray[np.intp]:
        """Position of the ability of each loading."""
        return np.array([k for row in self.needed for k in row], np.intp)

    @cached_property
    def slot(self) -> NDArray[np.intp]:
        """Place of each loading in the row of its item."""
        return np.array([s for row in self.needed for s in range(len(row))], np.intp)

    @cached_property
    def width(self) -> int:
        """Abilities that the most demanding item needs."""
        return max(map(len, self.needed))

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """Whether a slot holds a loading, shape (item, slot)."""
        found = np.zeros((len(self.needed), self.width), bool)
        found[self.item, self.slot] = True
        return found

    @cached_property
    def ability_of_slot(self) -> NDArray[np.intp]:
        """Ability of each slot, shape (item, slot); 0 where there is none."""
        found = np.zeros((len(self.needed), self.width), np.intp)
        found[self.item, self.slot] = self.ability
        return found

    def in_slots(self, values: Float[Array, " loading"]) -> Float[Array, "item slot"]:
        """Lay loadings out in rows, with 0 where there is none."""
        return jnp.zeros(self.filled.shape, values.dtype).at[self.item, self.slot].set(values)

    def slopes(self, a: Float[Array, " loading"]) -> Float[Array, "item ability"]:
        """Return discriminations as a matrix, with 0 for abilities that an item does not need."""
        return jnp.zeros(self.needs.shape, a.dtype).at[self.item, self.ability].set(a)


@dataclass(frozen=True)
class QMirtPrior(AnswersPrior):
    """The Q-matrix model without data, at unconstrained sites.

    An item's row is its log discriminations in slots, then its intercept.

    Attributes
    ----------
    pattern : Pattern
    structure : {"correlated", "general", "independent"}
    """

    pattern: Pattern
    structure: Structure

    def model(self, sites: Position) -> Callable[[], QMirtParameters]:
        """Return the NumPyro model without data."""
        sizes = len(sites["theta"]), self.pattern.needs
        return partial(q_mirt_parameters, *sizes, self.structure)

    def correlation(self, sites: Position) -> Float[Array, "ability ability"]:
        """Return Ω."""
        identity = jnp.eye(self.pattern.n_abilities, dtype=sites["d"].dtype)
        return self.terms(sites).values.get("correlation", identity)

    def of_theta(self, sites: Position, theta: Array, *_own: Array) -> Float[Array, " subject"]:
        """Return the log prior density of each of any number of subjects."""
        return self.terms(sites | {"theta": theta}).each["theta"]

    def of_items(self, sites: Position, items: Array) -> Float[Array, " item"]:
        """Return the log prior density of each item, given the hyperparameters."""
        own = self.terms(sites | self.unpacked(sites, items)).each
        return self.pattern.in_slots(own["a"]).sum(1) + own["d"]

    def coefficients(self, sites: Position, items: Array) -> Float[Array, "item dim"]:  # noqa: ARG002
        """Return the discriminations in slots, 0 where there is none, and d of each item."""
        slopes = jnp.where(self.pattern.filled, jnp.exp(items[:, :-1]), 0)
        return jnp.concatenate([slopes, items[:, -1:]], 1)

    def packed(self, sites: Position) -> Float[Array, "item dim"]:
        """Return log discriminations in slots, 0 where there is none, and intercepts."""
        return jnp.concatenate([self.pattern.in_slots(sites["a"]), sites["d"][:, None]], 1)

    def unpacked(self, sites: Position, items: Float[Array, "item dim"]) -> Position:  # noqa: ARG002
        """Return the items' sites one by one."""
        return {"a": items[self.pattern.item, self.pattern.slot], "d": items[:, -1]}

    def chance(self, key: Array, items: Float[Array, "item dim"]) -> Chance:
        """Draw the random numbers of one step of all items; slots without a loading stay put."""
        drawn = chance_for(key, items)
        free = np.column_stack([self.pattern.filled, np.ones(len(items), bool)])
        return drawn._replace(noise=jnp.where(free, drawn.noise, 0))

    def centre(self, sites: Position, name: str) -> Array:
        """Return where the values of a site have their prior's centre."""
        if name == "beta":
            return jnp.zeros(())
        centre = sites[f"mu_{name}"]
        if name == "d":
            centre = centre + jnp.asarray(self.pattern.needs, centre.dtype) @ sites["beta"]
        return centre


def levels_shifted(pattern: Pattern, sites: Position, t: Float[Array, " direction"]) -> Position:
    """Return every ability's level moved with everything that keeps η, and the items' centre too.

    Parameters
    ----------
    pattern : Pattern
    sites : dict of float arrays
    t : float array, shape (2 abilities + 1,)
        How far the levels of the abilities, β and μ_d go. The intercepts follow the levels.

    Returns
    -------
    dict of float arrays
    """
    by_ability, by_beta, by_mean = jnp.split(t, [pattern.n_abilities, 2 * pattern.n_abilities])
    slopes = pattern.slopes(jnp.exp(sites["a"]))
    return sites | {
        "theta": sites["theta"] + by_ability,
        "d": sites["d"] - slopes @ by_ability,
        "beta": sites["beta"] + by_beta,
        "mu_d": sites["mu_d"] + by_mean[0],
    }


def scales_stretched(
    pattern: Pattern, sites: Position, t: Float[Array, " direction"]
) -> tuple[Position, Array]:
    """Return every ability's spread changed with what keeps η, and the log Jacobian.

    Parameters
    ----------
    pattern : Pattern
    sites : dict of float arrays
    t : float array, shape (abilities + 1,)
        Logarithms of the factors of the abilities, and how far μ_a goes.

    Returns
    -------
    sites : dict of float arrays
    log_jacobian : float
    """
    by_ability, by_mean = t[:-1], t[-1]
    moved = {
        "theta": sites["theta"] * jnp.exp(by_ability),
        "a": sites["a"] - by_ability[pattern.ability],
        "mu_a": sites["mu_a"] + by_mean,
    }
    return sites | moved, len(sites["theta"]) * by_ability.sum()


def correlation_site(sites: Position) -> str | None:
    """Return the name of the site that holds the correlations, if there is one."""
    return next((name for name in ("root", "gamma") if name in sites), None)


def pairs_needed(pattern: Pattern) -> NDArray[np.intp]:
    """Return the pairs of abilities, the first not after the second, that some item needs both of.

    Parameters
    ----------
    pattern : Pattern

    Returns
    -------
    int array, shape (2, pair)
    """
    needs = pattern.needs.astype(float)
    return np.array(np.nonzero(np.triu(needs.T @ needs)))
