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
        verdict = gate(given, **options)
        if verdict.passes is False or (verdict.passes is None and undecided == "fail"):
            pytest.fail(verdict.to_text(), pytrace=False)
        if verdict.passes is None and undecided == "skip":
            pytest.skip(verdict.to_text())
        return verdict

    return check
