"""Draws from MIRT's posterior, by the engine that is asked for."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from jax import Array

from bayesirt.errors import ResponseError
from bayesirt.estimators.mirt import fit_mirt
from bayesirt.estimators.mirt_start import check_start
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.engines import fingerprint
from bayesirt.inference.mirt_blocked import sample_mirt_blocked
from bayesirt.inference.mirt_nuts import sample_mirt_nuts
from bayesirt.inference.q_mirt_engines import check_abilities_memory, draw_with_progress
from bayesirt.names import one_line
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.responses import Responses

MirtEngine = Literal["blocked", "nuts"]

_CHAINS: dict[str, Callable[..., Posterior]] = {
    "blocked": sample_mirt_blocked,
    "nuts": sample_mirt_nuts,
}


def sample_mirt(
    responses: Responses,
    *,
    n_abilities: int,
    key: Array,
    engine: MirtEngine = "blocked",
    init: PointEstimate | None = None,
    num_chains: int = 4,
    num_warmup: int = 500,
    num_samples: int = 1000,
    progress: bool = False,
    announce: Callable[[str], None] | None = None,
    checkpoint: Path | None = None,
) -> Posterior:
    """Draw from the posterior of K abilities that every item may need, in the axes of a fit.

    Parameters
    ----------
    responses : Responses
    n_abilities : int
        K.
    key : jax.random.key
        The same key gives the same draws on the same machine.
    engine : {"blocked", "nuts"}
        Both are exact; ``"nuts"`` is a slower second opinion on small data.
    init : PointEstimate, optional
        By default `fit_mirt`. Chains start around it, overdispersed by its standard errors, and its
        axes, which are principal, are those of the draws.
    num_chains, num_warmup, num_samples : int
        Warm-up and kept draws of each chain.
    progress : bool
        Show a progress bar, if stderr is a terminal.
    announce : callable, optional
        Told, before sampling starts, about how long it will take.
    checkpoint : Path, optional
        Folder in which the unfinished chains are kept, as in `sample_posterior`.

    Returns
    -------
    Posterior
        ``theta`` over subject and ability, in standard deviations of the population; ``a`` over
        item and ability; ``d``; and the items' population: ``mu_a``, ``precision_a`` (Λ), ``mu_d``
        and ``sigma_d``. Its attribute ``identification`` says how the axes were chosen. After
        Ctrl-C with the draws so far; its attribute ``complete`` is then 0.

    Raises
    ------
    ResponseError
        If there are not more items than abilities, `init` is of other items or subjects or not by
        `fit_mirt`, the engine is unknown, memory will not do, or the checkpoint is damaged or
        another's.

    Notes
    -----
    Neither answers nor prior see rotations and reflections of the abilities. Each draw's slopes,
    abilities, μ_a and Λ are turned by the orthogonal matrix that brings its slopes closest to the
    point estimate's (Procrustes), and R-hat and effective draws are of the turned draws. The linear
    predictors, the lengths |a_j| of slopes and Λ's eigenvalues do not depend on the axes. An
    ability that the items do not need has slopes of about 0, and no axis to speak of.

    References
    ----------
    `bayesirt.models.mirt`; Gamerman 1997; Qi & Minka 2002.

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.hstack([np.tri(6, 3, -1), 1 - np.tri(6, 3, -1)]))
    >>> options = {"key": jax.random.key(0), "num_warmup": 50, "num_samples": 20}
    >>> sample_mirt(responses, n_abilities=2, **options).theta.shape
    (80, 6, 2)
    """
    if engine not in _CHAINS:
        raise ResponseError(
            f"engine {one_line(engine)!r} does not know MIRT; ask for 'blocked' or 'nuts'"
        )
    check_start(responses, n_abilities, init)
    n_slopes = n_abilities * responses.n_items
    check_abilities_memory(responses, n_abilities, n_slopes, num_chains, num_samples)
    if init is None:
        init = fit_mirt(responses, n_abilities=n_abilities)
    elif list(map(str, init.parameters["subject"].values)) != list(responses.subjects):
        raise ResponseError("`init` is of other subjects; start from a fit of the same responses")
    given: dict[str, Any] = {"n_abilities": n_abilities, "key": key, "init": init}
    given |= {"num_chains": num_chains, "num_warmup": num_warmup, "num_samples": num_samples}
    saved = None
    if checkpoint is not None:
        settings = ("mirt", n_abilities, engine, num_chains, num_warmup, num_samples)
        saved = Checkpoint(checkpoint, fingerprint(responses, init, key, settings))
    draw = partial(_CHAINS[engine], responses, announce=announce, **given)
    return draw_with_progress(draw, saved, progress)
