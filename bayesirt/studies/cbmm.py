"""The cBMM study: a replication of Qu et al. (2026), with other estimators and a posterior.

It covers simulated designs, stability over random starts, ranking against accuracy, difficulty
against human level, and redundant items with and without control of false ones.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Unpack

import jax
import pandas as pd
from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.studies.cbmm_figures import cbmm_found
from bayesirt.studies.cbmm_tables import look_at
from bayesirt.studies.cbmm_tasks import (
    POSTERIORS,
    STARTS,
    SUITES,
    Condition,
    base_values,
    draw_suite,
    methods_for,
    start_task,
    suite_rows,
)
from bayesirt.studies.engine import Running, Study, do_tasks
from bayesirt.studies.labels import fingerprint
from bayesirt.studies.tasks import PortableKey, Task


@dataclass(frozen=True)
class CBMMDesign:
    """What the study simulates; by default as in Qu et al. (2026), A.6 and A.7."""

    replications: int = 50  # Suites of each condition.
    mml_replications: int = 5  # Of these, suites that MML is fitted to.
    drawn_replications: int = 20  # Of those with redundant items, suites with a posterior.
    size: tuple[int, int] = (1000, 1000)  # N and J of the base.
    sizes: tuple[int, ...] = (200, 500, 1000, 2000, 5000)  # N at the base's J, J at its N.
    temperatures: tuple[float, ...] = (-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75)  # log10 σ.
    rates: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)  # Missing shares; the paper states the range.
    # Shares of items that lose their wrong answers. The paper states none.
    gated: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)
    sparsities: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)  # Shares of items with a = 0.
    spreads: tuple[float, ...] = (0.4, 0.8, 1.2, 1.6)  # CVs of a log-normal a. Not in the paper.
    posteriors: tuple[str, ...] = POSTERIORS
    starts: int = 50  # Random starts of each variance.
    variances: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0)  # Of log a and d in these.
    matrix_size: tuple[int, int] = (140, 500)  # Size of a simulated matrix; that of MATH-500.

    @property
    def conditions(self) -> list[Condition]:
        """The base, and each factor's other values."""
        (n, j), base = self.size, base_values(*self.size)
        values = {
            "temperature": self.temperatures,
            "mcar": self.rates,
            "mar": self.rates,
            "mnar": self.gated,
            "sparsity": self.sparsities,
            "spread": self.spreads,
        }
        return [
            Condition("base", 0.0, n, j),
            *(Condition("items", k, n, k) for k in self.sizes if k != j),
            *(Condition("subjects", k, k, j) for k in self.sizes if k != n),
            *(
                Condition(factor, value, n, j)
                for factor, levels in values.items()
                for value in levels
                if value != base[factor]
            ),
        ]


CBMM_QUICK = CBMMDesign(  # Smaller suites, fewer values and fewer replications.
    replications=3,
    mml_replications=3,
    drawn_replications=3,
    size=(200, 200),
    sizes=(200, 500),
    temperatures=(-0.75, 0.0, 0.75),
    rates=(0.4, 0.8),
    gated=(0.1, 0.3),
    sparsities=(0.05, 0.2, 0.5),
    spreads=(0.6, 1.4),
    posteriors=("laplace positive", "laplace free"),
    starts=3,
)


def cbmm_study(
    design: CBMMDesign | None = None,
    *,
    key: Array,
    responses: Responses | None = None,
    **running: Unpack[Running],
) -> Study:
    """Replicate Qu et al. (2026), section 4, on a given matrix or a simulated one."""
    design, portable = design or CBMMDesign(), PortableKey.of(key)
    matrix = responses
    if matrix is None:
        base = Condition("base", 0.0, *design.matrix_size)
        matrix = draw_suite(base, portable.rng("matrix")).responses
    settings = {**asdict(design), "key": portable, "responses": fingerprint(matrix)}
    tasks = [*_suite_tasks(design, portable)]
    tasks += [start_task(k, matrix, design.variances, portable) for k in range(design.starts)]
    suites = SUITES._replace(conditions=pd.DataFrame(design.conditions))
    parts = {"suites": suites, "stability": STARTS}
    rows = do_tasks(tasks, parts, settings, running)
    look = look_at(matrix, key=jax.random.fold_in(key, len(tasks)))
    return cbmm_found(rows, look, design.size, matrix.cells.shape, responses is None)


def _suite_tasks(design: CBMMDesign, key: PortableKey) -> Iterator[Task]:
    """Yield all suites, replication by replication over all conditions."""
    for replication in range(design.replications):
        mml, drawn = (replication < n for n in (design.mml_replications, design.drawn_replications))
        for number, condition in enumerate(design.conditions):
            place, methods = (number, replication), methods_for(condition.n_items, mml)
            if drawn and condition.factor == "sparsity":
                methods += design.posteriors
            work = partial(suite_rows, condition, place, methods, key)
            yield Task([("suites", (*place, name)) for name in methods], work)
