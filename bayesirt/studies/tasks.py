"""Running the tasks of studies in one or several processes, their keys, and timed fits."""

import concurrent.futures
import multiprocessing
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bayesirt.errors import ResponseError
from bayesirt.estimators.iteration import ConvergenceWarning
from bayesirt.inference.options import RunOptions

Found = TypeVar("Found")


def quietly(fit: Callable[..., Found], *given: Any, **options: Any) -> Found:
    """Return an estimate without warnings; it records itself whether it converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(*given, **options)


def timed(fit: Callable[..., Found], *given: Any, **options: Any) -> tuple[Found, float]:
    """Return an estimate or a posterior, and the seconds it took."""
    start = time.perf_counter()
    result = quietly(fit, *given, **options)
    return result, time.perf_counter() - start


def two_chains(draws: int, **options: Any) -> RunOptions:
    """Return options of two chains, each with half as many warm-up sweeps as draws."""
    return RunOptions(num_chains=2, num_warmup=draws // 2, num_samples=draws, **options)


_COMPILING = frozenset(
    f"/jax/core/compile/{what}_duration" for what in ("jaxpr_to_mlir_module", "backend_compile")
)


class CompileClock:
    """Seconds of work in this process, and the part of them spent on compiling."""

    seconds = compiling = 0.0


@contextmanager
def compile_clock() -> Iterator[CompileClock]:
    """Time the work within a `with` block."""
    heard, clock = _heard(), CompileClock()
    start, n_before = time.perf_counter(), len(heard)
    yield clock
    clock.seconds, clock.compiling = time.perf_counter() - start, sum(heard[n_before:])


@cache
def _heard() -> list[float]:
    """Return a list that JAX's compile times in this process are appended to."""
    seconds: list[float] = []

    def hear(event: str, duration_secs: float, **_: str | int) -> None:
        if event in _COMPILING:
            seconds.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(hear)
    return seconds


_INHERITED = (
    "jax_enable_x64",
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
)
Row = dict[str, Any]
_PATIENCE = 10  # Seconds to wait for a Dask scheduler.


class PortableKey(NamedTuple):
    """A key that can be sent to another process."""

    impl: str
    words: list[int]

    @classmethod
    def of(cls, key: Array) -> "PortableKey":
        """Convert a key."""
        return cls(str(jax.random.key_impl(key)), np.asarray(jax.random.key_data(key)).tolist())

    def key(self) -> Array:
        """Return the key."""
        return jax.random.wrap_key_data(jnp.asarray(self.words, jnp.uint32), impl=self.impl)

    def folded(self, *what: int | str) -> Array:
        """Return the key of a piece of work, which does not depend on when or where it runs."""
        key = self.key()
        for number in map(_as_number, what):
            key = jax.random.fold_in(key, number)
        return key

    def rng(self, *what: int | str) -> np.random.Generator:
        """Return NumPy's generator for a piece of work."""
        return np.random.default_rng([*self.words, *map(_as_number, what)])


def _as_number(key: int | str) -> int:
    return zlib.crc32(key.encode()) if isinstance(key, str) else key


class Task(NamedTuple):
    """A piece of work, and the rows that it produces."""

    places: Sequence[tuple[str, tuple[Any, ...]]]  # Part and place of each row.
    work: Callable[[], Sequence[Row]]  # Returns the measures at each place, in order.


def run_tasks(
    tasks: Sequence[Task], n_processes: int, scheduler: str | None = None
) -> Iterator[tuple[Task, Sequence[Row]]]:
    """Yield each task with its rows when it ends."""
    if n_processes == 1 and scheduler is None:
        yield from ((task, task.work()) for task in tasks)
        return
    inherited = {name: getattr(jax.config, name) for name in _INHERITED}
    with _pool(n_processes, scheduler) as pool:
        futures = {pool.submit(_run_as_here, inherited, task.work): task for task in tasks}
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result()


@contextmanager
def _pool(n_processes: int, scheduler: str | None) -> Iterator[concurrent.futures.Executor]:
    if scheduler is None:
        fresh = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(n_processes, fresh) as pool:
            try:
                yield pool
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ResponseError(
            "Dask is not installed; pip install 'bayesirt[dask]', or use processes on this host"
        ) from error
    try:
        client = Client(scheduler, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise ResponseError(
            f"no Dask scheduler answers at {scheduler!r}; start one with dask scheduler"
        ) from error
    with client:
        yield client.get_executor()


def _run_as_here(settings: Mapping[str, Any], work: Callable[[], Sequence[Row]]) -> Sequence[Row]:
    """Run work in another process, with the configuration of the sending process."""
    for name, value in settings.items():
        jax.config.update(name, value)
    return work()
