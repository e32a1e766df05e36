"""Standard errors of each block with the others treated as known."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesirt.estimators.cell_sums import CellSums
from bayesirt.estimators.weak_prior import WeakPrior

Floats = NDArray[np.float64]


class BlockErrors(NamedTuple):
    """Standard errors from each block's own information."""

    theta: Floats  # shape (subject,). Standard error of the ability, given the items.
    # shape (item,). Standard errors of an item's parameters, given the abilities.
    a: Floats
    d: Floats
    # shape (item,). -cov(a, d) / var a: the ability at which the item is most informative.
    theta_centre: Floats


def pair_errors(aa: Floats, ad: Floats, dd: Floats) -> tuple[Floats, Floats, Floats]:
    """Return errors of a and of d, and `theta_centre`, from the information of both."""
    determinant = aa * dd - ad**2
    return np.sqrt(dd / determinant), np.sqrt(aa / determinant), ad / dd


def block_errors(sums: CellSums, prior: WeakPrior) -> BlockErrors:
    """Return standard errors from sums at an estimate; they are lower bounds.

    Without information and prior they are infinite or NaN.
    """
    of_theta, aa, ad, dd = (
        np.asarray(x, np.float64) for x in (sums.theta_information, sums.aa, sums.ad, sums.dd)
    )
    aa, dd = aa + prior.a_precision, dd + prior.d_precision
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = 1 / np.sqrt(of_theta + prior.theta_precision)
        return BlockErrors(theta, *pair_errors(aa, ad, dd))
