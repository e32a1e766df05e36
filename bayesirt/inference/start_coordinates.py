"""Coordinates in which a posterior is roughly standard normal, relative to a start."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from bayesirt.inference.blocked import Position
from bayesirt.inference.chain_starts import Start
from bayesirt.models import Line, ResponseModel

FEW_SUBJECTS = 20
"""Least number of subjects for which their spread sets the unit of items."""

_ALIKE = 0.5
"""Abilities whose spread is below this multiple of their errors count as equal."""


class Known(NamedTuple):
    """Estimate of one parameter of each item from its own responses."""

    # shape (item,). Estimate and standard error.
    value: Array
    se: Array


class Prior(Protocol):
    """The interface of a response model that coordinates need."""

    @property
    def model(self) -> ResponseModel:
        """Return the model."""
        ...

    def centre(self, sites: Position, name: str) -> Array:
        """Return the prior centre of a site's values."""
        ...

    def along(self, line: Line, sites: Position, t: Array) -> tuple[Position, Array]:
        """Move by t along a line of the model; return the sites and the log Jacobian."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class StartCoordinates:
    """Unconstrained sites, relative to a start and in units of its widths.

    An item's value is relative to its expectation given its own responses and its population, in
    units of the corresponding standard deviation. So the posterior is round whether the population
    is narrow or wide.
    """

    # Of all sites except those of items.
    centre: Position
    width: Position
    known: dict[str, Known]  # The items' estimates, unconstrained, and their errors.

    @classmethod
    def of(
        cls, start: tuple[Mapping[str, Any], Mapping[str, Any]], unsure: Iterable[str] = ()
    ) -> "StartCoordinates":
        """Build coordinates from a start and its widths; sites with a μ and a σ are items'.

        An item's own responses are hardly informative about the sites in `unsure`.
        """
        centre, width = (jax.tree.map(jnp.asarray, dict(x)) for x in start)
        items = [x for x in centre if f"mu_{x}" in centre and f"sigma_{x}" in centre]
        known = {x: Known(centre.pop(x), width.pop(x)) for x in items}
        known |= {x: Known(known[x].value, jnp.inf * known[x].se) for x in unsure if x in known}
        for name, of_items in known.items():
            variance = jnp.exp(2 * centre[f"sigma_{name}"])
            n_informed = (variance / (variance + of_items.se**2)).sum()
            width[f"sigma_{name}"] = jnp.minimum(width[f"sigma_{name}"], (2 * n_informed) ** -0.5)
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


def around_expected(
    coordinate: Array, mu: Array, log_sigma: Array, known: Known
) -> tuple[Array, Array]:
    """Return values given a normal population and a normal estimate, and the log Jacobian."""
    precision_here, precision_there = jnp.asarray(known.se) ** -2, jnp.exp(-2 * log_sigma)
    precision = precision_here + precision_there
    expected = (precision_here * known.value + precision_there * mu) / precision
    return expected + coordinate / jnp.sqrt(precision), -jnp.log(precision) / 2


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class FromMoments:
    """Coordinates in which items are relative to the mean and spread of subjects, not to 0 and 1.

    Likelihood and items' prior do not depend on the level and unit that all subjects share. If
    level or unit change, items in these coordinates stay fixed; only the subjects' prior limits
    the change, so these coordinates are scaled by the width that it allows.
    """

    around: Any  # Other coordinates, whose items are taken as relative to the moments.
    # By line, the width of a moment of subjects under the prior relative to their errors, and the
    # origin of a log spread. Lines that are missing here are not used.
    stretch: Mapping[str, Float[Array, "..."]]
    start: Mapping[str, Float[Array, ""]]

    @classmethod
    def of(cls, around: Any, lines: Iterable[Line], start: Start) -> "FromMoments":
        """Build from coordinates, a model's lines, and the subjects' start in these coordinates."""
        stretch, spreads = {}, {}
        for line in lines:
            values, error = (jnp.asarray(x[line.trait]) for x in start)
            if line.normal:
                stretch[line.name] = 1 / error.mean(0)
            elif len(values) >= FEW_SUBJECTS and values.std() > _ALIKE * error.mean():
                stretch[line.name] = values.std() / error.mean() / jnp.sqrt(2)
                spreads[line.name] = jnp.log(values.std())
        return cls(around, stretch, spreads)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.around.size

    def at(self, flat: Float[Array, " coordinate"], prior: Prior) -> tuple[Position, Array]:
        """Return the unconstrained sites, and the log Jacobian up to a constant."""
        sites, log_jacobian = self.around.at(flat, prior)
        lines = [line for line in prior.model.lines if line.name in self.stretch]
        levels, centred = [], sites
        for line in (line for line in lines if line.normal):
            level = centred[line.trait].mean(0)
            centred, _ = prior.along(line, centred, -level)
            levels.append((line, self.stretch[line.name] * level))
        subjects = {x: u for x, u in centred.items() if "subject" in prior.model.dims.get(x, ())}
        new_sites = sites | subjects
        for line in (line for line in lines if not line.normal):
            values, more = new_sites[line.trait], self.stretch[line.name] - 1
            wider = jnp.log(values.std()) - self.start[line.name]
            new_sites |= {line.trait: values * jnp.exp(-wider)}
            new_sites, grown = prior.along(line, new_sites, (1 + more) * wider)
            log_jacobian += grown - (wider + more * wider) * len(values)
            log_jacobian += (len(values) - 1) * more * wider
        for line, level in levels:
            new_sites, _ = prior.along(line, new_sites, level)
        return new_sites, log_jacobian
