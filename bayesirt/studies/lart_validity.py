"""How far abilities by disjoint sets of items agree (Xu et al., 2026, 6.3.3)."""

import zlib
from dataclasses import dataclass

import numpy as np

from bayesirt.data.responses import Responses
from bayesirt.studies.engine import Places, Row
from bayesirt.studies.lart_scoring import Cells, Matrix
from bayesirt.studies.lart_splits import N_FOLDS, item_folds, with_answers
from bayesirt.studies.lart_tasks import EM_METHODS, fit_model
from bayesirt.studies.rank_correlation import spearman
from bayesirt.studies.tasks import PortableKey

VALIDITY_COLUMNS = ("subjects", "variance_sum", "within_share", "rho_sets", "rho_rest")


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
        rng = np.random.default_rng([*self.key.words, zlib.crc32(b"validity"), self.repetition])
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
    """Return how far abilities by disjoint sets of items agree.

    subjects: those in all sets; variance_sum: of each subject's abilities over the sets (divisor:
    the number of sets), summed over subjects, as in the paper; within_share: the mean of that
    variance over the variance of all abilities; rho_sets: mean Spearman's ρ of two sets; rho_rest:
    mean ρ of a set's abilities and the accuracy on all other items.
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
