"""Errors of prediction beyond the model, measured on reference subjects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.bank.suite.draws import draw_unseen, expected_right, problem_of
from bayesirt.bank.suite.table import SuiteTable, suite_table
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.subject_scores import score_subjects

_N_DRAWS = 400


@dataclass(frozen=True)
class Excess:
    """Errors of the predictions of a benchmark beyond what the model expects."""

    # Variance of the error of the mean over unseen items, beyond the model's; at least 0.
    variance: float
    p_irt_error: float  # Mean absolute error of the p-IRT accuracy of the benchmark.
    # Variance of a subject's answers over the benchmark, averaged over subjects.
    response_variance: float
    # Covariance, beyond the model's, with the errors of other benchmarks.
    shared: Mapping[str, float] = field(default_factory=dict)
    n_subjects: int = 0  # Number of subjects measured.

    def anchor_share(self, n_anchors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return λ, the weight of the anchor mean in gp-IRT, given numbers of answered anchors."""
        squared = self.p_irt_error**2
        noise = self.response_variance / (4 * np.maximum(n_anchors, 1))
        total = np.maximum(noise + squared, np.finfo(float).tiny)
        return np.where(n_anchors > 0, squared / total, 0.0)


def measure_excess(
    items: KnownItems,
    benchmarks: Sequence[str],
    responses: Responses,
    *,
    anchors: Mapping[str, Mapping[str, float]],
    key: Array,
    n_draws: int = _N_DRAWS,
    progress: bool = False,
) -> dict[str, Excess]:
    """Measure each benchmark's errors of prediction for reference subjects, given only anchors.

    For subject i and benchmark b, let e_ib be the mean of the answers other than anchors minus its
    posterior mean, and V_i its covariance under the model. The excess is the mean over subjects of
    e_ib e_ic - V_ibc, and at least 0 for b = c. Bias is not removed: it counts as variance.
    Subjects that helped to calibrate these items are predicted better than new ones will be, as the
    items were fitted to their answers; the excess is then too small. Pass held-out subjects if
    there are any.
    """
    table = suite_table(items, benchmarks, responses)
    is_anchor = table.weights_of(anchors) > 0
    p_irt_theta = _from_anchors(table, is_anchor)
    open_cells = (table.trials > 0) & ~is_anchor
    problem = problem_of(
        table.items,
        table.belongs,
        np.where(is_anchor, table.successes, 0),
        np.where(is_anchor, table.trials, 0),
        open_cells,
    )
    draws = draw_unseen(problem, key=key, n_draws=n_draws, progress=progress)
    n_open = table.per_benchmark(open_cells)
    n_known = table.per_benchmark(table.trials > 0)
    right = table.per_benchmark(np.where(open_cells, table.share, 0))
    beyond, counts = _beyond_model(right, n_open, draws.expected, draws.chance)

    off = (expected_right(problem, p_irt_theta)[0] - right) / np.maximum(n_known, 1)
    accuracy = table.per_benchmark(table.share) / np.maximum(n_known, 1)
    spread = table.per_benchmark(table.share**2) / np.maximum(n_known, 1) - accuracy**2
    weights = (n_known > 0) / np.maximum((n_known > 0).sum(0), 1)
    errors, spreads = (np.abs(off) * weights).sum(0), (spread * weights).sum(0)
    names = table.benchmarks
    return {
        name: Excess(
            max(0.0, float(beyond[b, b])),
            float(errors[b]),
            float(spreads[b]),
            {other: float(beyond[b, c]) for c, other in enumerate(names) if c != b},
            int(counts[b, b]),
        )
        for b, name in enumerate(names)
    }


def excess_covariance(
    excess: Mapping[str, Excess] | None, benchmarks: Sequence[str]
) -> NDArray[np.float64]:
    """Return the covariance of errors beyond the model."""
    excess = excess or {}
    n = len(benchmarks)
    covariance = np.zeros((n, n))
    for b, name in enumerate(benchmarks):
        benchmark_excess = excess.get(name)
        if benchmark_excess is not None:
            shared = [benchmark_excess.shared.get(other, 0.0) for other in benchmarks]
            covariance[b] = shared
            covariance[b, b] = benchmark_excess.variance
    scale = np.sqrt(np.diag(covariance))
    both = np.where(covariance.T == 0, covariance, (covariance + covariance.T) / 2)
    both = np.where(covariance == 0, covariance.T, both)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.nan_to_num(both / np.outer(scale, scale), nan=0.0, posinf=0, neginf=0)
    values, vectors = np.linalg.eigh(np.clip(correlation, -1, 1))
    closest = (vectors * np.maximum(values, 0)) @ vectors.T
    width = np.sqrt(np.maximum(np.diag(closest), np.finfo(float).tiny))
    result: NDArray[np.float64] = closest / np.outer(width, width) * np.outer(scale, scale)
    return result


def _from_anchors(table: SuiteTable, is_anchor: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Estimate abilities from answers to anchors only."""
    names = {name for name, flag in zip(table.items.names, is_anchor, strict=True) if flag}
    positions = np.flatnonzero([name in names for name in table.responses.items])
    if not len(positions):
        raise ResponseError(
            "reference subjects answered no anchor; pass their answers to all items, with anchors"
        )
    answers = table.responses.select(np.arange(len(table.trials)), positions)
    return score_subjects(answers, table.items, how="mle").theta


def _beyond_model(
    right: NDArray[np.float64],
    n_open: NDArray[np.float64],
    expected: NDArray[np.float64],
    chance: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean products of errors minus the model's covariances, and numbers of subjects."""
    n, seen = np.maximum(n_open, 1), (n_open > 0).astype(float)
    share = expected / n
    errors = right / n - share.mean(0)
    centred = (share - share.mean(0)) * seen
    model = np.einsum("sib,sic->bc", centred, centred) / (len(expected) - 1)
    model += np.diag((chance.mean(0) / n**2).sum(0))
    errors *= seen
    counts = seen.T @ seen
    return (errors.T @ errors - model) / np.maximum(counts, 1), counts
