"""MIRT's unconstrained sites: their prior, and what no response sees of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.distributions import biject_to, constraints

from bayesirt.inference.blocked import Position
from bayesirt.inference.q_mirt_sites import Pattern
from bayesirt.inference.two_pl_sites import AnswersPrior
from bayesirt.models.mirt import MirtParameters, mirt_parameters

TO_PRECISION = biject_to(constraints.positive_definite)
"""From the site ``precision_a`` to Λ: NumPyro's own, so that both engines share their sites."""


@dataclass(frozen=True)
class MirtPrior(AnswersPrior):
    """MIRT without data, at unconstrained sites; an item's row is its slopes, then d."""

    def model(self, sites: Position) -> Callable[[], MirtParameters]:
        """Return the NumPyro model without data."""
        return partial(mirt_parameters, len(sites["theta"]), *sites["a"].shape)

    def coefficients(self, sites: Position, items: Array) -> Float[Array, "item dim"]:  # noqa: ARG002
        """Return (a, d) of each item."""
        return items

    def packed(self, sites: Position) -> Float[Array, "item dim"]:
        """Return slopes and intercepts side by side."""
        return jnp.concatenate([sites["a"], sites["d"][:, None]], 1)

    def unpacked(self, sites: Position, items: Float[Array, "item dim"]) -> Position:  # noqa: ARG002
        """Return the items' sites one by one."""
        return {"a": items[:, :-1], "d": items[:, -1]}

    def of_population(
        self, sites: Position
    ) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
        """Return centre and precision of the items' rows."""
        of_d = jnp.exp(-2 * sites["sigma_d"])
        precision = jax.scipy.linalg.block_diag(TO_PRECISION(sites["precision_a"]), of_d)
        return jnp.append(sites["mu_a"], sites["mu_d"]), precision


def whole_pattern(n_items: int, n_abilities: int) -> Pattern:
    """Return the pattern of items that need every ability."""
    return Pattern.of(np.ones((n_items, n_abilities), bool))


def levels_shifted(sites: Position, t: Float[Array, " direction"]) -> Position:
    """Return every ability's level moved with the intercepts that keep η, and μ_d too.

    Parameters
    ----------
    sites : dict of float arrays
    t : float array, shape (ability + 1,)
        How far the levels of the abilities and μ_d go.

    Returns
    -------
    dict of float arrays
    """
    return sites | {
        "theta": sites["theta"] + t[:-1],
        "d": sites["d"] - sites["a"] @ t[:-1],
        "mu_d": sites["mu_d"] + t[-1],
    }


def axes_changed(sites: Position, matrix: Float[Array, "ability ability"]) -> Position:
    """Return abilities by other axes, with slopes that keep η and their population moved along.

    Parameters
    ----------
    sites : dict of float arrays
    matrix : float array, shape (ability, ability)
        M: θ becomes M θ.

    Returns
    -------
    dict of float arrays
        With M⁻ᵀ a, M⁻ᵀ μ_a and M Λ Mᵀ.
    """
    back = jnp.linalg.inv(matrix)
    precision = matrix @ TO_PRECISION(sites["precision_a"]) @ matrix.T
    return sites | {
        "theta": sites["theta"] @ matrix.T,
        "a": sites["a"] @ back,
        "mu_a": sites["mu_a"] @ back,
        "precision_a": TO_PRECISION.inv(precision),
    }
