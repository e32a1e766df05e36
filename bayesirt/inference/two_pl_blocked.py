"""Exact draws from the 2PL's posterior by blocked Newton-Metropolis, for small and large data."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.estimators.choice import fit_point
from bayesirt.inference.blocked import BlockedNewton, BlockedState, Position, start_chains
from bayesirt.inference.chains import Progress, run_chains
from bayesirt.inference.checkpoint import Checkpoint, Samples
from bayesirt.inference.row_shards import RowShards, place_rows
from bayesirt.inference.two_pl_moves import two_pl_moves
from bayesirt.inference.two_pl_sites import TwoPLPrior
from bayesirt.likelihood import Layout
from bayesirt.models import Priors
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.progress import in_words, least_seconds, rounds_of_chains
from bayesirt.responses import Responses

Arrays = dict[str, NDArray[np.float64]]

_LEAST_SLOPE = 0.05
_LEAST_SE, _MOST_SE = 1e-3, 1.0
_LEAST_SIGMA, _SIGMA_WIDTH = 0.15, 0.5
_OF_SWEEP = "sweep "
_SURE_SIGN = 0.15
"""Relative width of free slopes at the start: none is then below zero, and so is not their sum."""


@dataclass(frozen=True)
class TwoPLSweeps:
    """Sweeps over the 2PL as a `bayesirt.inference.chains.Kernel`; its data are the layout.

    Attributes
    ----------
    priors : Priors
    """

    priors: Priors

    def init(self, key: Array, start: Position, data: Layout | RowShards) -> BlockedState:
        """Return the state at a start."""
        return self._kernel(data).init(key, 0, start, (), {})

    def advance(self, state: BlockedState, data: Layout | RowShards) -> BlockedState:
        """Return the state after one sweep."""
        return self._kernel(data).sample(state, (), {})

    def collect(self, state: BlockedState) -> dict[str, Array]:
        """Return the sites, and the statistics under names that no site has."""
        return state.position | {f"{_OF_SWEEP}{k}": x for k, x in state.statistics.items()}

    def _kernel(self, layout: Layout | RowShards) -> BlockedNewton:
        return BlockedNewton(two_pl_moves(layout, self.priors))


def sample_blocked(
    responses: Responses,
    *,
    key: Array,
    init: PointEstimate | None = None,
    priors: Priors | None = None,
    num_chains: int = 4,
    num_warmup: int = 300,
    num_samples: int = 1000,
    thinning: int = 1,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
    mesh: Mesh | None = None,
) -> Posterior:
    """Draw from the 2PL's posterior with blocked Newton-Metropolis.

    A sweep costs four evaluations of the data, whatever the number of parameters. Nothing is
    tuned, so chains need only forget their start. They run side by side where JAX has a device
    for each, else vectorised.

    Parameters
    ----------
    responses : Responses
    key : jax.random.key
        The same key gives the same draws on the same machine.
    init : PointEstimate, optional
        By default `fit_point`. Chains start around it, overdispersed by its standard errors.
    priors : Priors, optional
    num_chains, num_warmup, num_samples : int
        Warm-up sweeps and kept draws of each chain.
    thinning : int
        Sweeps a kept draw.
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
    MATH.md, "Blocked Newton-Metropolis". Cells are evaluated in 32 bits; parameters, sums over
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
    start_key, run_key = jax.random.split(key)
    layout, kernel = place_rows(responses, mesh), TwoPLSweeps(priors)
    starts = start_chains(start_key, *start_of(init, priors), num_chains)
    if num_chains == 1:
        starts = jax.tree.map(lambda x: x[None], starts)
    if announce is not None:
        rounds = rounds_of_chains(num_chains, jax.local_device_count())
        sweeps = (num_warmup + num_samples * thinning) * rounds
        announce(_forecast(kernel, layout, run_key, starts, sweeps))
    began = time.perf_counter()
    chains = run_chains(
        kernel,
        layout,
        starts,
        key=run_key,
        num_warmup=num_warmup,
        num_samples=num_samples,
        thinning=thinning,
        progress=progress,
        checkpoint=checkpoint,
        mesh=mesh,
    )
    return Posterior.from_samples(
        *_samples_and_statistics(priors, chains.samples),
        responses,
        {
            "model": "2PL",
            "engine": "blocked",
            "complete": int(chains.complete),
            "priors": priors.describe(),
            "num_warmup": num_warmup,
            "thinning": thinning,
            "sampling_seconds": time.perf_counter() - began,
        },
    )


def to_draws(priors: Priors, sites: Position) -> tuple[dict[str, Array], Array]:
    """Return the model's sites and deterministics, and the log prior of the unconstrained sites.

    Parameters
    ----------
    priors : Priors
    sites : dict of float arrays, shape (chain, draw, ...)
        Unconstrained.

    Returns
    -------
    draws : dict of float arrays, shape (chain, draw, ...)
    log_prior : float array, shape (chain, draw)
    """
    prior = TwoPLPrior(priors)

    def one(sites: Position) -> tuple[dict[str, Array], Array]:
        terms = prior.terms(sites)
        return terms.values, terms.total()

    return jax.lax.map(jax.vmap(one), sites)


def start_of(point: PointEstimate, priors: Priors) -> tuple[Arrays, Arrays]:
    """Return where chains start and how far apart, in the model's unconstrained sites.

    Parameters
    ----------
    point : PointEstimate
        With θ of mean 0 and standard deviation 1, and standard errors.
    priors : Priors

    Returns
    -------
    centre, width : dict of float arrays
        Items that say little start within one unit; free slopes start above zero.
    """
    theta, theta_se = point["theta"], np.clip(point["theta_se"], _LEAST_SE, _MOST_SE)
    slope = np.maximum(np.nan_to_num(point["a"], nan=1.0), _LEAST_SLOPE)
    log_a_se = np.clip(np.nan_to_num(point["a_se"], nan=1.0) / slope, _LEAST_SE, _MOST_SE)
    d, d_se = point["d"], np.clip(np.nan_to_num(point["d_se"], nan=1.0), _LEAST_SE, _MOST_SE)
    if priors.kind == "fixed":
        b_se = np.clip(d_se / slope, _LEAST_SE, _MOST_SE)
        centre = {"theta": theta, "a": np.log(slope), "b": np.clip(-d / slope, -4, 4)}
        return centre, {"theta": theta_se, "a": log_a_se, "b": b_se}
    unit = slope.mean() if priors.slopes == "rasch" else 1.0
    centre, width = {"theta": unit * theta}, {"theta": unit * theta_se}
    if priors.slopes == "positive":
        _place(centre, width, "a", np.log(slope), log_a_se)
    elif priors.slopes == "free":
        _place(centre, width, "a", slope, slope * np.minimum(log_a_se, _SURE_SIGN))
    _place(centre, width, "d", d, d_se)
    return centre, width


def _place(
    centre: Arrays,
    width: Arrays,
    name: str,
    values: NDArray[np.float64],
    se: NDArray[np.float64],
) -> None:
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


def _samples_and_statistics(priors: Priors, collected: Samples) -> tuple[Samples, Samples]:
    sites = {k: x for k, x in collected.items() if not k.startswith(_OF_SWEEP)}
    statistics = {k.removeprefix(_OF_SWEEP): x for k, x in collected.items() if k not in sites}
    samples, log_prior = jax.device_get(jax.jit(to_draws, static_argnums=0)(priors, sites))
    statistics["lp"] = log_prior + statistics.pop("log_likelihood")
    return samples, statistics


def _forecast(
    kernel: TwoPLSweeps, layout: Layout | RowShards, key: Array, starts: Position, sweeps: float
) -> str:
    advance = jax.jit(kernel.advance)
    state = kernel.init(key, jax.tree.map(lambda x: x[0], starts), layout)
    seconds = least_seconds(lambda: jax.block_until_ready(advance(state, layout)))
    return f"about {in_words(seconds * sweeps)}"
