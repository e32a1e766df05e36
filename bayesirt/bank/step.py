"""Steps of an item bank, which add calibrated items with their anchors, or scores."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.bank.tables import clean_answers, clean_scores
from bayesirt.errors import ResponseError
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.names import check_names, one_line
from bayesirt.ranking.record import versions

StepKind = Literal["create", "add", "score"]
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class BankItems:
    """Calibrated items of one or several benchmarks, with the anchors among them."""

    known: KnownItems
    benchmarks: tuple[str, ...]  # Benchmark of each item.
    # shape (item,). Share of its benchmark that an anchor represents; NaN for other items.
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        n = len(self.known.names)
        if not n:
            raise ResponseError("a benchmark needs at least one item")
        for name, length in (("benchmarks", len(self.benchmarks)), ("weights", len(self.weights))):
            if length != n:
                raise ResponseError(f"{n} items, but {length} `{name}`; give one per item")
        check_names(self.benchmark_names, "benchmark")
        for benchmark in self.benchmark_names:
            weights = np.array(list(self.anchors(benchmark).values()))
            if not ((weights > 0).all() and abs(weights.sum() - 1) < _ROUNDING):
                raise ResponseError(
                    f"the weights of the {len(weights)} anchors of benchmark "
                    f"{one_line(benchmark)!r} must be above 0 and sum to 1; their sum is "
                    f"{weights.sum():.12g}"
                )

    @property
    def benchmark_names(self) -> tuple[str, ...]:
        """Benchmarks in order of their first items."""
        return tuple(dict.fromkeys(self.benchmarks))

    def anchors(self, benchmark: str) -> dict[str, float]:
        """Return the weights of a benchmark's anchors, by item."""
        return {
            name: float(weight)
            for name, home, weight in zip(
                self.known.names, self.benchmarks, self.weights, strict=True
            )
            if home == benchmark and not np.isnan(weight)
        }


@dataclass(frozen=True, eq=False)
class ReferenceSubjects:
    """Subjects that items were calibrated with."""

    names: tuple[str, ...]
    theta: NDArray[np.float64]  # shape (subject, ability). On the bank's scale.
    covariance: NDArray[np.float64]  # shape (subject, ability, ability)
    # shape (subject, benchmark). Proportion correct of each benchmark; NaN unless all its items
    # were answered.
    accuracy: NDArray[np.float64]

    def __post_init__(self) -> None:
        check_names(self.names, "reference subject")
        n, k, b = len(self.names), self.theta.shape[-1], self.accuracy.shape[-1]
        for name, shape in {"theta": (n, k), "covariance": (n, k, k), "accuracy": (n, b)}.items():
            values = getattr(self, name)
            if values.shape != shape:
                raise ResponseError(
                    f"`{name}` of {n} reference subjects has shape {values.shape}; it must be "
                    f"{shape}"
                )
            missing = np.isnan(values) if name == "accuracy" else False
            wrong = ~(np.isfinite(values) | missing)
            if wrong.any():
                subject = one_line(self.names[int(np.argwhere(wrong)[0][0])])
                raise ResponseError(
                    f"`{name}` of reference subject {subject!r} is not finite; leave it out"
                )


@dataclass(frozen=True, eq=False)
class BankStep:
    """One step of a bank; tables are copied, and dictionaries converted as by JSON."""

    kind: StepKind  # The first benchmarks, further ones, or scores of subjects.
    items: BankItems | None = None  # None in a step that scores.
    subjects: ReferenceSubjects | None = None  # None in a step that scores.
    # Answers of reference or scored subjects to anchors: `ANSWER_COLUMNS` of `Responses.to_long`.
    answers: pd.DataFrame | None = None
    # In a step that scores: `SCORE_COLUMNS` and any others, of numbers, text or booleans.
    scores: pd.DataFrame | None = None
    # Measurements of each benchmark, by name.
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    # The chosen options, and where the answers came from.
    settings: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    # Versions of the packages that the numbers depend on.
    versions: dict[str, Any] = field(default_factory=versions)

    def __post_init__(self) -> None:
        _check_parts(self)
        if self.answers is not None:
            object.__setattr__(self, "answers", clean_answers(self.answers))
        if self.scores is not None:
            object.__setattr__(self, "scores", clean_scores(self.scores))
        for name in ("figures", "settings", "source", "versions"):
            object.__setattr__(self, name, _as_json(getattr(self, name), name))
        for benchmark, data in self.figures.items():
            good = isinstance(data, dict) and all(isinstance(x, int | float) for x in data.values())
            if not good:
                raise ResponseError(
                    f"`figures` of benchmark {one_line(benchmark)!r} must hold numbers by name"
                )


def _check_parts(step: BankStep) -> None:
    if step.kind not in get_args(StepKind):
        kinds = ", ".join(get_args(StepKind))
        raise ResponseError(f"a step's kind must be one of {kinds}, got {step.kind!r}")
    scores = step.kind == "score"
    part, others = ("scores", ["items", "subjects"]) if scores else ("items", ["scores"])
    if getattr(step, part) is None:
        raise ResponseError(f"a step of kind {step.kind!r} must have `{part}`")
    for name in others:
        if getattr(step, name) is not None:
            raise ResponseError(f"a step of kind {step.kind!r} has no `{name}`; leave it out")
    if step.items is None or step.subjects is None:
        return
    theta, accuracy = step.subjects.theta.shape[1], step.subjects.accuracy.shape[1]
    if theta != step.items.known.n_abilities:
        raise ResponseError(
            f"reference subjects have {theta} abilities, but items have "
            f"{step.items.known.n_abilities}; estimate the subjects' abilities with these items"
        )
    if accuracy != len(step.items.benchmark_names):
        raise ResponseError(
            f"reference subjects have accuracies on {accuracy} benchmarks, but the items belong to "
            f"{len(step.items.benchmark_names)}; give one column per benchmark, in their order"
        )


def _as_json(values: dict[str, Any], name: str) -> Any:
    try:
        copy = json.loads(json.dumps(values, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ResponseError(
            f"`{name}` of a step cannot be stored as JSON ({one_line(str(error), 120)}); use only "
            f"text, finite numbers, lists and dictionaries"
        ) from error
    if not isinstance(copy, dict):
        raise ResponseError(f"`{name}` of a step must be a dictionary")
    return copy
