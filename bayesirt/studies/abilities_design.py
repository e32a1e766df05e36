"""What the abilities study does, and the work that this makes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from bayesirt.studies.abilities_consistency import CriterionTask, HalvesTask, PairTask
from bayesirt.studies.abilities_coverage import BATCH, CoverageTask
from bayesirt.studies.abilities_matrix import AbilityMatrix
from bayesirt.studies.abilities_prediction import MOST_DRAWN, AgreementTask, SplitTask
from bayesirt.studies.tasks import PortableKey

Task = CoverageTask | CriterionTask | HalvesTask | PairTask | SplitTask | AgreementTask
Size = tuple[int, int, int]


@dataclass(frozen=True)
class AbilitiesDesign:
    """What is simulated, and how often items are divided; by default as in Zhang et al. (2026).

    Attributes
    ----------
    coverage_sizes : tuple of (int, int, int)
        Subjects, items and abilities of the suites whose intervals are counted.
    replications : int
        Suites of each size.
    draws : int
        Of each of two chains, for each suite.
    size : (int, int, int)
        Of the matrix that is simulated where none is given.
    splits : int
        Into 90% of the items and 10%.
    halves : int
        Splits into two halves.
    posterior_draws : int
        Of each of two chains on the first split, beside the point estimate; 0 for none.
    trained : int
        Responses that NeuralCD is shown, over all epochs: by default those of 20 epochs of the
        paper's 41 x 748.
    """

    coverage_sizes: tuple[Size, ...] = ((200, 40, 3), (200, 120, 12))
    replications: int = 20
    draws: int = 500
    size: Size = (41, 748, 35)
    splits: int = 10
    halves: int = 5
    posterior_draws: int = 300
    trained: int = 600_000


ABILITIES_QUICK = AbilitiesDesign(
    replications=3,
    draws=150,
    size=(41, 200, 12),
    splits=3,
    halves=1,
    posterior_draws=100,
    trained=300_000,
)
"""A smaller matrix, fewer suites and fewer splits."""


def coverage_tasks(design: AbilitiesDesign, key: PortableKey) -> list[CoverageTask]:
    """Return the suites in batches, the largest first."""
    batches = [
        tuple(range(first, min(first + BATCH, design.replications)))
        for first in range(0, design.replications, BATCH)
    ]
    sizes = sorted(enumerate(design.coverage_sizes), key=lambda pair: -pair[1][1] * pair[1][2])
    return [
        CoverageTask(number, size, batch, design.draws, key)
        for number, size in sizes
        for batch in batches
    ]


def matrix_tasks(
    design: AbilitiesDesign, matrix: AbilityMatrix, key: PortableKey
) -> Sequence[Task]:
    """Return what is done with one matrix."""
    tasks: list[Task] = []
    if design.posterior_draws and matrix.responses.n_observed <= MOST_DRAWN:
        tasks.append(AgreementTask(0, matrix, design.posterior_draws, key))
    tasks.append(CriterionTask(matrix, design.trained, key))
    tasks += [HalvesTask(k, matrix, design.trained, key) for k in range(design.halves)]
    pairs = combinations(range(len(matrix.groups)), 2)
    tasks += [PairTask(one, other, matrix, design.trained, key) for one, other in pairs]
    tasks += [SplitTask(k, matrix, design.trained, key) for k in range(design.splits)]
    return tasks
