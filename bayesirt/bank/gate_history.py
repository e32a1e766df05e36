"""The difference of two subjects through an item bank."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Array

from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.parts import kept_excess
from bayesirt.bank.suite.scores import predict_suite
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.names import counted
from bayesirt.ranking.calibrated_difference import LEAST_KNOWN, CalibratedDifference


def through_bank(
    bank: ItemBank, *, key: Array, n_draws: int = 4000
) -> Callable[[Responses, str, str], CalibratedDifference]:
    """Return what `bayesirt.gate` takes as ``history``: predicted scores on benchmarks."""

    def difference(responses: Responses, baseline: str, candidate: str) -> CalibratedDifference:
        rows = np.array([responses.subjects.index(name) for name in (baseline, candidate)])
        _, trials = responses.cells.matrices()
        answered = trials[rows].any(0)
        known = answered & np.isin(np.array(responses.items, object), bank.items.names)
        if known.sum() < LEAST_KNOWN * answered.sum() or not trials[rows][:, known].any(1).all():
            raise ResponseError(
                f"the bank holds {known.sum()} of the {answered.sum()} questions; it must be of "
                f"this suite"
            )
        scores = predict_suite(
            bank.items,
            bank.benchmarks,
            responses.select(rows, np.flatnonzero(known)),
            anchors={name: bank.anchors(name) for name in bank.benchmark_names},
            key=key,
            excess=kept_excess(bank),
            n_draws=n_draws,
        )
        at = [scores.subjects.index(name) for name in (baseline, candidate)]
        one, two = (scores.draws[:, k].mean(1) for k in at)
        values = np.sort(two - one).astype(np.float64)
        weights = np.full(len(values), 1 / len(values))
        source = counted(len(bank.benchmark_names), "benchmark") + " of the bank"
        return CalibratedDifference(values, weights, len(bank.benchmarks), source)

    return difference
