"""How a posterior is drawn: `RunOptions`, the same for every model and engine."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh
from threadpoolctl import threadpool_limits

from bayesirt import __version__
from bayesirt.data.responses import Responses
from bayesirt.inference.chains import Watch
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.row_shards import put_everywhere, spans_processes
from bayesirt.models import ResponseModel
from bayesirt.point_estimate import PointEstimate
from bayesirt.progress import progress_bar


@dataclass(frozen=True)
class RunOptions:
    """Options of a run.

    Attributes
    ----------
    num_chains, num_warmup, num_samples : int
        Warm-up and kept draws of each chain. Laplace has as many draws, and no warm-up.
    thinning : int
        Sweeps of blocked chains for each kept draw: a sweep costs a tenth of a NUTS draw, and
        draws of the least known items follow each other. With a budget as many only where not
        everything has converged with fewer.
    target_accept : float
        Of NUTS. Higher means smaller steps.
    budget : float
        If positive, blocked chains start with one sweep for each draw, end after half of the draws
        or some more if all has converged by then, and else go on with ever more sweeps, until all
        has converged, and after `thinning` sweeps for each draw until abilities have, for
        about so many seconds.
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
        speaks, and writes the checkpoint into a folder that all of them see.
    title : str
        Of the progress bar.

    Examples
    --------
    >>> RunOptions(num_chains=2, num_samples=500).num_warmup
    1000
    """

    num_chains: int = 4
    num_warmup: int = 1000
    num_samples: int = 1000
    thinning: int = 4
    target_accept: float = 0.95
    budget: float = 0.0
    progress: bool = False
    announce: Callable[[str], None] | None = None
    checkpoint: Path | None = None
    mesh: Mesh | None = None
    title: str = "sampling"

    @property
    def together(self) -> bool:
        """Whether several processes work together."""
        return spans_processes(self.mesh)

    @property
    def speaks(self) -> bool:
        """Whether this process says what happens, and writes."""
        return not self.together or jax.process_index() == 0


@contextmanager
def watched(
    responses: Responses,
    model: ResponseModel,
    method: str,
    init: PointEstimate,
    key: Array,
    options: RunOptions,
) -> Iterator[Watch]:
    """Show a progress bar, and keep unfinished chains where the options say so.

    Chains side by side solve small systems on one thread each: threads of a BLAS that all of them
    call would wait for each other, ten times as long.
    """
    saved = None
    if options.checkpoint is not None:
        sizes = options.num_chains, options.num_warmup, options.num_samples
        settings = (model, method, *sizes, options.thinning, options.target_accept)
        own = fingerprint(responses, init, key, settings, options.mesh)
        saved = Checkpoint(options.checkpoint, own, options.speaks)
    one_thread = threadpool_limits(limits=1, user_api="blas")
    with one_thread, progress_bar(options.title) as show:
        progress = show if options.progress and options.speaks else None
        yield Watch(progress, saved, None if options.together else options.announce)


def fingerprint(
    responses: Responses,
    init: PointEstimate,
    key: Array,
    settings: tuple[object, ...],
    mesh: Mesh | None = None,
) -> str:
    """Return a hash of all that draws depend on, the same in every process.

    Each of the settings has a `repr` that tells it from others.
    """
    digest = hashlib.sha256(repr((__version__, jax.__version__, settings)).encode())
    arrays: list[Any] = [*responses.cells.listed(), jax.random.key_data(key)]
    if responses.latency is not None:
        arrays.append(responses.latency)
    if responses.clusters is not None:
        arrays.append(np.array(responses.clusters.codes))
    for array in [*arrays, *(init[name] for name in ("theta", "a", "d"))]:
        digest.update(np.ascontiguousarray(array).tobytes())
    return bytes(put_everywhere(np.frombuffer(digest.digest(), np.uint8), mesh)).hex()
