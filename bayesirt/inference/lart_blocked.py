"""Exact draws from LaRT's posterior by blocked moves, started from a point estimate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.estimators.lart_em import fit_lart
from bayesirt.families import FAMILIES
from bayesirt.inference.blocked import Move
from bayesirt.inference.chains import Enough, Progress
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.lart_moves import lart_moves
from bayesirt.inference.lart_sites import HIERARCHICAL, LaRTPrior
from bayesirt.inference.sweeps import Sweeps, run_sweeps
from bayesirt.inference.two_pl_blocked import Arrays, place_population
from bayesirt.latencies import Latencies, WrongAnswers, latencies_of
from bayesirt.likelihood import layout_of
from bayesirt.models.lart import Link
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.responses import Responses

_LEAST_SE, _MOST_SE = 1e-3, 1.0
_SPREAD_OF_DELTA = 0.5
_SURE_SIGN = 0.15
"""Widest start of slopes, in means of theirs: their sum is then above zero in every chain."""


@dataclass(frozen=True)
class LaRTSweeps(Sweeps):
    """Sweeps over LaRT; their data are the log lengths, with the answers' layout.

    Attributes
    ----------
    link : {"probit", "logit"}
    """

    link: Link

    @property
    def prior(self) -> LaRTPrior:
        """LaRT without data."""
        return LaRTPrior()

    def moves(self, data: Latencies) -> list[Move]:
        """Return the moves of one sweep."""
        return lart_moves(data, FAMILIES[self.link])


def sample_lart(
    responses: Responses,
    *,
    key: Array,
    init: PointEstimate | None = None,
    link: Link = "probit",
    wrong_lengths: bool = False,
    num_chains: int = 4,
    num_warmup: int = 300,
    num_samples: int = 1000,
    thinning: int = 1,
    enough: Enough | None = None,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Posterior:
    """Draw from LaRT's posterior with blocked moves.

    A sweep costs four evaluations of the answers and a few products with the lengths. Nothing is
    tuned, so chains need only forget their start.

    Parameters
    ----------
    responses : Responses
        With lengths.
    key : jax.random.key
        The same key gives the same draws on the same machine.
    init : PointEstimate, optional
        By default `fit_lart`. Chains start around it, overdispersed by its standard errors.
    link : {"probit", "logit"}
    wrong_lengths : bool
        Give wrong answers a length of their own.
    num_chains, num_warmup, num_samples, thinning : int
        Warm-up sweeps and kept draws of each chain, and sweeps a kept draw.
    enough, progress, announce, checkpoint
        As `bayesirt.inference.engines.sample_posterior` describes them.

    Returns
    -------
    Posterior
        After Ctrl-C with the draws so far; its attribute ``complete`` is then 0.

    Raises
    ------
    ResponseError
        If there are no lengths, they do not differ, or the checkpoint is damaged or another's.

    References
    ----------
    Xu et al. (2026) for the model; Gamerman 1997 and Qi & Minka 2002 for the moves.
    """
    latencies = latencies_of(responses, layout_of(responses), wrong_lengths=wrong_lengths)
    init = fit_lart(responses, link=link) if init is None else init
    swept = run_sweeps(
        LaRTSweeps(link),
        latencies,
        lart_start_of(init, latencies),
        key=key,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        thinning=thinning,
        enough=enough,
        progress=progress,
        announce=announce,
        checkpoint=checkpoint,
    )
    attributes = lart_attributes("blocked", link, swept.complete, num_warmup, swept.seconds)
    attributes |= {"thinning": swept.thinning, "wrong_lengths": int(wrong_lengths)}
    return Posterior.from_samples(swept.samples, swept.statistics, responses, attributes)


def lart_attributes(
    engine: str, link: Link, complete: bool, num_warmup: int, seconds: float
) -> dict[str, Any]:
    """Return what is kept with draws from LaRT, whatever the engine."""
    return {
        "model": "LaRT",
        "link": link,
        "engine": engine,
        "complete": int(complete),
        "priors": "hierarchical, free slopes",
        "num_warmup": num_warmup,
        "sampling_seconds": seconds,
    }


def lart_start_of(point: PointEstimate, latencies: Latencies) -> tuple[Arrays, Arrays]:
    """Return where chains start and how far apart, in the model's unconstrained sites.

    Parameters
    ----------
    point : PointEstimate
        By an estimator of LaRT.
    latencies : Latencies
        Of the same responses.

    Returns
    -------
    centre, width : dict of float arrays
    """
    lam = point["lam"]
    values = {name: point[name] for name in ("theta", "tau", "a", "d", "phi", "omega")}
    errors = {name: point[f"{name}_se"] for name in values}
    values["lam"], errors["lam"] = np.log(lam), point["lam_se"] / lam
    if latencies.wrong is not None:
        delta, delta_se, mean_share = _start_of_wrong(point, latencies, latencies.wrong)
        values |= {"delta": delta, "omega": values["omega"] - delta * mean_share}
        errors |= {"delta": delta_se, "omega": np.hypot(errors["omega"], delta_se * mean_share)}
    centre: Arrays = {"rho": np.log((1 + point["rho"]) / (1 - point["rho"]))}
    width: Arrays = {"rho": 2 * point["rho_se"] / (1 - point["rho"] ** 2)}
    for name, value in values.items():
        se = np.clip(np.nan_to_num(errors[name], nan=1.0), _LEAST_SE, _MOST_SE)
        if name in ("a", "phi"):
            se = np.minimum(se, _SURE_SIGN * np.abs(value.mean()))
        if name in HIERARCHICAL:
            place_population(centre, width, name, value, se)
        else:
            centre[name], width[name] = value, se
    return centre, width


def _start_of_wrong(
    point: PointEstimate, latencies: Latencies, wrong: WrongAnswers
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return δ with its error, from each item's residuals regressed on w, and the mean of w."""
    tau, over = jnp.asarray(point["tau"]), latencies.layout.over_subjects
    level = point["omega"] - latencies.centre
    residual = latencies.total - level * latencies.n + point["phi"] * over(latencies.seen, tau)
    crossed = wrong.wx - level * wrong.w + point["phi"] * over(wrong.share, tau)
    mean_share = wrong.w / jnp.maximum(latencies.n, 1)
    within = wrong.ww - mean_share * wrong.w
    precision = within / point["lam"] + _SPREAD_OF_DELTA**-2
    delta = (crossed - mean_share * residual) / point["lam"] / precision
    found = (np.asarray(x, np.float64) for x in (delta, 1 / jnp.sqrt(precision), mean_share))
    value, se, mean = found
    return value, se, mean
