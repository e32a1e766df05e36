"""Answers and known items in a canonical order, independent of the order of the input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.names import one_line


@dataclass(frozen=True, eq=False)
class SuiteTable:
    """Answers to the items of a suite.

    Subjects, items and benchmarks are sorted by name, so that random numbers do not depend on the
    order of the input.
    """

    responses: Responses  # Responses to known items only.
    items: KnownItems
    benchmarks: tuple[str, ...]
    belongs: NDArray[np.intp]  # shape (item,). Position of each item's benchmark.
    # shape (subject, item)
    successes: NDArray[np.integer]
    trials: NDArray[np.integer]

    @property
    def share(self) -> NDArray[np.float64]:
        """Proportion correct of each cell, 0 without trials; shape (subject, item)."""
        return self.successes / np.maximum(self.trials, 1)

    def per_benchmark(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return sums over the items of each benchmark, shape (..., benchmark)."""
        return values @ np.eye(len(self.benchmarks))[self.belongs]

    def weights_of(self, anchors: Mapping[str, Mapping[str, float]]) -> NDArray[np.float64]:
        """Return the weight of each item in its benchmark's anchor mean, 0 for other items."""
        position = {name: j for j, name in enumerate(self.items.names)}
        weights = np.zeros(len(position))
        for benchmark, anchor_weights in anchors.items():
            if benchmark not in self.benchmarks:
                raise ResponseError(
                    f"anchors are given for the benchmark {one_line(benchmark)!r}, which has no "
                    f"known item; leave it out"
                )
            home = self.benchmarks.index(benchmark)
            for name, weight in anchor_weights.items():
                if name not in position or self.belongs[position[name]] != home:
                    raise ResponseError(
                        f"the anchor {one_line(name)!r} is not a known item of the benchmark "
                        f"{one_line(benchmark)!r}; choose anchors from its items"
                    )
                weights[position[name]] = weight
        return weights


def suite_table(items: KnownItems, benchmarks: Sequence[str], answers: Responses) -> SuiteTable:
    """Match answers with known items, in canonical order."""
    if len(benchmarks) != len(items.names):
        raise ResponseError(
            f"{len(items.names)} known items but {len(benchmarks)} benchmarks; give one per item"
        )
    names, belongs = np.unique(np.asarray(benchmarks, object).astype(str), return_inverse=True)
    order = name_order(items.names)
    known = items.select(order)
    columns = known.within(answers)[1]
    answered = answers.cells.matrices()[1][:, columns].any(1)
    if not answered.all():
        name = one_line(answers.subjects[int(np.argmin(answered))])
        raise ResponseError(
            f"subject {name!r} answered none of the {len(order)} known items "
            f"({(~answered).sum()} such subjects); have it answer anchors, or leave it out"
        )
    columns = columns[name_order([answers.items[j] for j in columns])]
    responses = answers.select(name_order(answers.subjects), columns)
    position = {name: j for j, name in enumerate(known.names)}
    at = np.array([position[name] for name in responses.items])
    successes, trials = (_spread(matrix, at, len(order)) for matrix in responses.cells.matrices())
    return SuiteTable(
        responses, known, tuple(map(str, names)), belongs[order].astype(np.intp), successes, trials
    )


def name_order(names: Sequence[str]) -> NDArray[np.intp]:
    """Return positions sorted by name."""
    return np.argsort(np.asarray(names, object), kind="stable").astype(np.intp)


def _spread(matrix: NDArray[np.integer], at: NDArray[np.intp], n_items: int) -> NDArray[np.integer]:
    whole = np.zeros((len(matrix), n_items), matrix.dtype)
    whole[:, at] = matrix
    return whole
