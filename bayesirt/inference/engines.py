"""Draws from the posterior, by the engine that suits the data."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from jax import Array

from bayesirt import __version__
from bayesirt.estimators.choice import fit_point
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.nuts import sample_nuts
from bayesirt.models import Priors
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.progress import progress_bar
from bayesirt.responses import Responses


def sample_posterior(
    responses: Responses,
    *,
    key: Array,
    init: PointEstimate | None = None,
    priors: Priors | None = None,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    target_accept: float = 0.95,
    progress: bool = False,
    announce: Callable[[str], None] | None = None,
    checkpoint: Path | None = None,
) -> Posterior:
    """Draw from the 2PL's posterior.

    Parameters
    ----------
    responses : Responses
    key : jax.random.key
        The same key gives the same draws on the same machine.
    init : PointEstimate, optional
        Where to start; by default `fit_point`.
    priors : Priors, optional
    num_chains, num_warmup, num_samples : int
        Warm-up and kept draws of each chain.
    target_accept : float
        Higher means smaller steps.
    progress : bool
        Show a progress bar, if stderr is a terminal.
    announce : callable, optional
        Told, before sampling starts, about how long it will take.
    checkpoint : Path, optional
        Folder in which the unfinished chains are kept. If it holds those of the same call, they
        go on where they were, and the draws are those of an uninterrupted run; at the end it is
        removed.

    Returns
    -------
    Posterior
        After Ctrl-C with the draws so far; its attribute ``complete`` is then 0.

    Raises
    ------
    ResponseError
        If the checkpoint is damaged or belongs to another call.

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> key = jax.random.key(0)
    >>> sample_posterior(responses, key=key, num_warmup=50, num_samples=20).theta.shape
    (80, 6)
    """
    priors = priors or Priors()
    init = fit_point(responses) if init is None else init
    saved = None
    if checkpoint is not None:
        settings = (priors, num_chains, num_warmup, num_samples, target_accept)
        saved = Checkpoint(checkpoint, _fingerprint(responses, init, key, settings))
    with progress_bar("sampling") as show:
        posterior = sample_nuts(
            responses,
            key=key,
            init=init,
            priors=priors,
            num_chains=num_chains,
            num_warmup=num_warmup,
            num_samples=num_samples,
            target_accept=target_accept,
            progress=show if progress else None,
            announce=announce,
            checkpoint=saved,
        )
    if saved is not None and posterior.complete:
        saved.remove()
    return posterior


def _fingerprint(
    responses: Responses, init: PointEstimate, key: Array, settings: tuple[object, ...]
) -> str:
    """Return a hash of all that the draws depend on."""
    digest = hashlib.sha256(repr((__version__, jax.__version__, settings)).encode())
    arrays = [*responses.cells.listed(), jax.random.key_data(key)]
    for array in [*arrays, *(init[name] for name in ("theta", "a", "d"))]:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
