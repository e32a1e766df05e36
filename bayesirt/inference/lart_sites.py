"""LaRT's unconstrained sites: their prior density, and lines that no response or length sees."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from bayesirt.inference.blocked import Position
from bayesirt.inference.two_pl_sites import AnswersPrior
from bayesirt.models.lart import LaRTParameters, lart_parameters

HIERARCHICAL = ("a", "d", "phi", "omega", "lam", "delta")
"""Sites of items that have a μ and a σ of their own; that of λ is its logarithm.

δ is there only where wrong answers have lengths of their own."""


class Lengths(NamedTuple):
    """An item's parameters of length, constrained.

    Attributes
    ----------
    phi, omega, lam : float array, shape (item,)
    """

    phi: Array
    omega: Array
    lam: Array


def lengths_of(values: Position) -> Lengths:
    """Return the items' parameters of length from the model's values."""
    return Lengths(values["phi"], values["omega"], values["lam"])


@dataclass(frozen=True)
class LaRTPrior(AnswersPrior):
    """LaRT without data, at unconstrained sites."""

    def model(self, sites: Position) -> Callable[[], LaRTParameters]:
        """Return the NumPyro model without data."""
        sizes, wrong_lengths = (len(sites["theta"]), len(sites["a"])), "delta" in sites
        return partial(lart_parameters, *sizes, wrong_lengths=wrong_lengths)


def ability_shifted(prior: LaRTPrior, sites: Position, t: Array) -> tuple[Position, Array]:
    """Return θ + t and τ + ρ t with everything moved that keeps η and the lengths' means.

    Notes
    -----
    So far as ρ tells, speeds follow abilities, so that their prior hardly resists. The items'
    mean intercept and mean intensity go along with the items.
    """
    rho = prior.terms(sites).values["rho"]
    moved, _ = speed_shifted(prior, sites, rho * t)
    moved |= {
        "theta": sites["theta"] + t,
        "d": sites["d"] - sites["a"] * t,
        "mu_d": sites["mu_d"] - sites["a"].mean() * t,
    }
    return moved, jnp.zeros_like(t)


def speed_shifted(prior: LaRTPrior, sites: Position, t: Array) -> tuple[Position, Array]:  # noqa: ARG001
    """Return τ + t with everything moved that keeps the lengths' means."""
    moved = {
        "tau": sites["tau"] + t,
        "omega": sites["omega"] + sites["phi"] * t,
        "mu_omega": sites["mu_omega"] + sites["phi"].mean() * t,
    }
    return sites | moved, jnp.zeros_like(t)


def ability_scaled(prior: LaRTPrior, sites: Position, t: Array) -> tuple[Position, Array]:  # noqa: ARG001
    """Return eᵗ θ with the slopes and their population moved against it, and the log Jacobian."""
    return _scaled(sites, "theta", "a", t)


def speed_scaled(prior: LaRTPrior, sites: Position, t: Array) -> tuple[Position, Array]:  # noqa: ARG001
    """Return eᵗ τ with φ and its population moved against it, and the log Jacobian."""
    return _scaled(sites, "tau", "phi", t)


def _scaled(sites: Position, trait: str, slope: str, t: Array) -> tuple[Position, Array]:
    moved = {
        trait: jnp.exp(t) * sites[trait],
        slope: jnp.exp(-t) * sites[slope],
        f"mu_{slope}": jnp.exp(-t) * sites[f"mu_{slope}"],
        f"sigma_{slope}": sites[f"sigma_{slope}"] - t,
    }
    return sites | moved, (len(sites[trait]) - len(sites[slope]) - 1) * t
