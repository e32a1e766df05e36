"""The record of a run, from which it can be reproduced."""

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

from bayesirt import __version__
from bayesirt.data.responses import Responses
from bayesirt.names import one_line
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.ranking.settings import Sampling

SettingsT = TypeVar("SettingsT", bound=Sampling)


@dataclass(frozen=True)
class DataFacts:
    """The data that were read."""

    source: str  # The name of the file or folder.
    sha256: str  # Of its contents; empty for data from memory.
    subjects: int
    items: int
    responses: int
    # How it was read: the options that were given, by name.
    reading: dict[str, Any] = field(default_factory=dict)

    def of_part(self, responses: Responses) -> "DataFacts":
        """Return the facts of a part of these data."""
        n, m = responses.n_subjects, responses.n_items
        return replace(self, subjects=n, items=m, responses=responses.n_observed)


@dataclass(frozen=True)
class Record(Generic[SettingsT]):
    """Everything needed to reproduce a run."""

    settings: SettingsT  # What the user chose.
    data: DataFacts
    versions: dict[str, str]
    seconds: dict[str, float]  # Wall time of each step, compilation included.
    diagnostics: dict[str, Any]

    def made_by(self) -> list[tuple[str, str]]:
        """Return titles and values for display."""
        s, d = self.settings, self.data
        return [
            ("Data", f"{d.source} (SHA-256 {d.sha256[:16] or 'none: from memory'})"),
            *([("Read with", _listed(d.reading))] if d.reading else []),
            ("Model", s.describe_model()),
            ("Point estimate", self.diagnostics["point_estimator"]),
            ("Sampling", self._sampling()),
            ("Seed", str(s.seed)),
            ("Versions", ", ".join(f"{k} {v}" for k, v in self.versions.items())),
            ("Seconds", ", ".join(f"{k} {v:.1f}" for k, v in self.seconds.items())),
        ]

    def _sampling(self) -> str:
        s, engine = self.settings, self.diagnostics["engine"]
        if engine == "laplace":
            return f"Laplace approximation, {s.chains * s.draws:,} independent draws"
        name = {"nuts": "NUTS", "blocked": "Blocked Newton-Metropolis"}[engine]
        return f"{name}, {s.chains} chains x {s.draws} draws after {s.warmup}"

    def to_json(self) -> str:
        """Return what `run.json` holds."""
        return json.dumps(asdict(self), indent=2, allow_nan=True) + "\n"

    @classmethod
    def from_json(
        cls, text: str, settings: Callable[[dict[str, Any]], SettingsT]
    ) -> "Record[SettingsT]":
        """Read what `to_json` wrote; `settings` converts the stored dictionary of settings."""
        stored = json.loads(text)
        stored["settings"] = settings(stored["settings"])
        stored["data"] = DataFacts(**stored["data"])
        return cls(**stored)


def _listed(reading: Mapping[str, Any]) -> str:
    """Return options in words: ``metric acc, threshold 0.5``."""
    options = []
    for name, value in reading.items():
        values = value if isinstance(value, list | tuple) else [value]
        shown = " and ".join(one_line(str(v), 60) for v in values)
        options.append(name.replace("_", " ") + ("" if value is True else f" {shown}"))
    return ", ".join(options)


def facts_of(
    responses: Responses, source: Path | None = None, reading: Mapping[str, Any] | None = None
) -> DataFacts:
    """Return what was read, from which file, and how."""
    return DataFacts(
        source.name if source else "memory",
        sha256_of(source) if source else "",
        responses.n_subjects,
        responses.n_items,
        responses.n_observed,
        dict(reading or {}),
    )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of a folder's readable files."""
    if not path.is_dir():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for file_path in sorted(path.rglob("*")):
        if file_path.is_file() and not file_path.is_symlink() and os.access(file_path, os.R_OK):
            line = f"{sha256_of(file_path)}  {file_path.relative_to(path)}\n"
            digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def diagnostics_of(point: PointEstimate, posterior: Posterior) -> dict[str, Any]:
    """Return the verdict on the draws, and the engine and estimator behind them."""
    return asdict(posterior.verdict) | {
        "engine": posterior.tree.attrs["engine"],
        "point_estimator": point.settings["estimator"],
        "point_converged": point.converged,
    }


def versions() -> dict[str, str]:
    """Return the versions that a run's numbers depend on."""
    packages = ("jax", "numpyro", "arviz-base", "numpy")
    return {
        "bayesirt": __version__,
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


@contextmanager
def timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    """Record how long a step took."""
    began = time.perf_counter()
    yield
    seconds[step] = time.perf_counter() - began
