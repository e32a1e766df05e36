"""Small item banks, and a way to interrupt any of their file operations."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.step import BankItems, BankStep, ReferenceSubjects
from bayesirt.estimators.fixed_items import KnownItems

OPERATIONS = frozenset(
    ["open", "fsync", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.listdir", "os.scandir"]
)


def items_of(benchmark: str, n_items: int = 3, n_abilities: int = 2, seed: int = 0) -> BankItems:
    """Return items of a benchmark; the first and the last are anchors."""
    rng = np.random.default_rng(seed)
    names = tuple(f"{benchmark} {j}" for j in range(1, n_items + 1))
    k = n_abilities
    a, d, covariance = (rng.normal(size=(n_items, *shape)) for shape in ((k,), (), (k + 1, k + 1)))
    weights = np.full(n_items, np.nan)
    weights[[0, -1]] = 0.25, 0.75
    return BankItems(KnownItems(names, a, d, covariance), (benchmark,) * n_items, weights)


def subjects_of(n_abilities: int = 2, n_benchmarks: int = 1, seed: int = 0) -> ReferenceSubjects:
    rng = np.random.default_rng(seed)
    k = n_abilities
    theta, covariance = rng.normal(size=(3, k)), rng.normal(size=(3, k, k))
    accuracy = rng.uniform(size=(3, n_benchmarks))
    accuracy[0] = np.nan
    return ReferenceSubjects(("gpt", "llama", "qwen"), theta, covariance, accuracy)


def answers_to(*items: str, subjects: tuple[str, ...] = ("gpt", "llama")) -> pd.DataFrame:
    rows = [(s, j, k % 2, 1 + k % 3) for k, s in enumerate(subjects) for j in items]
    return pd.DataFrame(rows, columns=["subject", "item", "successes", "trials"])


def scores_of(*benchmarks: str, subject: str = "new") -> pd.DataFrame:
    return pd.DataFrame(
        {
            "subject": subject,
            "benchmark": list(benchmarks),
            "accuracy": 0.5,
            "low": 0.25,
            "high": 0.75,
            "method": "gp-IRT",
        }
    )


def items_step(benchmark: str, kind: str = "create", **others: object) -> BankStep:
    """Return a step with items and every optional part."""
    parts = {
        "items": items_of(benchmark),
        "subjects": subjects_of(),
        "answers": answers_to(f"{benchmark} 1", f"{benchmark} 3"),
        "figures": {benchmark: {"variance": 0.01, "error": 0.1}},
        "settings": {"anchors": 2, "note": "naïve"},
        "source": {"name": f"{benchmark}.csv", "sha256": "0" * 64},
    }
    return BankStep(kind, **parts | others)


def score_step(*benchmarks: str, subject: str = "new") -> BankStep:
    anchors = [f"{name} {j}" for name in benchmarks for j in (1, 3)]
    return BankStep(
        "score",
        answers=answers_to(*anchors, subjects=(subject,)),
        scores=scores_of(*benchmarks, subject=subject),
    )


def assert_same_bank(found: ItemBank, wanted: ItemBank) -> None:
    assert found.n_abilities == wanted.n_abilities
    assert found.step_names == wanted.step_names
    for one, other in zip(found.steps, wanted.steps, strict=True):
        assert_same_step(one, other)


def assert_same_step(found: BankStep, wanted: BankStep) -> None:
    for name in ("kind", "figures", "settings", "source", "versions"):
        assert getattr(found, name) == getattr(wanted, name)
    for name in ("items", "subjects"):
        one, other = getattr(found, name), getattr(wanted, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert_same_parts(one, other)
    for name in ("answers", "scores"):
        one, other = getattr(found, name), getattr(wanted, name)
        assert (one is None) == (other is None)
        if one is not None:
            pd.testing.assert_frame_equal(one, other, check_exact=True)


def assert_same_parts(found: object, wanted: object) -> None:
    """Compare dataclasses of names and arrays to the last bit."""
    for name, other in vars(wanted).items():
        one = getattr(found, name)
        if isinstance(other, np.ndarray):
            np.testing.assert_array_equal(one, other, strict=True)
        elif isinstance(other, KnownItems):
            assert_same_parts(one, other)
        else:
            assert one == other


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "bank.lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def python(code: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    paths = {"PYTHONPATH": str(Path(__file__).parent)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=os.environ | paths, text=True, **pipes)


def finished(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


_watchers: list[Callable[[str, tuple[object, ...]], None]] = []


def _watch(event: str, args: tuple[object, ...]) -> None:
    for watcher in _watchers:
        watcher(event, args)


sys.addaudithook(_watch)


@contextmanager
def breaking_in(folder: Path, at: int, action: Callable[[], None]) -> Iterator[list[str]]:
    """Run an action before the n-th file operation below a folder's parent; yield those so far."""
    seen: list[str] = []
    fsync = os.fsync

    def watcher(event: str, args: tuple[object, ...]) -> None:
        if event in OPERATIONS and str(args[0]).startswith(str(folder.parent)):
            seen.append(event)
            if len(seen) == at:
                action()

    def watched_fsync(handle: int) -> None:
        watcher("fsync", (folder,))
        fsync(handle)

    _watchers.append(watcher)
    os.fsync = watched_fsync
    try:
        yield seen
    finally:
        os.fsync = fsync
        _watchers.remove(watcher)
