"""What the LaRT study simulates and repeats, and the work that this is."""

from dataclasses import dataclass
from itertools import islice, product

from bayesirt.studies.lart_conditions import Condition
from bayesirt.studies.lart_tasks import DRAWN, EM_METHODS, SAEM_METHODS, SuiteTask
from bayesirt.studies.tasks import PortableKey

BATCH = 20
"""Suites that are simulated one after another, so that little is compiled."""


@dataclass(frozen=True)
class LaRTDesign:
    """What the study simulates and repeats; by default what Xu et al. (2026) do (section 5, D).

    Attributes
    ----------
    replications, saem_replications, drawn_replications : int
        Suites of each condition; to how many of them SAEM is fitted, too (of the short tests to
        none), and for how many the posterior is drawn.
    sizes : tuple of int
        N.
    n_items : int
        J.
    rho : float
    short : tuple of (int, int, float)
        N, J and ρ of tests so short, and so much tied to speed, that speeds are far from known.
        Not in the paper.
    iterations : int
        Of SAEM. The paper runs until it converges, and does not say what that means.
    drawn_sizes : tuple of int
        N of the conditions, short tests among them, for which the posterior is drawn.
    draws, matrix_draws : int
        Of the posterior, by each of two chains after half as many of warm-up: of suites, and of
        a given matrix.
    repetitions : int
        Of the divisions of a given matrix into folds and sets.
    """

    replications: int = 200
    saem_replications: int = 200
    drawn_replications: int = 20
    sizes: tuple[int, ...] = (100, 200, 500)
    n_items: int = 50
    rho: float = -0.8
    short: tuple[tuple[int, int, float], ...] = ((200, 10, -0.95),)
    iterations: int = 200
    drawn_sizes: tuple[int, ...] = (100, 200, 500)
    draws: int = 500
    matrix_draws: int = 500
    repetitions: int = 5

    @property
    def conditions(self) -> list[Condition]:
        """The paper's, and the short tests."""
        papers = [Condition(n, self.n_items, self.rho) for n in self.sizes]
        return papers + [Condition(*place) for place in self.short]

    def replications_of(self, method: str, number: int) -> int:
        """Return the number of suites of a condition that a method is run on."""
        if method in EM_METHODS:
            return self.replications
        if method in SAEM_METHODS:
            short = number >= len(self.sizes)
            return 0 if short else min(self.replications, self.saem_replications)
        drawn = self.conditions[number].n_subjects in self.drawn_sizes
        return min(self.replications, self.drawn_replications) if drawn else 0


LART_QUICK = LaRTDesign(
    replications=20,
    saem_replications=3,
    drawn_replications=3,
    drawn_sizes=(100,),
    draws=300,
    matrix_draws=0,
    repetitions=1,
)
"""Fewer replications and repetitions, and no draws of a given matrix."""


def suite_tasks(design: LaRTDesign, key: PortableKey) -> list[SuiteTask]:
    """Return all suites in batches, the long work first."""
    tasks = []
    methods = (DRAWN, *SAEM_METHODS, *EM_METHODS)
    for method, (number, condition) in product(methods, reversed([*enumerate(design.conditions)])):
        replications = iter(range(design.replications_of(method, number)))
        while batch := tuple(islice(replications, BATCH)):
            settings = (method, design.iterations, design.draws, key)
            tasks.append(SuiteTask(number, condition, batch, *settings))
    return tasks
