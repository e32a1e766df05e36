"""Exact draws from the Q-matrix model's posterior by blocked moves, started from a fit by EM."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray
from numpyro.distributions import LKJCholesky, biject_to

from bayesirt.estimators.q_mirt import fit_q_mirt
from bayesirt.inference.blocked import Move
from bayesirt.inference.chains import Progress
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.q_mirt_moves import q_mirt_moves
from bayesirt.inference.q_mirt_sites import Pattern, QMirtPrior
from bayesirt.inference.sweeps import Sweeps, run_sweeps
from bayesirt.inference.two_pl_blocked import Arrays, place_population
from bayesirt.likelihood import DenseLayout
from bayesirt.models.q_mirt import DIMS, Structure, default_structure
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.q_matrix import QMatrix
from bayesirt.responses import Responses

_LEAST_SE, _MOST_SE = 1e-3, 1.0
_LEAST_SIGMA = 0.1
_NEAR_ONE = 0.98
"""Largest correlation with the general ability at the start, which must lie inside its bounds."""
_CORRELATION_WIDTH = 0.2


@dataclass(frozen=True)
class QMirtSweeps(Sweeps):
    """Sweeps over the Q-matrix model; their data are the matrix of answers.

    Attributes
    ----------
    pattern : Pattern
    structure : {"correlated", "general", "independent"}
    """

    pattern: Pattern
    structure: Structure

    @property
    def prior(self) -> QMirtPrior:
        """The model without data."""
        return QMirtPrior(self.pattern, self.structure)

    def moves(self, data: DenseLayout) -> list[Move]:
        """Return the moves of one sweep."""
        return q_mirt_moves(data, self.prior)


def sample_q_mirt_blocked(
    responses: Responses,
    q: QMatrix,
    *,
    key: Array,
    structure: Structure | None = None,
    init: PointEstimate | None = None,
    num_chains: int = 4,
    num_warmup: int = 500,
    num_samples: int = 1000,
    thinning: int = 4,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Posterior:
    """Draw from the Q-matrix model's posterior by blocked moves.

    Nothing is tuned, so chains need only forget their start.

    Parameters
    ----------
    responses : Responses
    q : QMatrix
        Rows of other items are left out.
    key : jax.random.key
        The same key gives the same draws on the same machine.
    structure : {"correlated", "general", "independent"}, optional
        How abilities go together; by default `default_structure`.
    init : PointEstimate, optional
        By default `fit_q_mirt`. Chains start around it, overdispersed by its standard errors.
    num_chains, num_warmup, num_samples, thinning : int
        Warm-up sweeps and kept draws of each chain, and sweeps a kept draw.
    progress, announce, checkpoint
        As `bayesirt.inference.engines.sample_posterior` describes them.

    Returns
    -------
    Posterior
        ``theta`` over subject and ability; ``a`` over ``loading``, in the order of
        `QMatrix.loadings`. After Ctrl-C with the draws so far; its attribute ``complete`` is then
        0.

    Raises
    ------
    ResponseError
        If an item of the responses has no row, or the checkpoint is damaged or another's.

    References
    ----------
    Zhang et al. (2026) for the Q-matrix; Gamerman 1997 and Qi & Minka 2002 for the moves.

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> q = QMatrix.from_arrays([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])
    >>> key = jax.random.key(0)
    >>> sample_q_mirt_blocked(responses, q, key=key, num_warmup=50, num_samples=20).theta.shape
    (80, 6, 2)
    """
    q = q.for_items(responses.items)
    structure = structure or default_structure(q.n_abilities)
    init = fit_q_mirt(responses, q, structure=structure) if init is None else init
    successes, trials = map(jnp.asarray, responses.cells.matrices())
    swept = run_sweeps(
        QMirtSweeps(Pattern.of(q.needs), structure),
        DenseLayout(successes, trials),
        q_mirt_start_of(init, structure),
        key=key,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        thinning=thinning,
        progress=progress,
        announce=announce,
        checkpoint=checkpoint,
    )
    attributes = q_mirt_attributes("blocked", structure, swept.complete, num_warmup, swept.seconds)
    attributes["thinning"] = thinning
    return q_mirt_posterior(swept.samples, swept.statistics, responses, q, attributes)


def q_mirt_attributes(
    engine: str, structure: Structure, complete: bool, num_warmup: int, seconds: float
) -> dict[str, Any]:
    """Return what a posterior says of how it was made."""
    return {
        "model": "Q-matrix 2PL",
        "link": "logit",
        "engine": engine,
        "complete": int(complete),
        "structure": structure,
        "num_warmup": num_warmup,
        "sampling_seconds": seconds,
    }


def q_mirt_posterior(
    samples: Mapping[str, NDArray[np.floating]],
    statistics: Mapping[str, NDArray[Any]],
    responses: Responses,
    q: QMatrix,
    attributes: Mapping[str, Any],
) -> Posterior:
    """Return draws under the names of a Q-matrix's abilities and loadings."""
    kept = {name: values for name, values in samples.items() if name != "root"}
    coords = q.coords()
    names = {name: coords[name] for name in ("ability", "ability_other", "loading")}
    return Posterior.from_samples(kept, statistics, responses, attributes, coords=names, dims=DIMS)


def q_mirt_start_of(point: PointEstimate, structure: Structure) -> tuple[Arrays, Arrays]:
    """Return where chains start and how far apart, in the model's unconstrained sites.

    Parameters
    ----------
    point : PointEstimate
        By `fit_q_mirt`.
    structure : {"correlated", "general", "independent"}

    Returns
    -------
    centre, width : dict of float arrays
    """
    centre: Arrays = {"theta": point["theta"]}
    width: Arrays = {"theta": np.clip(point["theta_se"], _LEAST_SE, _MOST_SE)}
    slopes = point["a"]
    for name, values, se in (
        ("a", np.log(slopes), point["a_se"] / slopes),
        ("d", point["d"], point["d_se"]),
    ):
        se = np.clip(np.nan_to_num(se, nan=1.0), _LEAST_SE, _MOST_SE)
        place_population(centre, width, name, values, se)
    beta = point["beta"]
    spread = max(float(beta.std()), _LEAST_SIGMA)
    centre |= {"beta": beta, "sigma_beta": np.log(spread)}
    width |= {"beta": np.full(beta.shape, spread / 2), "sigma_beta": np.array(0.5)}
    centre["mu_d"] = point["mu_d"]
    if structure == "independent" or len(beta) == 1:
        return centre, width
    if structure == "correlated":
        root = np.linalg.cholesky(point["correlation"])
        found = biject_to(LKJCholesky(len(beta), 1).support)._inverse(root)
        name, centre["root"] = "root", np.asarray(found)
    else:
        gamma = np.clip(point["general"], 1 - _NEAR_ONE, _NEAR_ONE)
        name, centre["gamma"] = "gamma", np.log(gamma / (1 - gamma))
    width[name] = np.full(centre[name].shape, _CORRELATION_WIDTH)
    return centre, width
