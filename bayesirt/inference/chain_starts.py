"""Starting points of chains: around a point estimate, spread by its standard errors."""

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.float64]]
Start = tuple[Arrays, Arrays]
"""Centre and width of each unconstrained site."""

LEAST_SE, MOST_SE = 1e-3, 1.0
LEAST_SLOPE = 0.05
SURE_SIGN = 0.15
"""Relative width of free slopes at the start, so small that all slopes start above zero."""
_LEAST_SIGMA, _SIGMA_WIDTH = 0.15, 0.5
_LEAST_SPREAD, _LEAN_SD = 0.15, 2.0


def usable(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return standard errors clipped to bounds; NaN becomes the largest."""
    return np.clip(np.nan_to_num(errors, nan=1.0), LEAST_SE, MOST_SE)


def place_population(
    start: Start, name: str, values: NDArray[np.float64], se: NDArray[np.float64]
) -> None:
    """Add the start of a site with a population, and of the population's μ and σ."""
    centre, width = start
    spread = max(float(values.std()), _LEAST_SIGMA)
    centre |= {
        name: values,
        f"mu_{name}": np.array(values.mean()),
        f"sigma_{name}": np.array(np.log(spread)),
    }
    width |= {
        name: se,
        f"mu_{name}": np.array(2 * spread / np.sqrt(len(values))),
        f"sigma_{name}": np.array(_SIGMA_WIDTH),
    }


def place_leaning(
    start: Start,
    name: str,
    values: NDArray[np.float64],
    se: NDArray[np.float64],
    lean: tuple[str, NDArray[np.float64]],
) -> None:
    """Add the start of a site whose prior mean is μ minus a hyperparameter times slopes."""
    lean_name, slope = lean
    residual, coefficient, coefficient_se = without_lean(slope, values)
    place_population(start, name, residual, se)
    start[0].update({name: values, lean_name: coefficient})
    start[1].update({lean_name: coefficient_se})


def without_lean(
    slope: NDArray[np.float64], intercept: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return intercepts without their regression on slopes, the coefficient μ_b, and its error.

    Slopes are a vector, or a matrix with a column for each ability.
    """
    centred = (slope - slope.mean(0)).reshape(len(slope), -1)
    noise = max(float(intercept.var()), _LEAST_SPREAD**2)
    precision = centred.T @ centred / noise + _LEAN_SD**-2 * np.eye(centred.shape[1])
    covariance, shape = np.linalg.inv(precision), slope.shape[1:]
    lean = -(covariance @ (centred.T @ intercept) / noise).reshape(shape)
    error = np.sqrt(np.diagonal(covariance)).reshape(shape)
    return intercept + np.dot(slope, lean), lean, error
