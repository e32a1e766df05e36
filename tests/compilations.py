"""Counts of what XLA compiles."""

import jax


class CountCompilations:
    """Count what XLA compiles."""

    def __enter__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return lambda: self.count

    def _listen(self, event, *_, **__):
        self.count += event == "/jax/core/compile/backend_compile_duration"

    def __exit__(self, *_):
        jax.monitoring.clear_event_listeners()
