"""The work of the sparse study: batches of suites."""

from dataclasses import dataclass
from typing import NamedTuple

from bayesirt.models import Priors
from bayesirt.studies.engine import Places
from bayesirt.studies.sparse_conditions import Condition, Suite, draw_suite
from bayesirt.studies.sparse_draws import draw_abilities
from bayesirt.studies.sparse_measures import Row, fit, measure_draws, measure_point
from bayesirt.studies.tasks import PortableKey


class Drawn(NamedTuple):
    """A suite and where it stands in the study."""

    number: int  # Of the condition.
    condition: Condition
    seed: int


@dataclass(frozen=True)
class Batch:
    """Suites that are drawn, fitted and perhaps sampled together."""

    number: int  # Of the batch.
    suites: tuple[Drawn, ...]
    samples: bool  # Whether to draw from the posterior, too.
    priors: Priors  # Of the posterior.
    key: PortableKey  # The study's.

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        return [("suites", (suite.number, suite.seed)) for suite in self.suites]

    def run(self) -> list[Row]:
        """Return a row for each suite; it depends on the key and on what is in the batch."""
        suites = [self._suite(place) for place in self.suites]
        points = [fit(suite.responses) for suite in suites]
        rows: list[Row] = [
            {"condition": place.number, "seed": place.seed, **measure_point(suite, point)}
            for place, suite, point in zip(self.suites, suites, points, strict=True)
        ]
        if self.samples:
            draws = draw_abilities(
                [suite.responses for suite in suites],
                points,
                key=self.key.folded(self.number),
                priors=self.priors,
            )
            for row, suite, theta in zip(rows, suites, draws, strict=True):
                row |= measure_draws(suite, theta)
        return rows

    def _suite(self, place: Drawn) -> Suite:
        return draw_suite(place.condition, self.key.rng(place.number, place.seed))
