"""Work in other threads: XLA and NumPy compute outside of Python's lock."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread, main_thread
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

Result = TypeVar("Result")


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return the results of calls that run at the same time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(_as_precise(call)) for call in calls]]


def in_background(function: Callable[[], Result]) -> Future[Result]:
    """Call a function in another thread.

    Python waits for it before it exits, so a long function calls `stop_at_exit` now and then.
    """
    future: Future[Result] = Future()
    call = _as_precise(function)

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run).start()
    return future


def stop_at_exit() -> None:
    """Raise SystemExit if Python is exiting and waits for this thread."""
    if not main_thread().is_alive():
        raise SystemExit


def _as_precise(function: Callable[[], Result]) -> Callable[[], Result]:
    """Return the function with the precision set at this moment, as each thread has its own."""
    x64 = jnp.result_type(float) == jnp.float64

    def call() -> Result:
        with jax.enable_x64(x64):
            return function()

    return call
