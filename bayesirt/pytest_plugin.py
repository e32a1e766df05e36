"""The pytest fixture `bayesirt_gate`, which fails a test if a candidate regressed."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bayesirt.ranking.gate_result import Gate


@pytest.fixture
def bayesirt_gate() -> "Callable[..., Gate]":
    """Return a function that fails the test if the candidate regressed.

    It takes results (a path, or `Responses`) and the options of `bayesirt.gate`. An undecided
    verdict skips the test; with ``undecided="fail"`` it fails, and with ``"pass"`` it passes.
    """

    def check(results: Any, *, undecided: str = "skip", **options: Any) -> "Gate":
        from bayesirt import gate, read_responses

        if undecided not in ("skip", "fail", "pass"):
            raise ValueError(f"undecided must be skip, fail or pass, got {undecided!r}")
        given = read_responses(results) if isinstance(results, str | Path) else results
        found = gate(given, **options)
        if found.passes is False or (found.passes is None and undecided == "fail"):
            pytest.fail(found.to_text(), pytrace=False)
        if found.passes is None and undecided == "skip":
            pytest.skip(found.to_text())
        return found

    return check
