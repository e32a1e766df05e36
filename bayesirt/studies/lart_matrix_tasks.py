"""What lengths are worth on one matrix: prediction, validity, few items and few subjects.

Xu et al. (2026), 6.3.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

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
from bayesirt.studies.lart_splits import (
    N_FOLDS,
    SPLITS,
    first_subjects,
    item_folds,
    subject_folds,
    with_answers,
)
from bayesirt.studies.lart_suites import EM_METHODS, fit_model
from bayesirt.studies.measures import log_losses, spearman
from bayesirt.studies.tasks import PortableKey

PREDICTIONS = {
    "irt": "probit IRT",
    "lart": "LaRT, item not yet run",
    "lart length": "LaRT, length of the item known",
}
PREDICTION_COLUMNS = ("absolute_error", "log_score")
VALIDITY_COLUMNS = ("subjects", "variance_sum", "within_share", "rho_sets", "rho_rest")
ITEM_COLUMNS = ("distance", "rho", "rho_accuracy")
SUBJECT_COLUMNS = ("distance_a", "distance_d", "typical_a", "typical_d")
SHARES = (50 / 140, 75 / 140, 100 / 140, 125 / 140)
"""Of the subjects, in Table 2 of Xu et al. (2026)."""

_MOST_ITEMS = 100
_FIRST_ITEMS = 10
_SHOWN = (15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 400)


@dataclass(frozen=True)
class PredictionTask:
    """Every subject's answers predicted once, in one division of subjects and items."""

    repetition: int
    split: int  # Of `SPLITS`.
    responses: Responses
    groups: NDArray[np.intp]  # shape (subject,), What may not be divided between training and test.
    key: PortableKey  # The study's.

    part = "prediction"

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        subjects = range(self.responses.n_subjects)
        return [
            (self.part, (self.repetition, self.split, i, name))
            for i in subjects
            for name in PREDICTIONS
        ]

    def run(self) -> list[Row]:
        """Return a row for each subject and method."""
        rng = self.key.rng(self.part, self.repetition, self.split)
        everyone = np.arange(self.responses.n_subjects)
        rows: list[Row] = []
        for test in subject_folds(self.groups, N_FOLDS, rng):
            if len(test):
                folds = item_folds(self.responses.n_items, N_FOLDS, rng)
                rows += self._rows_of(np.setdiff1d(everyone, test), test, folds)
        return rows

    def _rows_of(
        self, train: NDArray[np.intp], test: NDArray[np.intp], folds: list[NDArray[np.intp]]
    ) -> list[Row]:
        subjects, kept = with_answers(self.responses, train, np.arange(self.responses.n_items))
        part = self.responses.select(subjects, kept)
        items = {name: Items.of(fit_model(name, part)) for name in EM_METHODS}
        cells = Cells.of(self.responses).rows(test).columns(kept)
        own = [np.flatnonzero(np.isin(kept, fold)) for fold in folds]
        scores = {
            name: predict_left_out(items[name.split()[0]], cells, own, "length" in name)
            for name in PREDICTIONS
        }
        head: Row = {"part": self.part, "repetition": self.repetition, "split": self.split}
        return [
            {**head, "subject": int(subject), "method": name}
            | {c: float(s[k]) for c, s in zip(PREDICTION_COLUMNS, scores[name], strict=True)}
            for k, subject in enumerate(test)
            for name in PREDICTIONS
        ]


def predict_left_out(
    items: Items, cells: Cells, folds: list[NDArray[np.intp]], length_known: bool
) -> tuple[Matrix, Matrix]:
    """Return each subject's mean error over items that its ability was estimated without."""
    plugged, predicted = np.zeros_like(cells.trials), np.zeros_like(cells.trials)
    for fold in folds:
        kept = np.ones(len(items.a), bool)
        kept[fold] = False
        scores = score_abilities(items, cells, kept, None if length_known else kept)
        plugged[:, fold] = scores.plugged_in(items)[:, fold]
        predicted[:, fold] = scores.predictive(items)[:, fold]
    wrong = cells.trials - cells.successes
    errors = cells.successes * (1 - plugged) + wrong * plugged
    logs = log_losses(predicted, cells.successes, wrong)
    n = np.where(cells.trials.sum(1) > 0, cells.trials.sum(1), np.nan)
    return errors.sum(1) / n, logs.sum(1) / n


def applied_splits(groups: NDArray[np.intp]) -> list[tuple[int, NDArray[np.intp]]]:
    """Return how subjects are divided: by row, and by base subject where some share one."""
    rows = np.arange(len(groups))
    kinds = [(SPLITS.index("by row"), rows)]
    if len(np.unique(groups)) < len(groups):
        kinds.append((SPLITS.index("by base subject"), groups))
    return kinds


@dataclass(frozen=True)
class ValidityTask:
    """Abilities by five disjoint sets of items."""

    repetition: int
    responses: Responses
    key: PortableKey  # The study's.

    part = "validity"

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        return [(self.part, (self.repetition, name)) for name in EM_METHODS]

    def run(self) -> list[Row]:
        """Return a row for each method."""
        rng = self.key.rng("validity", self.repetition)
        n, j = self.responses.cells.shape
        sets = item_folds(j, N_FOLDS, rng)
        theta = {name: np.full((N_FOLDS, n), np.nan) for name in EM_METHODS}
        for k, items in enumerate(sets):
            subjects, kept = with_answers(self.responses, np.arange(n), items)
            part = self.responses.select(subjects, kept)
            for name in EM_METHODS:
                theta[name][k, subjects] = fit_model(name, part)["theta"]
        cells = Cells.of(self.responses)
        rest = np.array([cells.accuracy(np.setdiff1d(np.arange(j), s)) for s in sets])
        head: Row = {"part": self.part, "repetition": self.repetition}
        return [
            {**head, "method": name, **agreement_of_sets(found, rest)}
            for name, found in theta.items()
        ]


def agreement_of_sets(theta: Matrix, rest: Matrix) -> dict[str, float]:
    """Return how far abilities by disjoint sets of items agree, among subjects in all sets.

    variance_sum is of each subject's abilities over the sets (divisor: their number), as in the
    paper; rho_rest the mean ρ of a set's abilities and the accuracy on all other items.
    """
    whole = np.isfinite(theta).all(0)
    own, other = theta[:, whole], rest[:, whole]
    variance = own.var(0)
    pairs = [(k, m) for k in range(len(own)) for m in range(k)]
    return {
        "subjects": int(whole.sum()),
        "variance_sum": float(variance.sum()),
        "within_share": float(variance.mean() / own.var()),
        "rho_sets": float(np.mean([spearman(own[k], own[m]) for k, m in pairs])),
        "rho_rest": float(np.mean([spearman(x, y) for x, y in zip(own, other, strict=True)])),
    }


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


@dataclass(frozen=True)
class SubjectTask:
    """Items fitted to fewer and fewer subjects, against those of all (Table 2)."""

    repetition: int
    responses: Responses
    groups: NDArray[np.intp]  # shape (subject,), Subjects of a group enter one after another.
    key: PortableKey  # The study's.

    part = "subject_efficiency"

    @property
    def sizes(self) -> list[int]:
        """Numbers of subjects."""
        return [max(2, round(share * self.responses.n_subjects)) for share in SHARES]

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        return [(self.part, (self.repetition, n, name)) for n in self.sizes for name in EM_METHODS]

    def run(self) -> list[Row]:
        """Return a row for each number of subjects and method."""
        order = first_subjects(self.groups, self.key.rng("subjects", self.repetition))
        chosen = most_telling(self.responses)
        everyone = np.arange(self.responses.n_subjects)
        whole = {name: self._fit(name, everyone, chosen) for name in EM_METHODS}
        rows: list[Row] = []
        for n, name in product(self.sizes, EM_METHODS):
            found = self._fit(name, np.sort(order[:n]), chosen)
            head: Row = {"part": self.part, "repetition": self.repetition, "n_subjects": n}
            rows.append({**head, "method": name, **distances(found, whole[name])})
        return rows

    def _fit(
        self, name: str, subjects: NDArray[np.intp], items: NDArray[np.intp]
    ) -> dict[str, Matrix]:
        """Return a and d over the chosen items, NaN where nobody answered one."""
        subjects, kept = with_answers(self.responses, subjects, items)
        point = fit_model(name, self.responses.select(subjects, kept))
        found = {}
        for parameter in ("a", "d"):
            found[parameter] = np.full(len(items), np.nan)
            found[parameter][np.isin(items, kept)] = point[parameter]
        return found


def distances(found: dict[str, Matrix], whole: dict[str, Matrix]) -> dict[str, float]:
    """Return how far items are from those of all subjects: root mean square and median."""
    row = {}
    for name in ("a", "d"):
        apart = found[name] - whole[name]
        row[f"distance_{name}"] = float(np.sqrt(np.nanmean(apart**2)))
        row[f"typical_{name}"] = float(np.nanmedian(np.abs(apart)))
    return row


def most_telling(responses: Responses) -> NDArray[np.intp]:
    """Return the hundred items with the largest mean information about all abilities."""
    point = fit_model("lart", responses)
    information = item_information(Items.of(point), point["theta"]).mean(0)
    return np.sort(np.argsort(-information, kind="stable")[:_MOST_ITEMS])
