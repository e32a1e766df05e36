"""How many items an ability needs, chosen one after another (Xu et al., 2026, 6.3.2)."""

from dataclasses import dataclass

import numpy as np

from bayesirt.data.responses import Responses
from bayesirt.likelihood.latencies import SpeedEvidence
from bayesirt.studies.engine import Places, Row
from bayesirt.studies.lart_scoring import (
    Cells,
    Items,
    Matrix,
    item_information,
    posterior_on_grid,
    score_abilities,
    speed_evidence,
)
from bayesirt.studies.lart_tasks import EM_METHODS, fit_model
from bayesirt.studies.rank_correlation import spearman

ITEM_COLUMNS = ("distance", "rho", "rho_accuracy")

_FIRST_ITEMS = 10
_SHOWN = (15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 400)


@dataclass(frozen=True)
class ItemTask:
    """Abilities after more and more items, each chosen by what the ones before have told."""

    responses: Responses

    part = "item_efficiency"

    @property
    def counts(self) -> list[int]:
        """Numbers of items after which abilities are looked at."""
        j = self.responses.n_items
        return [min(_FIRST_ITEMS, j), *(n for n in _SHOWN if n < j)]

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        return [(self.part, (n, name)) for n in self.counts for name in EM_METHODS]

    def run(self) -> list[Row]:
        """Return a row for each number of items and method."""
        cells = Cells.of(self.responses)
        accuracy = cells.accuracy(np.arange(self.responses.n_items))
        rows: list[Row] = []
        for name in EM_METHODS:
            items = Items.of(fit_model(name, self.responses))
            whole = score_abilities(items, cells).mean
            for n, theta in adaptive_abilities(items, cells, self.counts).items():
                row: Row = {"part": self.part, "n_items": n, "method": name}
                row["distance"] = float(np.sqrt(np.mean((theta - whole) ** 2)))
                row["rho"] = float(spearman(whole, theta))
                row["rho_accuracy"] = float(spearman(accuracy, theta))
                rows.append(row)
        return rows


def adaptive_abilities(items: Items, cells: Cells, counts: list[int]) -> dict[int, Matrix]:
    """Return abilities after some numbers of items, each subject's chosen for itself.

    Posterior means, by the number of items.

    Xu et al. (2026), 6.3.2: the next item is the one with the largest information at the estimate
    so far (equation 10). An item that a subject was not given is never chosen.
    """
    n, j = cells.trials.shape
    asked = np.zeros((n, j), bool)
    asked[:, : counts[0]] = True
    of_right, of_wrong = (x.T for x in items.log_probabilities())
    wrong, rows = cells.trials - cells.successes, np.arange(n)
    total = (cells.successes * asked) @ of_right + (wrong * asked) @ of_wrong
    evidence = speed_evidence(items, cells, asked)
    seen = np.isfinite(cells.x)
    precision = np.where(seen, items.phi**2 / items.lam, 0.0)
    pull = -np.where(seen, (cells.x - items.omega) * items.phi / items.lam, 0.0)
    found: dict[int, Matrix] = {}
    for count in range(counts[0], counts[-1] + 1):
        theta = posterior_on_grid(total, evidence, items.rho).mean
        if count in counts:
            found[count] = theta
        told = item_information(items, theta)
        told[asked | (cells.trials == 0)] = -np.inf
        best, any_left = told.argmax(1), np.isfinite(told.max(1))
        asked[rows, best] = True
        right, missed = cells.successes[rows, best], wrong[rows, best]
        step = right[:, None] * of_right[best] + missed[:, None] * of_wrong[best]
        total += any_left[:, None] * step
        evidence = SpeedEvidence(
            evidence.precision + any_left * precision[rows, best],
            evidence.pull + any_left * pull[rows, best],
        )
    return found
