"""Coordinates in which the 2PL's posterior is round, and where a point estimate lies in them.

The likelihood does not see θ → s θ + c with a and d moved against it. In the model's own sites
these are two long curved ridges through all parameters, along which a sampler creeps. Here they
are two coordinates of their own: items are described at the abilities' present mean and spread,
weighted by how well each ability is known, and abilities, in units of their standard errors, are
rotated so that this mean and this spread are axes. An item's value is measured from where its own
responses and its hierarchical mean together put it, in units of what both leave open; this is
round whether the hierarchy is tight or wide. Where items are few, each moves every ability, and
abilities are measured from where the present items put them. Where subjects are few, their spread
may be nil and is no unit: abilities are then measured in that of the population.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.estimators.registry import FEW_ITEMS
from bayesirt.inference.chain_starts import without_lean
from bayesirt.likelihood.families import LOGIT
from bayesirt.models.priors import Priors
from bayesirt.point_estimate import PointEstimate

Values = dict[str, Array]
Arrays = dict[str, NDArray[np.float64]]

FEW_SUBJECTS = 20
"""Below so many, subjects that lie together have no spread to measure items in."""

_LEAST_SLOPE = 0.05
_MOST_SPREAD = 3.0
_ALIKE = 0.5
_NOWHERE = 1e-20
_LEAST_SPREAD = 0.15
_NONE: Mapping[str, tuple[float, float]] = {}
_FIXED = {"a": (0.0, np.log(0.5)), "b": (0.0, np.log(2.0))}


class Known(NamedTuple):
    """What its own responses say about one parameter of each item."""

    # shape (item,). Estimate and standard error.
    value: NDArray[np.float64]
    se: NDArray[np.float64]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class TwoPLCoordinates:
    """A change of variables from round coordinates to the model's unconstrained sites."""

    priors: Priors = field(metadata={"static": True})
    # Whether items are described at the abilities' present mean and spread, or at 0 and 1.
    by_spread: bool = field(metadata={"static": True})
    theta_se: NDArray[np.float64]  # shape (subject,). Standard errors of the abilities.
    # shape (2, subject). Householder vectors of the rotation of abilities.
    axes: NDArray[np.float64]
    # By site, of items described at mean 0 and spread 1 of the abilities: a (in logs where slopes
    # are positive), and the level d at `centre`, or the difficulty b.
    known: Mapping[str, Known]
    # shape (item,). Where its level is taken, best known there: counted from the abilities' mean,
    # in spreads (Rasch: in units of θ).
    centre: NDArray[np.float64]
    # Slope at which the population of levels has its centre in a coordinate of its own.
    mean_slope: NDArray[np.float64]
    # shape (subject, item). By site, how abilities follow the item's value; empty where items are
    # many.
    lean: Mapping[str, NDArray[np.float64]]
    start: Mapping[str, NDArray[np.float64]]  # The point estimate in these coordinates.
    # About one posterior standard deviation of each coordinate.
    scale: Mapping[str, NDArray[np.float64]]

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return sum(np.size(x) for x in self.start.values())

    def at(self, flat: Array, _way: object) -> tuple[Values, Float[Array, ""]]:
        """Return the unconstrained sites at flat coordinates, and the log Jacobian."""
        centre, unravel = ravel_pytree(jax.tree.map(jnp.asarray, dict(self.start)))
        width, _ = ravel_pytree(jax.tree.map(jnp.asarray, dict(self.scale)))
        return self.to_sites(unravel(centre + width * flat))

    def to_sites(self, coordinates: Values) -> tuple[Values, Float[Array, ""]]:
        """Return the model's unconstrained sites and the log Jacobian."""
        values: Values = {}
        log_jacobian = jnp.zeros(())
        for name, known in self.known.items():
            mu, log_sigma = self._population(name, coordinates, values)
            values[name], log_scale = around_expected(coordinates[name], mu, log_sigma, known)
            log_jacobian += log_scale.sum()
        learned: Values = {}
        for name in (name for name in coordinates if f"mu_{name}" in coordinates):
            if name not in self.known:
                mu, log_sigma = coordinates[f"mu_{name}"], coordinates[f"sigma_{name}"]
                away = jnp.exp(log_sigma) * coordinates[name]
                learned |= {name: mu + away, f"mu_{name}": mu, f"sigma_{name}": log_sigma}
                log_jacobian += len(away) * log_sigma
        rotated = _reflect(self.axes[0], _reflect(self.axes[1], coordinates["theta"]))
        theta = jnp.asarray(self.theta_se) * rotated
        for name, lean in self.lean.items():
            theta += jnp.asarray(lean) @ (values[name] - self.known[name].value)
        mean, spread = jnp.zeros(()), jnp.ones(())
        if self.by_spread:
            mean, spread = _weighted_moments(theta, self.theta_se)
        log_spread = jnp.log(spread)
        n_items = len(self.centre)
        if self.priors.kind == "fixed":
            sites = {"a": values["a"] - log_spread, "b": mean + spread * values["b"]}
            return learned | sites | {"theta": theta}, log_jacobian + n_items * log_spread
        sites, slope = self._slopes(values, coordinates, log_spread)
        sites |= learned | {
            "theta": theta,
            "d": values["d"] - self._unit_slope(values) * self.centre - slope * mean,
            "sigma_d": coordinates["sigma_d"],
        }
        if self.priors.slopes == "rasch":
            return sites | {"mu_d": coordinates["mu_d"] - mean}, log_jacobian
        mu_b = coordinates["mu_b"]
        sites["mu_d"] = coordinates["mu_d"] + mu_b * self.mean_slope
        sites["mu_b"] = mean + spread * mu_b
        grown = 1 if self.priors.slopes == "positive" else -n_items
        return sites, log_jacobian + grown * log_spread

    def _population(self, name: str, coordinates: Values, values: Values) -> tuple[Array, Array]:
        """Return where a parameter is expected from the other items alone, and log how surely."""
        if self.priors.kind == "fixed":
            always, log_always = _FIXED[name]
            return jnp.asarray(always), jnp.asarray(log_always)
        mu, log_sigma = coordinates[f"mu_{name}"], coordinates[f"sigma_{name}"]
        if name == "d":
            slope = self._unit_slope(values)
            mu = mu + slope * self.centre
            if "mu_b" in coordinates:
                mu = mu - coordinates["mu_b"] * (slope - self.mean_slope)
        return mu, log_sigma

    def _unit_slope(self, values: Values) -> Array:
        """Return slopes where the abilities' spread is 1; Rasch items keep their own."""
        if self.priors.slopes == "rasch":
            return jnp.ones(len(self.centre))
        return values["a"] if self.priors.slopes == "free" else jnp.exp(values["a"])

    def _slopes(
        self, values: Values, coordinates: Values, log_spread: Array
    ) -> tuple[Values, Array]:
        """Return the sites of slopes, and the slopes."""
        if self.priors.slopes == "rasch":
            return {}, self._unit_slope(values)
        mu, log_sigma = coordinates["mu_a"], coordinates["sigma_a"]
        if self.priors.slopes == "positive":
            log_a, mu_a = values["a"] - log_spread, mu - log_spread
            sites = {"a": log_a, "mu_a": mu_a, "sigma_a": log_sigma}
            return sites, jnp.exp(log_a)
        a, mu_a = values["a"] * jnp.exp(-log_spread), mu * jnp.exp(-log_spread)
        return {"a": a, "mu_a": mu_a, "sigma_a": log_sigma - log_spread}, a


def two_pl_coordinates(
    point: PointEstimate,
    priors: Priors,
    responses: Responses,
    learned: Mapping[str, tuple[float, float]] = _NONE,
) -> TwoPLCoordinates:
    """Return the coordinates around a point estimate."""
    theta, theta_se, slope, relative_se, d, level_se, centre = _estimates(point, priors)
    by_spread = len(theta) >= FEW_SUBJECTS
    mean, spread = (float(m) for m in _weighted_moments(theta, theta_se)) if by_spread else (0, 1)
    unit = 1.0 if priors.slopes == "rasch" else spread
    of_slope = Known(slope * spread, slope * spread * relative_se)
    if priors.slopes != "free":
        of_slope = Known(np.log(slope * spread), relative_se)
    if priors.kind == "fixed":
        difficulty = np.clip((-d / slope - mean) / spread, -4, 4)
        known = {"b": Known(difficulty, np.clip(level_se / slope / spread, 1e-3, 2))}
    else:
        known = {"d": Known(d + slope * centre, level_se)}
    if priors.slopes != "rasch":
        known = {"a": of_slope} | known
    intercept, lean_start, lean_scale = d + slope * mean, {}, {}
    if "a" in known and "d" in known:
        intercept, *found = without_lean(slope * spread, intercept)
        intercept = intercept - found[0] * (slope * spread).mean()
        lean_start, lean_scale = ({"mu_b": x} for x in found)
    told = Known(intercept, np.hypot(level_se, slope * relative_se * (centre - mean)))
    start, scale = _empirical_bayes(known | {"d": told} if "d" in known else known, priors)
    start, scale = start | lean_start, scale | lean_scale
    lean: dict[str, NDArray[np.float64]] = {}
    axes = np.zeros((2, len(theta)))
    start["theta"], scale["theta"] = np.zeros(len(theta)), np.ones(len(theta))
    if by_spread:
        axes, scale["theta"][:2] = _axes_of_moments(theta, theta_se, mean)
        start["theta"] = np.asarray(_reflect(axes[1], _reflect(axes[0], theta / theta_se)))
    else:  # chains start all over the population, so that none keeps to one order of subjects
        theta_se = np.ones(len(theta))
    if by_spread and responses.n_items <= FEW_ITEMS:
        lean = _lean(responses, (theta, slope, d), centre, spread, known, priors)
        lean = {k: _without_moments(v, theta, theta_se, mean, spread) for k, v in lean.items()}
    for part, more in zip((start, scale), _of_further(learned, len(slope)), strict=True):
        part |= more
    centre_slope = (centre - mean) / unit, (slope * spread).mean()
    return TwoPLCoordinates(
        priors, by_spread, theta_se, axes, known, *centre_slope, lean, start, scale
    )


class _Estimates(NamedTuple):
    """A point estimate with errors within bounds; of Rasch items in units of θ."""

    # shape (subject,)
    theta: NDArray[np.float64]
    theta_se: NDArray[np.float64]
    # shape (item,). A level is that of an item at its centre, where it is best known.
    slope: NDArray[np.float64]
    relative_se: NDArray[np.float64]
    d: NDArray[np.float64]
    level_se: NDArray[np.float64]
    centre: NDArray[np.float64]


def _estimates(point: PointEstimate, priors: Priors) -> _Estimates:
    theta, theta_se = point["theta"], np.clip(point["theta_se"], 1e-3, 1)
    if theta.std() < _ALIKE * theta_se.mean():  # equal abilities have no spread to go by
        theta = np.linspace(1, -1, len(theta))
    slope = np.maximum(np.nan_to_num(point["a"], nan=1.0), _LEAST_SLOPE)
    a_se = np.nan_to_num(point["a_se"], nan=1.0)
    relative_se = np.clip(a_se / slope, 1e-3, _MOST_SPREAD)
    d, centre = point["d"], point["theta_centre"]
    level_variance = np.nan_to_num(point["d_se"], nan=1.0) ** 2 - (centre * a_se) ** 2
    level_se = np.sqrt(np.clip(level_variance, 1e-6, (2 * _MOST_SPREAD) ** 2))
    if priors.slopes == "rasch":
        average = slope.mean()
        theta, theta_se, centre = theta * average, theta_se * average, centre * average
        slope = np.ones(len(slope))
    return _Estimates(theta, theta_se, slope, relative_se, d, level_se, centre)


def _of_further(learned: Mapping[str, tuple[float, float]], n_items: int) -> tuple[Arrays, Arrays]:
    """Return start and scale of what items have beside slope and level, by its usual (μ, σ)."""
    start: Arrays = {}
    scale: Arrays = {}
    for name, (mu, sigma) in learned.items():
        start |= {f"mu_{name}": np.array(mu), f"sigma_{name}": np.array(np.log(sigma))}
        scale |= {f"mu_{name}": np.array(sigma), f"sigma_{name}": np.array(0.5)}
        start[name], scale[name] = np.zeros(n_items), np.ones(n_items)
    return start, scale


def around_expected(
    coordinate: Array, mu: Array, log_sigma: Array, known: Known
) -> tuple[Array, Array]:
    """Return values that a normal population and a normal estimate place, and log d value."""
    precision_here, precision_there = jnp.asarray(known.se**-2), jnp.exp(-2 * log_sigma)
    precision = precision_here + precision_there
    expected = (precision_here * known.value + precision_there * mu) / precision
    return expected + coordinate / jnp.sqrt(precision), -jnp.log(precision) / 2


def _empirical_bayes(known: Mapping[str, Known], priors: Priors) -> tuple[Arrays, Arrays]:
    """Return start and scale of the coordinates of items and of their population."""
    start: Arrays = {}
    scale: Arrays = {}
    for name, (value, se) in known.items():
        n = len(value)
        start[name], scale[name] = np.zeros(n), np.ones(n)
        if priors.kind == "fixed":
            continue
        mu = np.average(value, weights=se**-2)
        excess = np.average((value - mu) ** 2 - se**2, weights=se**-2)
        variance = np.clip(excess, _LEAST_SPREAD**2, _MOST_SPREAD**2)
        told = (variance / (variance + se**2)).sum()
        start |= {f"mu_{name}": np.array(mu), f"sigma_{name}": np.array(np.log(variance) / 2)}
        scale |= {
            f"mu_{name}": np.array(np.sqrt(np.mean(variance + se**2) / n)),
            f"sigma_{name}": np.array(min(0.5, 1 / np.sqrt(2 * told))),
        }
    return start, scale


def _lean(
    responses: Responses,
    point: tuple[NDArray[np.float64], ...],
    centre: NDArray[np.float64],
    spread: float,
    known: Mapping[str, Known],
    priors: Priors,
) -> Arrays:
    """Return d(mode of θ) / d(item's value): the mixed derivative over the curvature in θ."""
    theta, a, d = point
    eta = theta[:, None] * a + d
    _, score, weight = (np.asarray(x) for x in LOGIT.terms(eta, *responses.cells.matrices()))
    curvature = (weight * a**2).sum(1, keepdims=True) + 1
    fixed = priors.kind == "fixed"
    pivot = -d / a if fixed else centre
    on_slope = (score * a - weight * a**2 * (theta[:, None] - pivot)) / curvature
    if priors.slopes == "free":
        on_slope = on_slope / known["a"].value
    on_level = (weight * a**2 * spread if fixed else -weight * a) / curvature
    leans = {"a": on_slope, "b": on_level, "d": on_level}
    return {name: leans[name] for name in known}


def _without_moments(
    lean: NDArray[np.float64],
    theta: NDArray[np.float64],
    se: NDArray[np.float64],
    mean: float,
    spread: float,
) -> NDArray[np.float64]:
    """Return the part of a lean that leaves the abilities' mean and spread as they are."""
    weight = se**-2 / (se**-2).sum()
    away = (theta - mean) / spread
    return lean - weight @ lean - np.outer(away, (weight * away) @ lean)


def _weighted_moments(
    theta: Array | NDArray[np.float64], se: NDArray[np.float64]
) -> tuple[Array, Array]:
    weight = se**-2 / (se**-2).sum()
    mean = weight @ theta
    return mean, jnp.sqrt(weight @ (theta - mean) ** 2)


def _axes_of_moments(
    theta: NDArray[np.float64], se: NDArray[np.float64], mean: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rotation that makes mean and spread the first two axes, and their scales."""
    along_mean, along_spread = 1 / se, (theta - mean) / se
    n = len(theta)
    scales = np.sqrt([along_mean @ along_mean / n, along_spread @ along_spread / 2 / n])
    return _axes_through(along_mean, along_spread), scales


def _axes_through(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Householder vectors of the rotation that brings two directions to the first axes."""
    n = len(first)
    to_first = np.eye(n)[0] - first / np.linalg.norm(first)
    turned = np.asarray(_reflect(to_first, second / np.linalg.norm(second)))
    return np.stack([to_first, np.eye(n)[1] - turned])


def _reflect(axis: NDArray[np.float64], values: Array | NDArray[np.float64]) -> Array:
    length = axis @ axis
    share = jnp.where(length > _NOWHERE, 2 / jnp.maximum(length, _NOWHERE), 0)
    return jnp.asarray(values - share * (axis @ values) * axis)
