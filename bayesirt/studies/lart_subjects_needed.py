"""How many subjects the items need (Xu et al., 2026, 6.3.4 and Table 2)."""

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.studies.engine import Places, Row
from bayesirt.studies.lart_scoring import Items, Matrix, item_information
from bayesirt.studies.lart_splits import first_subjects, with_answers
from bayesirt.studies.lart_tasks import EM_METHODS, fit_model
from bayesirt.studies.tasks import PortableKey

SUBJECT_COLUMNS = ("distance_a", "distance_d", "typical_a", "typical_d")
SHARES = (50 / 140, 75 / 140, 100 / 140, 125 / 140)
"""Of the subjects, in Table 2 of Xu et al. (2026)."""

_MOST_ITEMS = 100


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
        seed = [*self.key.words, zlib.crc32(b"subjects"), self.repetition]
        order = first_subjects(self.groups, np.random.default_rng(seed))
        chosen = most_telling(self.responses)
        everyone = np.arange(self.responses.n_subjects)
        whole = {name: self._fit(name, everyone, chosen) for name in EM_METHODS}
        rows: list[Row] = []
        for n in self.sizes:
            for name in EM_METHODS:
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
    """Return how far items are from those of all subjects.

    Root mean squared difference, and the median absolute difference, which a few items without a
    finite estimate do not decide.
    """
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
