"""The LaRT study: a replication of Xu et al. (2026), with exact EM, intervals and a given matrix.

It covers simulated designs, SAEM from two starts and coverage of intervals; and for given responses
with lengths ρ, prediction, validity, efficiency and an external criterion.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any, Unpack

import numpy as np
import pandas as pd
from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.studies.engine import Running, Study, do_tasks
from bayesirt.studies.labels import fingerprint
from bayesirt.studies.lart_matrix import look_at, with_criterion
from bayesirt.studies.lart_matrix_tasks import N_FOLDS, PARTS, base_subjects, matrix_tasks
from bayesirt.studies.lart_suites import (
    DRAWN,
    EM_METHODS,
    SAEM_METHODS,
    SUITES,
    Condition,
    suite_rows,
)
from bayesirt.studies.lart_tables import lart_found, matrix_found
from bayesirt.studies.tasks import PortableKey, Task

BATCH = 20  # Suites that are simulated one after another, to compile little.


@dataclass(frozen=True)
class LaRTDesign:
    """What is simulated and repeated; by default as in Xu et al. (2026), section 5 and D."""

    replications: int = 200  # Suites of each condition.
    saem_replications: int = 200  # Of these, suites for SAEM; none of the short tests.
    drawn_replications: int = 20  # Of these, suites whose posterior is drawn.
    sizes: tuple[int, ...] = (100, 200, 500)  # N.
    n_items: int = 50
    rho: float = -0.8
    # N, J and ρ of tests so short, and so strongly tied to speed, that speeds are uncertain.
    short: tuple[tuple[int, int, float], ...] = ((200, 10, -0.95),)
    iterations: int = 200  # Of SAEM; the paper stops it by a criterion that it does not state.
    drawn_sizes: tuple[int, ...] = (100, 200, 500)  # N for which the posterior is drawn.
    draws: int = 500  # Draws of each of two chains, for suites.
    matrix_draws: int = 500  # The same, for a given matrix.
    repetitions: int = 5  # Repetitions of the splits of a given matrix into folds and sets.

    @property
    def conditions(self) -> list[Condition]:
        """The paper's conditions, and the short tests."""
        papers = [Condition(n, self.n_items, self.rho) for n in self.sizes]
        return papers + [Condition(*test) for test in self.short]

    def replications_of(self, method: str, number: int) -> int:
        """Return the number of suites of a condition that a method is run on."""
        if method in EM_METHODS:
            return self.replications
        if method in SAEM_METHODS:
            short = number >= len(self.sizes)
            return 0 if short else min(self.replications, self.saem_replications)
        drawn = self.conditions[number].n_subjects in self.drawn_sizes
        return min(self.replications, self.drawn_replications) if drawn else 0


LART_QUICK = LaRTDesign(  # Fewer replications and repetitions, and no draws of a given matrix.
    replications=20,
    saem_replications=3,
    drawn_replications=3,
    drawn_sizes=(100,),
    draws=300,
    matrix_draws=0,
    repetitions=1,
)


def lart_study(
    design: LaRTDesign | None = None,
    *,
    key: Array,
    responses: Responses | None = None,
    suffixes: Sequence[str] = (),
    criterion: Mapping[str, float] | None = None,
    **running: Unpack[Running],
) -> Study:
    """Replicate Xu et al. (2026), sections 5 and 6.3, Tables 1 and 2, and Appendix D.

    Given responses with lengths are the matrix for ρ, prediction, validity and efficiency. Subjects
    whose names differ only in a suffix (such as `_one_shot`) form one base subject, which is not
    split; a criterion is an external measure of ability, by subject.
    """
    design, portable = design or LaRTDesign(), PortableKey.of(key)
    _check_matrix(responses, criterion)
    groups = np.zeros(0, np.intp)
    settings: dict[str, Any] = {**asdict(design), "key": portable}
    tasks = [*suite_tasks(design, portable)]
    if responses is not None:
        groups = base_subjects(responses.subjects, suffixes)
        settings |= {"responses": fingerprint(responses), "suffixes": list(suffixes)}
        again = design.repetitions, design.matrix_draws
        tasks += matrix_tasks(responses, groups, *again, portable)
    suites = SUITES._replace(conditions=pd.DataFrame(design.conditions))
    rows = do_tasks(tasks, {"suites": suites, **PARTS}, settings, running)
    simulated = lart_found(rows["suites"])
    if responses is None:
        return simulated
    look = look_at(responses, groups, rows["rho"], portable.rng("rho"))
    return matrix_found(simulated, responses.n_items, look, rows, criterion or {}, portable)


def _check_matrix(responses: Responses | None, criterion: Mapping[str, float] | None) -> None:
    if responses is None:
        if criterion:
            raise ResponseError("a criterion needs the responses of its subjects; give them too")
        return
    if responses.latency is None or not np.isfinite(responses.latency).any():
        raise ResponseError(
            "the LaRT study needs the length or time of responses; name its column with --latency"
        )
    least = 2 * N_FOLDS
    if responses.n_items < least or responses.n_subjects < least:
        raise ResponseError(
            f"five folds need at least {least} subjects and {least} items, got "
            f"{responses.n_subjects} and {responses.n_items}"
        )
    if criterion is not None:
        with_criterion(pd.DataFrame({"subject": responses.subjects}), criterion)


def suite_tasks(design: LaRTDesign, key: PortableKey) -> Iterator[Task]:
    """Yield all suites in batches, the longest work first."""
    methods = (DRAWN, *SAEM_METHODS, *EM_METHODS)
    for method, (number, condition) in product(methods, reversed([*enumerate(design.conditions)])):
        n = design.replications_of(method, number)
        for first in range(0, n, BATCH):
            batch = [(number, k) for k in range(first, min(first + BATCH, n))]
            settings = method, design.iterations, design.draws, key
            places = [("suites", (*place, method)) for place in batch]
            yield Task(places, partial(suite_rows, condition, batch, *settings))
