"""Spectral estimate: the 2PL by two singular value decompositions, without iterations."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds
from scipy.special import logit, ndtri

from bayesirt.data.cells import Cells, SparseCells
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.cell_sums import cell_sums
from bayesirt.estimators.parameter_table import parameter_table
from bayesirt.estimators.standard_errors import block_errors
from bayesirt.estimators.weak_prior import WeakPrior
from bayesirt.likelihood.cell_sums import layout_of
from bayesirt.likelihood.families import family_named
from bayesirt.point_estimate import PointEstimate

MOST_CELLS = 1 << 28
"""Maximum number of cells, observed or not, of the matrix of probabilities."""

_ABOVE_NOISE = 1.01
_LEAST_COMPONENTS = 2
_WHOLE_UP_TO = 64
_ALIKE = 1e-6
"""Predictors of an item that differ by less than this are equal except for rounding."""

Floats = NDArray[np.float64]
_PREDICTORS: dict[str, Callable[..., Floats]] = {"logit": logit, "probit": ndtri}
_SUMS = jax.jit(cell_sums, static_argnums=1)


class Components(NamedTuple):
    """Leading singular triples, largest first."""

    left: Floats  # shape (subject, component)
    strength: Floats  # shape (component,)
    right: Floats  # shape (component, item)


def fit_spectral(
    responses: Responses,
    *,
    clip: float = 0.02,
    slopes: Literal["positive", "free"] = "positive",
    link: Literal["logit", "probit"] = "logit",
) -> PointEstimate:
    """Estimate the 2PL from the leading singular vectors of the responses.

    Parameters
    ----------
    responses : Responses
    clip : float
        Estimated probabilities are clipped to [clip, 1 - clip] before the link is applied. Xu et
        al. (2026) use 1e-9, with which a few extreme cells dominate the estimate.
    slopes : {"positive", "free"}
        Whether an item that contradicts the others gets a = 0 or a negative slope.
    link : {"logit", "probit"}
        Link that determines the units of a and d.

    Returns
    -------
    PointEstimate
        θ has mean 0 and standard deviation 1. Standard errors are computed as in cBMM by default,
        from the information at the estimate with `WeakPrior`, with the other side treated as known
        and no information lost. They are too small by some 10 to 30%.

    Raises
    ------
    ValueError
        If `clip` is not between 0 and 0.5.
    ResponseError
        If there are more than 2²⁸ cells, observed or not.

    Notes
    -----
    The matrix of proportions correct, with zeros in missing cells, is reduced to the singular
    values above 1.01 √max(N, J), which noise in [0, 1] does not reach for any coverage, and at
    least two. The result is divided by the coverage, clipped, and transformed to the linear
    predictor. Its column means are d, and the leading singular pair of the rest is θ and a. A
    cell's coverage is the product of its row's and its column's, divided by the overall coverage.
    If subjects left out whole groups of items, the estimate is biased and suitable only as a start.

    References
    ----------
    Xu et al. (2026), Algorithm 2; Zhang, Chen & Li 2020.

    Examples
    --------
    >>> import numpy as np
    >>> answers = np.tri(6, 5)
    >>> fit_spectral(Responses.from_arrays(answers))["theta"].argmax()
    np.int64(4)
    """
    if not 0 < clip < 0.5:
        raise ValueError(f"`clip` must be between 0 and 0.5, got {clip}")
    _refuse_too_large(responses)
    n_components, eta = _predictor(responses.cells, clip, _PREDICTORS[link])
    theta, a, d = _leading_factor(eta)
    if slopes == "positive":
        a = np.maximum(a, 0)
    sums = _SUMS(layout_of(responses), family_named(link), *map(jnp.asarray, (theta, a, d)))
    loss = float(sums.subject_loss.sum())
    settings = {
        "estimator": "spectral",
        "theta_scale": "sample",
        "clip": clip,
        "slopes": slopes,
        "link": link,
        "components": n_components,
    }
    errors = block_errors(sums, WeakPrior())
    parameters = parameter_table(responses, (theta, a, d), errors[:3], errors.theta_centre)
    reason = "singular value decompositions, nothing to iterate"
    return PointEstimate(parameters, -loss, 0, True, reason, np.array([loss]), settings)


def _refuse_too_large(responses: Responses) -> None:
    size = responses.n_subjects * responses.n_items
    if size > MOST_CELLS:
        raise ResponseError(
            f"the spectral estimate needs the whole matrix, and {responses.n_subjects:,} subjects "
            f"x {responses.n_items:,} items are more than {MOST_CELLS:,} cells; use cbmm"
        )


def _predictor(cells: Cells, clip: float, link: Callable[..., Floats]) -> tuple[int, Floats]:
    """Return the number of components above noise, and the predictors, shape (subject, item)."""
    shape = cells.shape
    left, strength, right = _above(_shares_right(cells), _ABOVE_NOISE * np.sqrt(max(shape)))
    p = (left * strength) @ right
    by_subject, by_item = (cells.totals(axis).observed / shape[axis] for axis in (1, 0))
    for row, share in zip(p, by_subject / by_subject.mean(), strict=True):
        row /= np.minimum(share * by_item, 1)
    np.clip(p, clip, 1 - clip, out=p)
    return len(strength), link(p, out=p)


def _shares_right(cells: Cells) -> Floats | csr_array:
    """Return proportions correct, 0 in missing cells, dense or sparse as the cells are."""
    subject, item, successes, trials = cells.listed()
    shares = csr_array((successes / trials, (subject, item)), shape=cells.shape)
    return shares if isinstance(cells, SparseCells) else shares.toarray()


def _above(matrix: Floats | csr_array, threshold: float) -> Components:
    """Return the components with singular values of at least the threshold, and at least two."""
    count = 4 * _LEAST_COMPONENTS
    triples = leading_components(matrix, count)
    while triples.strength[-1] >= threshold and len(triples.strength) == count:
        count *= 2
        triples = leading_components(matrix, count)
    keep = max(_LEAST_COMPONENTS, int((triples.strength >= threshold).sum()))
    return Components(triples.left[:, :keep], triples.strength[:keep], triples.right[:keep])


def leading_components(matrix: Floats | csr_array, count: int) -> Components:
    """Return the `count` leading singular triples, or all if there are fewer."""
    shorter = min(matrix.shape)
    if shorter <= max(_WHOLE_UP_TO, 2 * count):
        dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
        left, strength, right = np.linalg.svd(dense, full_matrices=False)
        return Components(left[:, :count], strength[:count], right[:count])
    start = np.random.default_rng(0).normal(size=shorter)
    left, strength, right = svds(matrix, k=count, v0=start)
    order = np.argsort(-strength)
    return Components(left[:, order], strength[order], right[order])


def _leading_factor(eta: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (θ, a, d) from predictors, which are overwritten."""
    n, d = len(eta), eta.mean(0)
    eta -= d
    if np.abs(eta).max() <= _ALIKE:
        return np.zeros(n), np.zeros(len(d)), d
    left, strength, right = leading_components(eta, 1)
    sign = 1.0 if right.sum() >= 0 else -1.0
    theta, a = sign * np.sqrt(n) * left[:, 0], sign * strength[0] * right[0] / np.sqrt(n)
    return theta, a, d
