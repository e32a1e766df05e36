"""`RunOptions`, the sampling options of every model and engine."""

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
    """Sampling options.

    Attributes
    ----------
    num_chains, num_warmup, num_samples : int
        Number of chains, and of warm-up and kept draws per chain. Laplace draws the same number
        without warm-up.
    thinning : int
        Sweeps of blocked chains per kept draw. A sweep costs a tenth of a NUTS draw, but successive
        sweeps are correlated for poorly determined items. With a budget, chains use fewer sweeps
        if everything converges with fewer.
    target_accept : float
        Target acceptance probability of NUTS; higher values mean smaller steps.
    budget : float
        Seconds. If positive, blocked chains start with one sweep per draw and stop as soon as all
        parameters have converged, after half of the draws at the earliest. If they have not, the
        number of sweeps per draw is doubled. From `thinning` sweeps per draw on, chains stop when
        the abilities have converged or another round would exceed the budget.
    progress : bool
        Show a progress bar, if stderr is a terminal.
    announce : callable, optional
        Called with a forecast of the running time before sampling starts.
    checkpoint : Path, optional
        Folder for unfinished chains. Chains of the same call that are found there are resumed, with
        the same draws as in an uninterrupted run. The folder is removed at the end. Laplace has no
        chains, hence neither checkpoint nor progress bar.
    mesh : jax.sharding.Mesh, optional
        Devices, possibly of several processes, among which the subjects' responses are sharded.
        Every process makes the same call and gets the same draws; the first process shows progress
        and writes the checkpoint, in a folder that all processes can read.
    title : str
        Title of the progress bar.

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
        """Whether the mesh spans several processes."""
        return spans_processes(self.mesh)

    @property
    def speaks(self) -> bool:
        """Whether this process shows progress and writes the checkpoint."""
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
    """Show a progress bar and save unfinished chains, if the options request it.

    BLAS is limited to one thread: parallel chains that solve small systems would otherwise wait for
    each other's threads and take ten times as long.
    """
    saved = None
    if options.checkpoint is not None:
        sizes = options.num_chains, options.num_warmup, options.num_samples
        settings = (model, method, *sizes, options.thinning, options.target_accept)
        digest = fingerprint(responses, init, key, settings, options.mesh)
        saved = Checkpoint(options.checkpoint, digest, options.speaks)
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
    """Return a hash of everything that the draws depend on, the same in every process.

    Different settings must have different `repr`.
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
