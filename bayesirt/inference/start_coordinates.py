"""Coordinates in which a posterior is about standard: its sites, counted from a start."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from bayesirt.inference.blocked import Position
from bayesirt.inference.two_pl_coordinates import Known, around_expected
from bayesirt.models import Line, ResponseModel


class Prior(Protocol):
    """What coordinates ask of a response model at its unconstrained sites."""

    @property
    def model(self) -> ResponseModel:
        """Return the model."""
        ...

    def centre(self, sites: Position, name: str) -> Array:
        """Return where the values of a site have their prior's centre."""
        ...

    def along(self, line: Line, sites: Position, t: Array) -> tuple[Position, Array]:
        """Return the place t along a line of the model, and the log Jacobian."""
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
        self, flat: Float[Array, " coordinate"], prior: Prior
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


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class FromMeans:
    """Coordinates in which items are described at the mean of the subjects, not at zero.

    Neither answers nor the items' prior see a level that all subjects share. Where it rises, items
    described at it stay where they are, and only the prior of subjects holds it: it moves in steps
    that are as wide.
    """

    around: Any  # Other coordinates, whose items are taken to be described at the mean.
    # By line, how much wider the prior leaves the mean of subjects than their own errors would.
    stretch: Mapping[str, Float[Array, "..."]]

    @classmethod
    def of(cls, around: Any, lines: Iterable[Line], width: Mapping[str, Any]) -> "FromMeans":
        """Take coordinates, a model's lines, and the subjects' errors in these coordinates."""
        levels = [line for line in lines if line.normal]
        return cls(around, {x.name: 1 / jnp.asarray(width[x.trait]).mean(0) for x in levels})

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.around.size

    def at(self, flat: Float[Array, " coordinate"], prior: Prior) -> tuple[Position, Array]:
        """Return the unconstrained sites, and the log Jacobian, to which this adds a constant."""
        sites, log_jacobian = self.around.at(flat, prior)
        levels, centred = [], sites
        for line in (line for line in prior.model.lines if line.name in self.stretch):
            level = centred[line.trait].mean(0)
            centred, _ = prior.along(line, centred, -level)
            levels.append((line, self.stretch[line.name] * level))
        subjects = {x: u for x, u in centred.items() if "subject" in prior.model.dims.get(x, ())}
        there = sites | subjects
        for line, level in levels:
            there, _ = prior.along(line, there, level)
        return there, log_jacobian
