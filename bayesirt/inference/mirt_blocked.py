"""Exact draws from MIRT's posterior by blocked moves, started from a fit by EM."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.estimators.mirt import fit_mirt
from bayesirt.inference.blocked import Move
from bayesirt.inference.chains import Progress
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.mirt_axes import IDENTIFICATION, aligned_draws
from bayesirt.inference.mirt_moves import mirt_moves
from bayesirt.inference.mirt_sites import TO_PRECISION, MirtPrior
from bayesirt.inference.sweeps import Sweeps, run_sweeps
from bayesirt.inference.two_pl_blocked import Arrays, place_population
from bayesirt.likelihood import DenseLayout
from bayesirt.models.mirt import DIMS
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.responses import Responses

_LEAST_SE, _MOST_SE = 1e-3, 1.0


@dataclass(frozen=True)
class MirtSweeps(Sweeps):
    """Sweeps over MIRT; their data are the matrix of answers.

    Attributes
    ----------
    n_abilities : int
    """

    n_abilities: int

    @property
    def prior(self) -> MirtPrior:
        """The model without data."""
        return MirtPrior()

    def moves(self, data: DenseLayout) -> list[Move]:
        """Return the moves of one sweep."""
        return mirt_moves(data, self.n_abilities)


def sample_mirt_blocked(
    responses: Responses,
    *,
    n_abilities: int,
    key: Array,
    init: PointEstimate | None = None,
    num_chains: int = 4,
    num_warmup: int = 500,
    num_samples: int = 1000,
    thinning: int = 4,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Posterior:
    """Draw from MIRT's posterior by blocked moves.

    Nothing is tuned, so chains need only forget their start.

    Parameters
    ----------
    responses : Responses
    n_abilities : int
        K.
    key : jax.random.key
        The same key gives the same draws on the same machine.
    init : PointEstimate, optional
        By default `fit_mirt`. Chains start around it, overdispersed by its standard errors, and its
        axes are those of the draws.
    num_chains, num_warmup, num_samples, thinning : int
        Warm-up sweeps and kept draws of each chain, and sweeps a kept draw.
    progress, announce, checkpoint
        As `bayesirt.inference.engines.sample_posterior` describes them.

    Returns
    -------
    Posterior
        ``theta`` over subject and ability, ``a`` over item and ability, each draw rotated to the
        slopes of `init`. After Ctrl-C with the draws so far; its attribute ``complete`` is then 0.

    Raises
    ------
    ResponseError
        If there are not more items than abilities, or the checkpoint is damaged or another's.

    References
    ----------
    Gamerman 1997; Qi & Minka 2002.

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.hstack([np.tri(6, 3, -1), 1 - np.tri(6, 3, -1)]))
    >>> options = {"key": jax.random.key(0), "num_warmup": 50, "num_samples": 20}
    >>> sample_mirt_blocked(responses, n_abilities=2, **options).theta.shape
    (80, 6, 2)
    """
    init = fit_mirt(responses, n_abilities=n_abilities) if init is None else init
    swept = run_sweeps(
        MirtSweeps(n_abilities),
        DenseLayout(*map(jnp.asarray, responses.cells.matrices())),
        mirt_start_of(init),
        key=key,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        thinning=thinning,
        progress=progress,
        announce=announce,
        checkpoint=checkpoint,
    )
    attributes = mirt_attributes("blocked", n_abilities, swept.complete, num_warmup, swept.seconds)
    attributes["thinning"] = thinning
    return mirt_posterior(swept.samples, swept.statistics, responses, init, attributes)


def mirt_attributes(
    engine: str, n_abilities: int, complete: bool, num_warmup: int, seconds: float
) -> dict[str, Any]:
    """Return what a posterior says of how it was made."""
    return {
        "model": "MIRT 2PL",
        "link": "logit",
        "engine": engine,
        "complete": int(complete),
        "n_abilities": n_abilities,
        "identification": IDENTIFICATION,
        "num_warmup": num_warmup,
        "sampling_seconds": seconds,
    }


def mirt_posterior(
    samples: Mapping[str, NDArray[np.floating]],
    statistics: Mapping[str, NDArray[Any]],
    responses: Responses,
    init: PointEstimate,
    attributes: Mapping[str, Any],
) -> Posterior:
    """Return draws in the axes of a point estimate, under the names of its abilities."""
    turned = aligned_draws(samples, init["a"])
    names = {name: init.parameters[name].values for name in ("ability", "ability_other")}
    return Posterior.from_samples(
        turned, statistics, responses, attributes, coords=names, dims=DIMS
    )


def mirt_start_of(point: PointEstimate) -> tuple[Arrays, Arrays]:
    """Return where chains start and how far apart, in the model's unconstrained sites.

    Parameters
    ----------
    point : PointEstimate
        By `fit_mirt`.

    Returns
    -------
    centre, width : dict of float arrays

    Notes
    -----
    The site of Λ holds its Cholesky factor row by row, below the diagonal first and then the
    logarithms on it. Given J slopes the latter have a standard deviation of about 1 / √(2J), and
    an element of row k below the diagonal one of at most √(Λ_kk / J).
    """
    centre: Arrays = {"theta": point["theta"], "a": point["a"], "mu_a": point["mu_a"]}
    a_se, d_se, theta_se = (_usable(point[f"{name}_se"]) for name in ("a", "d", "theta"))
    width: Arrays = {"theta": theta_se, "a": a_se}
    place_population(centre, width, "d", point["d"], d_se)
    n_items, n = point["a"].shape
    precision = point["precision_a"]
    rows = np.tril_indices(n, -1)[0]
    below = np.sqrt(np.diagonal(precision)[rows] / n_items)
    width["mu_a"] = 2 * np.sqrt(np.diagonal(np.linalg.inv(precision)) / n_items)
    width["precision_a"] = np.append(below, np.full(n, 1 / np.sqrt(2 * n_items)))
    centre["precision_a"] = np.asarray(TO_PRECISION.inv(jnp.asarray(precision)))
    return centre, width


def _usable(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(np.nan_to_num(errors, nan=1.0), _LEAST_SE, _MOST_SE)
