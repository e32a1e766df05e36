"""The estimators and posteriors that the cBMM study compares."""

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.estimators.joint_map import fit_joint_map
from bayesirt.estimators.marginal import fit_marginal
from bayesirt.inference.laplace import ApproximationWarning, sample_laplace
from bayesirt.inference.options import RunOptions
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import Priors, TwoPL
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.studies.fits import quietly, timed

POINT_METHODS = {
    "mm": "cBMM, MM steps (the paper's)",
    "newton": "cBMM, Newton steps",
    "joint_map": "joint MAP",
    "mml": "MML",
}

SLOW = frozenset({"mml"})
MOST_ITEMS_OF_MML = 2000
"""The errors of MML need a matrix of 2 J rows to be taken apart."""

POSTERIORS = ("laplace positive", "laplace free", "blocked positive", "blocked free")
"""Engine and kind of slopes."""

_CHAINS, _WARMUP, _DRAWS = 2, 200, 250


class Fit(NamedTuple):
    """A point estimate on the paper's scale."""

    theta: NDArray[np.float64]  # shape (subject,), Mean 0, standard deviation 1.
    a: NDArray[np.float64]  # shape (item,), In units of η.
    d: NDArray[np.float64]  # shape (item,), In units of η.
    seconds: float  # Without compilation.
    point: PointEstimate


def methods_for(n_items: int, slow: bool) -> list[str]:
    """Return the point estimators for a size."""
    small = n_items <= MOST_ITEMS_OF_MML
    return [name for name in POINT_METHODS if name not in SLOW or (slow and small)]


def fit_timed(name: str, responses: Responses, *, key: Array, temperature: float = 1.0) -> Fit:
    """Fit by one of `POINT_METHODS`; compile first, then measure the time."""
    fit = _fitters(key, temperature)[name]
    _compile(name, responses.cells.shape)
    point, seconds = timed(partial(fit, responses))
    unit = 1.0 if name in ("mm", "newton") else temperature
    parts = (point["theta"], unit * point["a"], unit * point["d"])
    return Fit(*on_sample_scale(*parts), seconds, point)


@cache
def _compile(name: str, shape: tuple[int, int]) -> None:
    """Fit any responses of a shape once in this process, so that no later fit has to compile."""
    answers = np.random.default_rng(0).integers(0, 2, shape)
    fit = _fitters(jax.random.key(0), 1.0)[name]
    quietly(partial(fit, Responses.from_arrays(answers), max_iterations=1))


def _fitters(key: Array, temperature: float) -> dict[str, Callable[..., PointEstimate]]:
    return {
        "mm": partial(fit_cbmm, step="mm", key=key, temperature=temperature),
        "newton": partial(fit_cbmm, temperature=temperature),
        "joint_map": fit_joint_map,
        "mml": partial(fit_marginal, model="2pl", shrink=False, errors="own"),
    }


def on_sample_scale(
    theta: NDArray[np.float64], a: NDArray[np.float64], d: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the same η with abilities of mean 0 and standard deviation 1."""
    mean, sd = theta.mean(), theta.std()
    return (theta - mean) / sd, a * sd, d + a * mean


def sample_review(name: str, responses: Responses, *, key: Array) -> Posterior:
    """Draw from one of `POSTERIORS`, long enough for P(|a| < a_min)."""
    engine, slopes = name.split()
    priors = Priors(slopes="free" if slopes == "free" else "positive")
    if engine == "laplace":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ApproximationWarning)  # how rough it is, is the study
            return sample_laplace(responses, key=key, model=TwoPL(priors))
    return sample_blocked(
        responses,
        key=key,
        model=TwoPL(priors),
        options=RunOptions(num_chains=_CHAINS, num_warmup=_WARMUP, num_samples=_DRAWS, thinning=1),
    )


def random_start(
    responses: Responses, variance: float, key: Array
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Draw a start: θ ~ N(0, 1), log a and d ~ N(0, variance) (Qu et al., 2026, A.7)."""
    keys, j, sd = jax.random.split(key, 3), responses.n_items, np.sqrt(variance)
    theta = np.asarray(jax.random.normal(keys[0], (responses.n_subjects,)))
    a, d = (np.asarray(sd * jax.random.normal(k, (j,))) for k in keys[1:])
    return theta, np.exp(a), d
