"""How long work takes, and how much of that is compiling."""

import time
from types import TracebackType

import jax

_COMPILING = frozenset(
    [
        "/jax/core/compile/jaxpr_to_mlir_module_duration",
        "/jax/core/compile/backend_compile_duration",
    ]
)
_clocks: list["CompileClock"] = []
_listening: list[bool] = []


class CompileClock:
    """A stopwatch for the work within a `with` block, in this process."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.compiling = 0.0

    def __enter__(self) -> "CompileClock":
        if not _listening:
            jax.monitoring.register_event_duration_secs_listener(_hear)
            _listening.append(True)
        _clocks.append(self)
        self._start = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.seconds = time.perf_counter() - self._start
        _clocks.remove(self)


def _hear(event: str, duration_secs: float, **_: str | int) -> None:
    if event in _COMPILING:
        for clock in _clocks:
            clock.compiling += duration_secs
