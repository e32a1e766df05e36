"""Draws from the Q-matrix model's posterior, by the engine that is asked for."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from jax import Array

from bayesirt.errors import ResponseError
from bayesirt.estimators.q_mirt import fit_q_mirt
from bayesirt.free_memory import in_gigabytes
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.engines import fingerprint
from bayesirt.inference.memory import bytes_there
from bayesirt.inference.q_mirt_blocked import sample_q_mirt_blocked
from bayesirt.inference.q_mirt_laplace import sample_q_mirt_laplace
from bayesirt.inference.q_mirt_nuts import sample_q_mirt_nuts
from bayesirt.models.q_mirt import Structure, default_structure
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.progress import progress_bar
from bayesirt.q_matrix import QMatrix
from bayesirt.responses import Responses

QMirtEngine = Literal["auto", "blocked", "nuts", "laplace"]

MOST_FOR_BLOCKED = 1_000_000
"""Responses beyond which exact draws take an hour or more."""

_CHAINS: dict[str, Callable[..., Posterior]] = {
    "blocked": sample_q_mirt_blocked,
    "nuts": sample_q_mirt_nuts,
}
_OF_A_DRAW = 3 * 8
"""Bytes for each number that is drawn: on the device, on the host, and being summarised."""
_OF_A_CELL = 60
"""Bytes at the peak for each cell and chain."""


def sample_q_mirt(
    responses: Responses,
    q: QMatrix,
    *,
    key: Array,
    structure: Structure | None = None,
    engine: QMirtEngine = "auto",
    init: PointEstimate | None = None,
    num_chains: int = 4,
    num_warmup: int = 500,
    num_samples: int = 1000,
    progress: bool = False,
    announce: Callable[[str], None] | None = None,
    checkpoint: Path | None = None,
) -> Posterior:
    """Draw from the posterior of abilities that items need as a Q-matrix says.

    Parameters
    ----------
    responses : Responses
    q : QMatrix
        Rows of other items are left out.
    key : jax.random.key
        The same key gives the same draws on the same machine.
    structure : {"correlated", "general", "independent"}, optional
        How abilities go together; by default `default_structure`.
    engine : {"auto", "blocked", "nuts", "laplace"}
        ``"blocked"`` and ``"nuts"`` are exact, the latter a slower second opinion on small data;
        ``"laplace"`` approximates what items learn from answers, in far less time. ``"auto"``
        takes it beyond a million responses.
    init : PointEstimate, optional
        By default `fit_q_mirt`. Chains start around it, overdispersed by its standard errors.
    num_chains, num_warmup, num_samples : int
        Warm-up and kept draws of each chain; ``"laplace"`` has as many draws, and no warm-up.
    progress : bool
        Show a progress bar, if stderr is a terminal.
    announce : callable, optional
        Told, before sampling starts, about how long it will take.
    checkpoint : Path, optional
        Folder in which the unfinished chains are kept, as in `sample_posterior`.

    Returns
    -------
    Posterior
        ``theta`` over subject and ability; ``a`` over ``loading``, in the order of
        `QMatrix.loadings`. After Ctrl-C with the draws so far; its attribute ``complete`` is then
        0.

    Raises
    ------
    ResponseError
        If an item of the responses has no row, memory will not do, or the checkpoint is damaged
        or another's.

    References
    ----------
    Zhang et al. (2026) for the Q-matrix; Gamerman 1997 and Qi & Minka 2002 for the moves.

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> q = QMatrix.from_arrays([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])
    >>> key = jax.random.key(0)
    >>> sample_q_mirt(responses, q, key=key, num_warmup=50, num_samples=20).theta.shape
    (80, 6, 2)
    """
    q = q.for_items(responses.items)
    structure = structure or default_structure(q.n_abilities)
    check_abilities_memory(responses, q.n_abilities, q.n_loadings, num_chains, num_samples)
    init = fit_q_mirt(responses, q, structure=structure) if init is None else init
    given: dict[str, Any] = {"key": key, "structure": structure, "init": init}
    given |= {"num_chains": num_chains, "announce": announce}
    if engine == "auto":
        engine = "laplace" if responses.n_observed > MOST_FOR_BLOCKED else "blocked"
    if engine == "laplace":
        n_draws = num_chains * num_samples
        return sample_q_mirt_laplace(responses, q, num_samples=n_draws, **given)
    saved = None
    if checkpoint is not None:
        assumed = ("q-mirt", structure, q.abilities, q.needs.tobytes())
        settings = (assumed, engine, num_chains, num_warmup, num_samples)
        saved = Checkpoint(checkpoint, fingerprint(responses, init, key, settings))
    given |= {"num_warmup": num_warmup, "num_samples": num_samples}
    return draw_with_progress(partial(_CHAINS[engine], responses, q, **given), saved, progress)


def draw_with_progress(
    draw: Callable[..., Posterior], saved: Checkpoint | None, progress: bool
) -> Posterior:
    """Run chains with a progress bar, and remove their checkpoint when they are done.

    Parameters
    ----------
    draw : callable
        (progress, checkpoint) → Posterior, both by keyword.
    saved : Checkpoint, optional
    progress : bool
        Show the bar, if stderr is a terminal.

    Returns
    -------
    Posterior
    """
    with progress_bar("sampling") as show:
        posterior = draw(progress=show if progress else None, checkpoint=saved)
    if saved is not None and posterior.complete:
        saved.remove()
    return posterior


def check_abilities_memory(
    responses: Responses, n_abilities: int, n_slopes: int, num_chains: int, num_samples: int
) -> None:
    """Refuse chains over several abilities that will not fit into memory.

    Parameters
    ----------
    responses : Responses
    n_abilities : int
    n_slopes : int
        Of all items together.
    num_chains, num_samples : int

    Raises
    ------
    ResponseError
        With the bytes needed and the bytes there.
    """
    n_subjects, n_items = responses.n_subjects, responses.n_items
    of_a_draw = n_subjects * n_abilities + n_slopes + n_items + n_abilities**2
    needed = num_chains * (_OF_A_DRAW * num_samples * of_a_draw + _OF_A_CELL * n_subjects * n_items)
    there = bytes_there()
    if needed > there:
        raise ResponseError(
            f"{num_chains} x {num_samples:,} draws of {n_subjects:,} subjects' {n_abilities} "
            f"abilities need about {in_gigabytes(needed)} of memory, {in_gigabytes(there)} are "
            f"free; keep fewer draws, or fewer abilities"
        )
