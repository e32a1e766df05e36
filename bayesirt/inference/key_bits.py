"""Random keys as plain numbers that can be stored and sent."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def to_bits(leaf: Any) -> Any:
    """Return a key's bits; any other array is returned unchanged."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def from_bits(bits: Any, like: Any) -> Array:
    """Return the array with these bits, or the key if `like` is one."""
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(bits), impl=jax.random.key_impl(like))
    return jnp.asarray(bits)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)
