"""How well answers to items left out are predicted (Xu et al., 2026, 6.3.1)."""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.studies.engine import Places, Row
from bayesirt.studies.lart_scoring import Cells, Items, Matrix, score_abilities
from bayesirt.studies.lart_splits import (
    N_FOLDS,
    SPLITS,
    item_folds,
    subject_folds,
    with_answers,
)
from bayesirt.studies.lart_tasks import EM_METHODS, fit_model
from bayesirt.studies.tasks import PortableKey

PREDICTIONS = {
    "irt": "probit IRT",
    "lart": "LaRT, item not yet run",
    "lart length": "LaRT, length of the item known",
}
PREDICTION_COLUMNS = ("absolute_error", "log_score")


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
        seed = [*self.key.words, zlib.crc32(self.part.encode()), self.repetition, self.split]
        rng = np.random.default_rng(seed)
        everyone = np.arange(self.responses.n_subjects)
        rows: list[Row] = []
        for test in subject_folds(self.groups, N_FOLDS, rng):
            if len(test):
                folds = item_folds(self.responses.n_items, N_FOLDS, rng)
                rows += self._rows_of(np.setdiff1d(everyone, test), test, folds)
        return rows

    def _rows_of(
        self,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        folds: list[NDArray[np.intp]],
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
        head: dict[str, Any] = {
            "part": self.part, "repetition": self.repetition, "split": self.split,
        }  # fmt: skip
        return [
            {
                **head,
                "subject": int(subject),
                "method": name,
                **dict(zip(PREDICTION_COLUMNS, (float(s[k]) for s in scores[name]), strict=True)),
            }
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
    tiny = np.finfo(float).tiny
    logs = -cells.successes * np.log(np.maximum(predicted, tiny))
    logs -= wrong * np.log(np.maximum(1 - predicted, np.finfo(float).eps))
    n = np.where(cells.trials.sum(1) > 0, cells.trials.sum(1), np.nan)
    return errors.sum(1) / n, logs.sum(1) / n


def applied_splits(groups: NDArray[np.intp]) -> list[tuple[int, NDArray[np.intp]]]:
    """Return how subjects are divided: by row, and by base subject where some share one."""
    rows = np.arange(len(groups))
    kinds = [(SPLITS.index("by row"), rows)]
    if len(np.unique(groups)) < len(groups):
        kinds.append((SPLITS.index("by base subject"), groups))
    return kinds
