"""Draws from the posterior, by the engine that suits the data."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh

from bayesirt import __version__
from bayesirt.clusters import Clusters, refuse_useless
from bayesirt.errors import ResponseError
from bayesirt.estimators.choice import fit_point
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.enough_draws import within
from bayesirt.inference.laplace import FEW, sample_laplace
from bayesirt.inference.lart_blocked import sample_lart
from bayesirt.inference.lart_laplace import sample_lart_laplace
from bayesirt.inference.lart_nuts import sample_lart_nuts
from bayesirt.inference.memory import check_memory
from bayesirt.inference.nuts import sample_nuts
from bayesirt.inference.row_shards import put_everywhere, spans_processes
from bayesirt.inference.two_pl_blocked import sample_blocked
from bayesirt.models import Method, ModelName, Priors, model_named
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.progress import progress_bar
from bayesirt.responses import Responses

Engine = Literal["auto", "nuts", "blocked", "laplace"]

MOST_FOR_BLOCKED = 5_000_000

_OF_ANSWERS: dict[str, Callable[..., Posterior]] = {"nuts": sample_nuts, "blocked": sample_blocked}
_OF_LART: dict[str, Callable[..., Posterior]] = {"nuts": sample_lart_nuts, "blocked": sample_lart}
SWEEPS_A_DRAW = 4
"""A sweep costs a tenth of a NUTS draw, and draws of the least known items follow each other."""


def sample_posterior(
    responses: Responses,
    *,
    key: Array,
    model: ModelName = "2pl",
    wrong_lengths: bool = False,
    engine: Engine = "auto",
    init: PointEstimate | None = None,
    priors: Priors | None = None,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    target_accept: float = 0.95,
    budget: float = 0.0,
    progress: bool = False,
    announce: Callable[[str], None] | None = None,
    checkpoint: Path | None = None,
    mesh: Mesh | None = None,
) -> Posterior:
    """Draw from a model's posterior.

    Parameters
    ----------
    responses : Responses
        With clusters, if subjects' abilities are to lie about those of their clusters.
    key : jax.random.key
        The same key gives the same draws on the same machine.
    model : {"2pl", "3pl", "lart"}
    wrong_lengths : bool
        Give LaRT's wrong answers a length of their own.
    engine : {"auto", "nuts", "blocked", "laplace"}
        ``"nuts"`` and ``"blocked"`` are exact; ``"laplace"`` approximates. ``"auto"`` is
        `choose_engine`'s choice, but ``"blocked"`` where wrong answers have lengths of their own,
        and where subjects come in clusters.
    init : PointEstimate, optional
        Where to start, of the same model; by default `fit_point`.
    priors : Priors, optional
        Of the 2PL and the 3PL; LaRT has its own.
    num_chains, num_warmup, num_samples : int
        Warm-up and kept draws of each chain. Laplace's draws need no warm-up.
    target_accept : float
        Of NUTS. Higher means smaller steps.
    budget : float
        Seconds in which blocked chains may go on after the draws that were asked for, with twice
        the sweeps for each draw, and again, until abilities have converged.
    progress : bool
        Show a progress bar, if stderr is a terminal.
    announce : callable, optional
        Told, before sampling starts, about how long it will take.
    checkpoint : Path, optional
        Folder in which the unfinished chains are kept. If it holds those of the same call, they
        go on where they were, and the draws are those of an uninterrupted run; at the end it is
        removed. Laplace has no chains, and so neither checkpoint nor progress bar.
    mesh : jax.sharding.Mesh, optional
        Devices that share the responses out, each with some subjects', perhaps in several
        processes. Then every process makes the same call and gets the same draws; the first one
        speaks, and writes the checkpoint into a folder that all of them see. Not for Laplace.

    Returns
    -------
    Posterior
        After Ctrl-C with the draws so far; its attribute ``complete`` is then 0. Where several
        processes work together, Ctrl-C is passed on.

    Raises
    ------
    ResponseError
        If memory will not do, the checkpoint is damaged or belongs to another call, the posterior
        has no curvature that Laplace could use, Laplace or LaRT is given a mesh, LaRT misses
        lengths, Laplace or the 2PL is given wrong answers' lengths, clusters are not for it, or
        the engine or the priors are not the model's.

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> key = jax.random.key(0)
    >>> sample_posterior(responses, key=key, num_warmup=50, num_samples=20).theta.shape
    (80, 6)
    """
    priors, of = priors or Priors(), model_named(model)
    of.refuse(priors)
    together = spans_processes(mesh)
    speaks = not together or jax.process_index() == 0
    plan: dict[str, Any] = {"model": model, "wrong_lengths": wrong_lengths, "mesh": mesh}
    plan |= {"num_chains": num_chains, "num_samples": num_samples}
    method, reason = plan_engine(engine, responses, **plan)
    if reason and announce is not None and speaks:
        announce(f"engine {method}, {reason}")
    init = fit_point(responses, model=model) if init is None else init
    common: dict[str, Any] = {"key": key, "init": init, "priors": priors, "num_chains": num_chains}
    if method == "laplace":
        common |= {"num_samples": num_chains * num_samples, "announce": announce}
        return _approximate(responses, model, common)
    saved = None
    if checkpoint is not None:
        assumed = (model, wrong_lengths, priors)
        settings = (assumed, method, num_chains, num_warmup, num_samples, target_accept)
        saved = Checkpoint(checkpoint, fingerprint(responses, init, key, settings, mesh), speaks)
    with progress_bar("sampling") as show:
        common |= {"num_warmup": num_warmup, "num_samples": num_samples}
        common |= {"progress": show if progress and speaks else None, "checkpoint": saved}
        # A forecast takes all processes, and only some may have been given somebody to tell.
        common |= {"announce": None if together else announce}
        own: dict[str, Any] = {"target_accept": target_accept}
        if method == "blocked":
            enough = within(budget) if budget > 0 and not together else None
            own = {"thinning": SWEEPS_A_DRAW, "enough": enough}
        if model == "lart":
            del common["priors"]
            posterior = _OF_LART[method](responses, wrong_lengths=wrong_lengths, **own, **common)
        else:
            posterior = _OF_ANSWERS[method](responses, model=of, mesh=mesh, **own, **common)
    if saved is not None and posterior.complete:
        saved.remove()
    return posterior


def _approximate(responses: Responses, model: ModelName, common: dict[str, Any]) -> Posterior:
    """Draw by Laplace's approximation; LaRT has priors of its own."""
    if model == "lart":
        return sample_lart_laplace(responses, **{k: v for k, v in common.items() if k != "priors"})
    return sample_laplace(responses, **common)


def choose_engine(responses: Responses) -> tuple[Method, str]:
    """Return the engine that suits the size of the data, and why.

    Parameters
    ----------
    responses : Responses

    Returns
    -------
    engine : {"blocked", "laplace"}
    reason : str
        A clause that goes on from the engine's name.
    """
    n = responses.n_observed
    if n <= MOST_FOR_BLOCKED:
        return "blocked", f"exact and faster than nuts for {n:,} responses"
    if min(responses.cells.shape) < FEW:
        return "blocked", f"exact, as an approximation needs {FEW} subjects and {FEW} items"
    return "laplace", f"an approximation, as exact draws from {n:,} responses would take hours"


def plan_engine(
    engine: Engine,
    responses: Responses,
    *,
    model: ModelName = "2pl",
    wrong_lengths: bool = False,
    num_chains: int,
    num_samples: int,
    mesh: Mesh | None = None,
) -> tuple[Method, str]:
    """Return the engine that `sample_posterior` would take; refuse what it could not do.

    Parameters
    ----------
    engine : {"auto", "nuts", "blocked", "laplace"}
    responses : Responses
    model : {"2pl", "3pl", "lart"}
    wrong_lengths : bool
    num_chains, num_samples : int
    mesh : Mesh, optional

    Returns
    -------
    method : {"nuts", "blocked", "laplace"}
    reason : str
        Empty where the engine was asked for.

    Raises
    ------
    ResponseError
        If memory will not do, Laplace or LaRT is given a mesh, Laplace or the 2PL is given wrong
        answers' lengths, clusters say nothing or are given to what does not know them, or the
        engine does not draw from the model.
    """
    if wrong_lengths and model != "lart":
        raise ResponseError(
            f"wrong answers have lengths of their own in lart, not in {model}, which takes answers "
            f"alone; pass --model lart, or leave out --wrong-lengths"
        )
    if responses.clusters is not None:
        method, reason = _plan_clusters(engine, responses.clusters, model, mesh)
    elif model == "lart":
        method, reason = _plan_lart(engine, responses, mesh, wrong_lengths=wrong_lengths)
    else:
        method, reason = choose_engine(responses) if engine == "auto" else (engine, "")
    of = model_named(model)
    if method not in of.engines:
        if engine != "auto":
            own = " or ".join(of.engines)
            raise ResponseError(f"{engine} does not draw from the {of.title}; ask for {own}")
        method, reason = of.engines[0], f"exact, as nothing approximates the {of.title}"
    if method == "laplace" and mesh is not None:
        raise ResponseError("laplace works on one device; leave mesh out, or ask for blocked")
    share = 1.0 if mesh is None else min(1.0, jax.local_device_count() / mesh.size)
    size: dict[str, Any] = {"num_chains": num_chains, "num_samples": num_samples, "share": share}
    check_memory(method, responses, model=model, **size)
    return method, reason


def _plan_clusters(
    engine: Engine, clusters: Clusters, model: ModelName, mesh: Mesh | None
) -> tuple[Method, str]:
    refuse_useless(clusters)
    if model_named(model).lengths:
        raise ResponseError(
            f"clusters of subjects belong to the 2pl and the 3pl, not to {model}; leave them out"
        )
    if mesh is not None:
        raise ResponseError("clusters of subjects work on one device; leave mesh out")
    if engine not in ("auto", "blocked"):
        raise ResponseError(f"{engine} knows no clusters of subjects; ask for blocked, or for auto")
    reason = f"exact, and it knows {len(clusters.names)} clusters of subjects"
    return "blocked", reason if engine == "auto" else ""


def _plan_lart(
    engine: Engine, responses: Responses, mesh: Mesh | None, *, wrong_lengths: bool
) -> tuple[Method, str]:
    if engine == "laplace" and wrong_lengths:
        raise ResponseError(
            "laplace does not give wrong answers lengths of their own; ask for blocked, or leave "
            "out --wrong-lengths"
        )
    if mesh is not None:
        raise ResponseError("LaRT works on one device; leave mesh out")
    if engine != "auto":
        return engine, ""
    method, reason = choose_engine(responses)
    return (method, reason) if method == "laplace" and not wrong_lengths else ("blocked", "")


def fingerprint(
    responses: Responses,
    init: PointEstimate,
    key: Array,
    settings: tuple[object, ...],
    mesh: Mesh | None = None,
) -> str:
    """Return a hash of all that draws depend on, the same in every process.

    Parameters
    ----------
    responses : Responses
    init : PointEstimate
        With θ, a and d.
    key : jax.random.key
    settings : tuple
        Of the call, each with a `repr` that tells it from others.
    mesh : Mesh, optional
        Devices of several processes.

    Returns
    -------
    str
        Hexadecimal.
    """
    digest = hashlib.sha256(repr((__version__, jax.__version__, settings)).encode())
    arrays = [*responses.cells.listed(), jax.random.key_data(key)]
    if responses.latency is not None:
        arrays.append(responses.latency)
    if responses.clusters is not None:
        arrays.append(np.array(responses.clusters.codes))
    for array in [*arrays, *(init[name] for name in ("theta", "a", "d"))]:
        digest.update(np.ascontiguousarray(array).tobytes())
    return bytes(put_everywhere(np.frombuffer(digest.digest(), np.uint8), mesh)).hex()
