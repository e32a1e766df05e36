"""Exact draws from the 2PL's posterior by blocked Newton-Metropolis, for small and large data."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.clusters import Clusters
from bayesirt.estimators.choice import fit_point
from bayesirt.inference.blocked import Move
from bayesirt.inference.chains import Enough, Progress
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.cluster_moves import two_pl_prior
from bayesirt.inference.row_shards import RowShards, place_rows
from bayesirt.inference.sweeps import Sweeps, run_sweeps
from bayesirt.inference.two_pl_moves import two_pl_moves
from bayesirt.inference.two_pl_sites import TwoPLPrior
from bayesirt.likelihood import Layout
from bayesirt.models import TWO_PL, Priors, ResponseModel
from bayesirt.models.coordinates import without_lean
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.responses import Responses

Arrays = dict[str, NDArray[np.float64]]

_LEAST_SLOPE = 0.05
_LEAST_SE, _MOST_SE = 1e-3, 1.0
_LEAST_SIGMA, _SIGMA_WIDTH = 0.15, 0.5
_SURE_SIGN = 0.15
"""Relative width of free slopes at the start: none is then below zero, and so is not their sum."""


@dataclass(frozen=True)
class TwoPLSweeps(Sweeps):
    """Sweeps over a model of one ability; their data are the layout.

    Attributes
    ----------
    priors : Priors
    model : ResponseModel
    clusters : tuple of int
        Position of each subject's cluster; empty where subjects do not come in clusters.
    """

    priors: Priors
    model: ResponseModel = TWO_PL
    clusters: tuple[int, ...] = ()

    @property
    def prior(self) -> TwoPLPrior:
        """The model without data."""
        return two_pl_prior(self.priors, self.clusters, self.model)

    def moves(self, data: Layout | RowShards) -> list[Move]:
        """Return the moves of one sweep."""
        return two_pl_moves(data, self.priors, clusters=self.clusters, model=self.model)


def sample_blocked(
    responses: Responses,
    *,
    key: Array,
    init: PointEstimate | None = None,
    priors: Priors | None = None,
    model: ResponseModel = TWO_PL,
    num_chains: int = 4,
    num_warmup: int = 300,
    num_samples: int = 1000,
    thinning: int = 1,
    enough: Enough | None = None,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
    mesh: Mesh | None = None,
) -> Posterior:
    """Draw from the posterior of a model of one ability with blocked Newton-Metropolis.

    A sweep costs four evaluations of the data, whatever the number of parameters. Nothing is
    tuned, so chains need only forget their start. They run side by side where JAX has a device
    for each, else vectorised.

    Parameters
    ----------
    responses : Responses
        Where they have clusters, subjects' abilities lie about those of their clusters.
    key : jax.random.key
        The same key gives the same draws on the same machine.
    init : PointEstimate, optional
        By default `fit_point`. Chains start around it, overdispersed by its standard errors.
    priors : Priors, optional
    model : ResponseModel
    num_chains, num_warmup, num_samples : int
        Warm-up sweeps and kept draws of each chain.
    thinning : int
        Sweeps a kept draw.
    enough : callable, optional
        Says of draws whether chains may end; see `bayesirt.inference.enough_draws`.
    progress : callable, optional
        Told steps done and steps in all.
    announce : callable, optional
        Told, before sampling starts, about how long it will take.
    checkpoint : Checkpoint, optional
        Where to save the chains, and to go on from.
    mesh : Mesh, optional
        Devices that share the responses out, row by row; see `run_chains`.

    Returns
    -------
    Posterior
        With the share that each block accepted, and the log density ``lp`` of the unconstrained
        sites (up to a constant), among its sample statistics. After Ctrl-C with the draws so
        far; its attribute ``complete`` is then 0.

    Raises
    ------
    ResponseError
        If the checkpoint is damaged or belongs to another run.

    Notes
    -----
    Gamerman 1997; Qi & Minka 2002. Cells are evaluated in 32 bits; parameters, sums over
    blocks of rows and Metropolis ratios have JAX's default precision.

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> key = jax.random.key(0)
    >>> sample_blocked(responses, key=key, num_warmup=50, num_samples=20).theta.shape
    (80, 6)
    """
    priors = priors or Priors()
    init = fit_point(responses) if init is None else init
    clusters = responses.clusters
    swept = run_sweeps(
        TwoPLSweeps(priors, model, () if clusters is None else clusters.codes),
        place_rows(responses, mesh),
        start_of(init, priors, clusters, model),
        key=key,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        thinning=thinning,
        enough=enough,
        progress=progress,
        announce=announce,
        checkpoint=checkpoint,
        mesh=mesh,
    )
    return Posterior.from_samples(
        swept.samples,
        swept.statistics,
        responses,
        {
            "model": model.title,
            "link": model.family.name,
            "engine": "blocked",
            "complete": int(swept.complete),
            "priors": priors.describe(),
            "num_warmup": num_warmup,
            "thinning": swept.thinning,
            "sampling_seconds": swept.seconds,
        },
    )


def start_of(
    point: PointEstimate,
    priors: Priors,
    clusters: Clusters | None = None,
    model: ResponseModel = TWO_PL,
) -> tuple[Arrays, Arrays]:
    """Return where chains start and how far apart, in the model's unconstrained sites.

    Parameters
    ----------
    point : PointEstimate
        With θ of mean 0 and standard deviation 1, and standard errors.
    priors : Priors
    clusters : Clusters, optional
        Of the subjects.
    model : ResponseModel

    Returns
    -------
    centre, width : dict of float arrays
        Items that say little start within one unit; free slopes start above zero.
    """
    theta, theta_se = point["theta"], np.clip(point["theta_se"], _LEAST_SE, _MOST_SE)
    slope = np.maximum(np.nan_to_num(point["a"], nan=1.0), _LEAST_SLOPE)
    log_a_se = np.clip(np.nan_to_num(point["a_se"], nan=1.0) / slope, _LEAST_SE, _MOST_SE)
    d, d_se = point["d"], np.clip(np.nan_to_num(point["d_se"], nan=1.0), _LEAST_SE, _MOST_SE)
    unit = slope.mean() if priors.slopes == "rasch" else 1.0
    centre, width = {"theta": unit * theta}, {"theta": unit * theta_se}
    if clusters is not None:
        _place_clusters(centre, width, clusters)
    for name, (mu, sigma) in model.learned(priors).items():
        place_population(centre, width, name, np.full(len(slope), mu), np.full(len(slope), sigma))
    if priors.kind == "fixed":
        b_se = np.clip(d_se / slope, _LEAST_SE, _MOST_SE)
        centre |= {"a": np.log(slope), "b": np.clip(-d / slope, -4, 4)}
        return centre, width | {"a": log_a_se, "b": b_se}
    if priors.slopes == "positive":
        place_population(centre, width, "a", np.log(slope), log_a_se)
    elif priors.slopes == "free":
        place_population(centre, width, "a", slope, slope * np.minimum(log_a_se, _SURE_SIGN))
    if priors.slopes == "rasch":
        place_population(centre, width, "d", d, d_se)
        return centre, width
    rest, lean, lean_se = without_lean(slope, d)
    place_population(centre, width, "d", rest, d_se)
    return centre | {"d": d, "mu_b": np.array(lean)}, width | {"mu_b": np.array(lean_se)}


def place_population(
    centre: Arrays,
    width: Arrays,
    name: str,
    values: NDArray[np.float64],
    se: NDArray[np.float64],
) -> None:
    """Add the start of a site with a μ and a σ of its own, and the start of these.

    Parameters
    ----------
    centre, width : dict of float arrays
        What is added to.
    name : str
    values, se : float array, shape (item,)
        Unconstrained.
    """
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


def _place_clusters(centre: Arrays, width: Arrays, clusters: Clusters) -> None:
    """Add the start of clusters' abilities, beside θ's, and of the share of variance between."""
    n_clusters, n = len(clusters.names), clusters.sizes
    mean = np.bincount(clusters.codes, centre["theta"], n_clusters) / n
    se = np.sqrt(np.bincount(clusters.codes, width["theta"] ** 2, n_clusters)) / n
    centre |= {"gamma": mean, "icc": np.array(0.0)}
    width |= {"gamma": se, "icc": np.array(1.0)}
