"""Multidimensional 2PL: items, beliefs about them and about abilities, and small matrices."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesirt.estimators.q_mirt_steps import Abilities

Unknown = Float[Array, "item parameter parameter"] | None
"""Covariance of each item's (a, d), where items are not taken as known."""

_FIRST_VARIANCE = 0.05


class Items(NamedTuple):
    """Parameters of the items.

    Attributes
    ----------
    a : float array, shape (item, ability)
        In logits per standard deviation of the population.
    d : float array, shape (item,)
    """

    a: Float[Array, "item ability"]
    d: Float[Array, " item"]

    @property
    def both(self) -> Float[Array, "item parameter"]:
        """Slopes, and d as the last parameter."""
        return jnp.concatenate([self.a, self.d[:, None]], 1)

    @classmethod
    def of(cls, both: Float[Array, "item parameter"]) -> "Items":
        """Return items from slopes with d as the last parameter."""
        return cls(both[:, :-1], both[:, -1])


class Normal(NamedTuple):
    """A normal population, of subjects' abilities or of items' parameters.

    Attributes
    ----------
    centre : float array, shape (k,)
    precision : float array, shape (k, k)
    """

    centre: Float[Array, " k"]
    precision: Float[Array, "k k"]


class Beliefs(NamedTuple):
    """Normal approximations to what is not known.

    Attributes
    ----------
    abilities : Abilities
    unknown : float array, shape (item, ability + 1, ability + 1)
        Covariance of each item's (a, d).
    """

    abilities: Abilities
    unknown: Float[Array, "item parameter parameter"]


def first_unknown(items: Items) -> Float[Array, "item parameter parameter"]:
    """Return covariances to start from."""
    size = items.a.shape[1] + 1
    own = np.eye(size, dtype=items.d.dtype) * _FIRST_VARIANCE
    return jnp.asarray(np.broadcast_to(own, (len(items.d), size, size)))


def pairs(x: Float[Array, "row k"], twice: float) -> Float[Array, "row pair"]:
    """Return products x_k x_l for l ≤ k, those of different places `twice`."""
    k, m = np.tril_indices(x.shape[1])
    return x[:, k] * x[:, m] * jnp.where(k == m, 1.0, twice).astype(x.dtype)


def packed(matrices: Float[Array, "row k k"]) -> Float[Array, "row pair"]:
    """Return the lower triangles of symmetric matrices."""
    k, m = np.tril_indices(matrices.shape[1])
    return matrices[:, k, m]


def twice_off_diagonal(matrices: Float[Array, "row k k"]) -> Float[Array, "row pair"]:
    """Return lower triangles whose products with `packed` ones are traces."""
    k, m = np.tril_indices(matrices.shape[1])
    return matrices[:, k, m] * jnp.where(k == m, 1.0, 2.0).astype(matrices.dtype)


def unpacked(values: Float[Array, "row pair"], size: int) -> Float[Array, "row k k"]:
    """Return symmetric matrices from their lower triangles."""
    k, m = np.tril_indices(size)
    place = np.zeros((size, size), np.intp)
    place[k, m] = place[m, k] = np.arange(len(k))
    return values[:, place]


def to_root(covariance: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Return the Cholesky factor with logarithms on the diagonal: any such matrix is one."""
    factor = jnp.linalg.cholesky(covariance)
    return jnp.tril(factor, -1) + jnp.diag(jnp.log(jnp.diag(factor)))


def from_root(root: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Return the covariance matrix that `to_root` had."""
    factor = jnp.tril(root, -1) + jnp.diag(jnp.exp(jnp.diag(root)))
    return factor @ factor.T
