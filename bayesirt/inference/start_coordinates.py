"""Coordinates in which a posterior is about standard: its sites, counted from a start."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from bayesirt.inference.blocked import Position
from bayesirt.inference.two_pl_coordinates import Known, around_expected


class Centred(Protocol):
    """A prior whose hierarchical sites ``x`` have a centre, and log ``sigma_x`` among the sites."""

    def centre(self, sites: Position, name: str) -> Array:
        """Return where the values of a site have their prior's centre."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class StartCoordinates:
    """Unconstrained sites, counted from a start in its widths.

    An item's value is counted from where its own responses and its population together put it, in
    units of what both leave open: that is round whether the population is tight or wide.
    """

    # Of all sites that are not items'.
    centre: Position
    width: Position
    known: dict[str, Known]  # The items' estimates, unconstrained, and their errors.

    @classmethod
    def of(cls, start: tuple[Mapping[str, Any], Mapping[str, Any]]) -> "StartCoordinates":
        """Take a start and its widths; sites with a μ and a σ of their own are items'."""
        centre, width = (jax.tree.map(jnp.asarray, dict(x)) for x in start)
        items = [x for x in centre if f"mu_{x}" in centre and f"sigma_{x}" in centre]
        known = {x: Known(centre.pop(x), width.pop(x)) for x in items}
        return cls(centre, width, known)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return ravel_pytree(self._start)[0].size

    def at(
        self, flat: Float[Array, " coordinate"], prior: Centred
    ) -> tuple[Position, Float[Array, ""]]:
        """Return the unconstrained sites, and the log Jacobian of the items'."""
        moved = ravel_pytree(self._start)[1](flat)
        sites = {k: self.centre[k] + self.width[k] * moved[k] for k in self.centre}
        log_jacobian = jnp.zeros(())
        sites |= {name: jnp.asarray(known.value) for name, known in self.known.items()}
        for name, known in self.known.items():
            population = prior.centre(sites, name), sites[f"sigma_{name}"]
            sites[name], log_scale = around_expected(moved[name], *population, known)
            log_jacobian += jnp.broadcast_to(log_scale, known.value.shape).sum()
        return sites, log_jacobian

    @property
    def _start(self) -> Position:
        return self.centre | {name: jnp.zeros_like(x.value) for name, x in self.known.items()}
