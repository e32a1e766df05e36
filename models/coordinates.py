"""Coordinates in which the 2PL's posterior is round, and where a point estimate lies in them.

The likelihood does not see θ → s θ + c with a and d moved against it. In the model's own sites
these are two long curved ridges through all parameters, along which a sampler creeps. Here they
are two coordinates of their own: items are described at the abilities' present mean and spread,
weighted by how well each ability is known, and abilities, in units of their standard errors, are
rotated so that this mean and this spread are axes. Items that say little about themselves are
measured from their hierarchical mean, items that say much from zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.models.priors import Priors
from bayesirt.point_estimate import PointEstimate

Values = dict[str, Array]
Arrays = dict[str, NDArray[np.float64]]

_LEAST_SLOPE = 0.05
_FIXED_SIGMA_A = 0.5
_MOST_SPREAD = 3.0
_FEW_ITEMS = 10
_ALIKE = 0.5


@dataclass(frozen=True, eq=False)
class TwoPLCoordinates:
    """A change of variables from round coordinates to the model's unconstrained sites.

    Attributes
    ----------
    priors : Priors
    theta_se : float array, shape (subject,)
        Standard errors of the abilities.
    axes : float array, shape (2, subject)
        Householder vectors of the rotation of abilities.
    a_weight, d_weight : float array, shape (item,)
        How much of an item's slope and intercept is known from its own responses, from 0 to 1.
    centre : float array, shape (item,)
        Where on the scale of abilities the item's intercept is best known.
    start : dict
        The point estimate in these coordinates.
    scale : dict
        About one posterior standard deviation of each coordinate.
    """

    priors: Priors
    theta_se: NDArray[np.float64]
    axes: NDArray[np.float64]
    a_weight: NDArray[np.float64]
    d_weight: NDArray[np.float64]
    centre: NDArray[np.float64]
    start: Mapping[str, NDArray[np.float64]]
    scale: Mapping[str, NDArray[np.float64]]

    def to_sites(self, coordinates: Values) -> tuple[Values, Float[Array, ""]]:
        """Return the model's unconstrained sites and the log Jacobian.

        Parameters
        ----------
        coordinates : dict of float arrays

        Returns
        -------
        sites : dict of float arrays
        log_jacobian : float
        """
        rotated = _reflect(self.axes[0], _reflect(self.axes[1], coordinates["theta"]))
        theta = jnp.asarray(self.theta_se) * rotated
        mean, spread = _weighted_moments(theta, self.theta_se)
        log_spread = jnp.log(spread)
        sites, slope, mean_slope, log_jacobian = self._slopes(coordinates, log_spread)
        if self.priors.kind == "fixed":
            sites["b"] = mean + spread * coordinates["b"]
            log_jacobian += len(slope) * log_spread
        else:
            mu, log_sigma = coordinates["mu_d"], coordinates["sigma_d"]
            level = _centred(coordinates["d"], mu, log_sigma, self.d_weight)
            sites |= {
                "d": level - slope * (mean + spread * self.centre),
                "mu_d": mu - mean_slope * mean,
                "sigma_d": log_sigma,
            }
            log_jacobian += (1 - self.d_weight).sum() * log_sigma
        return sites | {"theta": theta}, log_jacobian

    def _slopes(self, coordinates: Values, log_spread: Array) -> tuple[Values, Array, Array, Array]:
        if self.priors.slopes == "rasch":
            one = jnp.ones(len(self.a_weight))
            return {}, one, one[0], jnp.zeros(())
        if self.priors.kind == "fixed":
            log_a = coordinates["a"] - log_spread
            return {"a": log_a}, jnp.exp(log_a), jnp.ones(()), jnp.zeros(())
        mu, log_sigma = coordinates["mu_a"], coordinates["sigma_a"]
        value = _centred(coordinates["a"], mu, log_sigma, self.a_weight)
        log_jacobian = (1 - self.a_weight).sum() * log_sigma
        if self.priors.slopes == "positive":
            log_a, mu_a = value - log_spread, mu - log_spread
            sites = {"a": log_a, "mu_a": mu_a, "sigma_a": log_sigma}
            return sites, jnp.exp(log_a), jnp.exp(mu_a), log_jacobian
        a, mu_a = value * jnp.exp(-log_spread), mu * jnp.exp(-log_spread)
        sites = {"a": a, "mu_a": mu_a, "sigma_a": log_sigma - log_spread}
        return sites, a, mu_a, log_jacobian - (len(a) + 1) * log_spread


def two_pl_coordinates(point: PointEstimate, priors: Priors) -> TwoPLCoordinates:
    """Return the coordinates around a point estimate.

    Parameters
    ----------
    point : PointEstimate
        With θ of mean 0 and standard deviation 1, and standard errors.
    priors : Priors

    Returns
    -------
    TwoPLCoordinates
    """
    theta, theta_se = point["theta"], np.clip(point["theta_se"], 1e-3, 1)
    if theta.std() < _ALIKE:  # equal abilities have no spread to measure items by
        theta = np.linspace(1, -1, len(theta))
    slope = np.maximum(np.nan_to_num(point["a"], nan=1.0), _LEAST_SLOPE)
    relative_se = np.clip(np.nan_to_num(point["a_se"], nan=1.0) / slope, 1e-3, _MOST_SPREAD)
    d_se = np.clip(np.nan_to_num(point["d_se"], nan=1.0), 1e-3, 2 * _MOST_SPREAD)
    if priors.slopes == "rasch":
        theta, theta_se = theta * slope.mean(), theta_se * slope.mean()
    start: Arrays = {}
    scale: Arrays = {}
    mean, spread = (float(m) for m in _weighted_moments(theta, theta_se))
    unit_slope = slope * spread
    if priors.slopes == "free":
        a_weight = _place(start, scale, "a", unit_slope, relative_se * unit_slope)
    else:
        a_weight = _place(start, scale, "a", np.log(unit_slope), relative_se)
    d_weight = _place(start, scale, "d", point["d"], d_se)
    centre = (point["theta_centre"] - mean) / spread
    level = d_weight * slope * point["theta_centre"]
    start["d"] = start["d"] + level / np.exp((1 - d_weight) * start["sigma_d"])
    if priors.kind == "fixed":
        start, scale = _fixed_items(unit_slope, relative_se, point["d"] + slope * mean, d_se)
    elif priors.slopes == "rasch":
        for name in ("a", "mu_a", "sigma_a"):
            del start[name], scale[name]
    whitened = theta / theta_se
    along_mean, along_spread = 1 / theta_se, (theta - mean) / theta_se
    axes = _axes_through(along_mean, along_spread)
    start["theta"] = np.asarray(_reflect(axes[1], _reflect(axes[0], whitened)))
    scale["theta"] = np.ones(len(theta))
    n = len(theta)
    scale["theta"][:2] = np.sqrt([along_mean @ along_mean / n, along_spread @ along_spread / 2 / n])
    return TwoPLCoordinates(priors, theta_se, axes, a_weight, d_weight, centre, start, scale)


def _place(
    start: Arrays,
    scale: Arrays,
    name: str,
    value: NDArray[np.float64],
    se: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Place item values and their hyperparameters by empirical Bayes; return the weights."""
    precision = 1 / se**2
    mu = np.average(value, weights=precision)
    excess = np.average((value - mu) ** 2 - se**2, weights=precision)
    sigma = np.sqrt(np.clip(excess, 0.15**2, _MOST_SPREAD**2))
    weight = sigma**2 / (sigma**2 + se**2) * len(value) ** 2 / (len(value) ** 2 + _FEW_ITEMS**2)
    shrunk = mu + weight * (value - mu)
    stretch = sigma ** (1 - weight)
    n = len(value)
    start |= {
        name: (shrunk - mu) / stretch + weight * mu,
        f"mu_{name}": np.array(mu),
        f"sigma_{name}": np.array(np.log(sigma)),
    }
    scale |= {
        name: np.sqrt(weight) * se / stretch,
        f"mu_{name}": np.array(np.sqrt(np.mean(sigma**2 + se**2) / n)),
        f"sigma_{name}": np.array(min(0.5, 1 / np.sqrt(2 * weight.sum()))),
    }
    return weight


def _fixed_items(
    slope: NDArray[np.float64],
    log_a_se: NDArray[np.float64],
    d: NDArray[np.float64],
    d_se: NDArray[np.float64],
) -> tuple[Arrays, Arrays]:
    weight = _FIXED_SIGMA_A**2 / (_FIXED_SIGMA_A**2 + log_a_se**2)
    log_a = weight * np.log(slope)
    a = np.exp(log_a)
    start = {"a": log_a, "b": np.clip(-d / a, -4, 4)}
    scale = {"a": np.sqrt(weight) * log_a_se, "b": np.clip(d_se / a, 1e-3, 2)}
    return start, scale


def _centred(decentred: Array, mu: Array, log_sigma: Array, weight: NDArray[np.float64]) -> Array:
    return mu + jnp.exp((1 - weight) * log_sigma) * (decentred - weight * mu)


def _weighted_moments(
    theta: Array | NDArray[np.float64], se: NDArray[np.float64]
) -> tuple[Array, Array]:
    weight = se**-2 / (se**-2).sum()
    mean = weight @ theta
    return mean, jnp.sqrt(weight @ (theta - mean) ** 2)


def _axes_through(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Householder vectors of the rotation that brings two directions to the first axes."""
    n = len(first)
    to_first = np.eye(n)[0] - first / np.linalg.norm(first)
    turned = np.asarray(_reflect(to_first, second / np.linalg.norm(second)))
    return np.stack([to_first, np.eye(n)[1] - turned])


def _reflect(axis: NDArray[np.float64], values: Array | NDArray[np.float64]) -> Array:
    length = axis @ axis
    return jnp.asarray(values - (2 / length * (axis @ values) * axis if length > 1e-20 else 0.0))
