"""The abilities study: a replication of Zhang et al. (2026), with the baselines it leaves out.

It measures the coverage of intervals, how abilities relate to accuracy and to themselves on other
items, and how much of their predictions of unseen items is about subjects at all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations, product
from typing import Any, Unpack

import jax
import pandas as pd
from jaxtyping import Array

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.studies.abilities_consistency import (
    CONSISTENCY_PARTS,
    ESTIMATES,
    HALVES,
    criterion_rows,
    halves_rows,
    pair_rows,
)
from bayesirt.studies.abilities_matrix import (
    BATCH,
    COVERAGE,
    AbilityMatrix,
    coverage_rows,
    given_matrix,
    simulated_matrix,
)
from bayesirt.studies.abilities_tables import abilities_found
from bayesirt.studies.abilities_unseen import (
    MOST_DRAWN,
    PREDICTORS,
    UNSEEN_PARTS,
    agreement_rows,
    split_rows,
)
from bayesirt.studies.engine import Running, Study, do_tasks
from bayesirt.studies.labels import fingerprint
from bayesirt.studies.tasks import PortableKey, Task

_SIZE = ["n_subjects", "n_items", "n_abilities"]
_MATRIX_SEED = 41
Size = tuple[int, int, int]


@dataclass(frozen=True)
class AbilitiesDesign:
    """What is simulated and how often items are split; by default as in Zhang et al. (2026)."""

    # Subjects, items and abilities of the suites for coverage.
    coverage_sizes: tuple[Size, ...] = ((200, 40, 3), (200, 120, 12))
    replications: int = 20  # Suites of each size.
    draws: int = 500  # Draws of each of two chains, for each suite.
    size: Size = (41, 748, 35)  # Size of the matrix that is simulated if none is given.
    splits: int = 10  # Into 90% of the items and 10%.
    halves: int = 5  # Splits into two halves.
    posterior_draws: int = 300  # Draws of each of two chains on the first split; 0 for none.
    # Responses shown to NeuralCD in training: those of 20 epochs of the paper's 41 x 748.
    trained: int = 600_000


ABILITIES_QUICK = AbilitiesDesign(  # A smaller matrix, fewer suites and fewer splits.
    replications=3,
    draws=150,
    size=(41, 200, 12),
    splits=3,
    halves=1,
    posterior_draws=100,
    trained=300_000,
)


def abilities_study(
    design: AbilitiesDesign | None = None,
    *,
    key: Array,
    responses: Responses | None = None,
    q: QMatrix | None = None,
    groups: Mapping[str, str] | None = None,
    **running: Unpack[Running],
) -> Study:
    """Replicate Zhang et al. (2026), sections 3.2 to 3.4, Figures 5 to 7 and Tables 3 to 5.

    Criterion, consistency and unseen items are compared with fair baselines, on simulated suites
    and a simulated matrix, or on given responses with the Q-matrix of their items and perhaps the
    benchmark of each item (`groups`), to predict one benchmark from another.
    """
    design, portable = design or AbilitiesDesign(), PortableKey.of(key)
    matrix = _matrix(design, key, responses, q, groups)
    settings: dict[str, Any] = {**asdict(design), "key": portable}
    tasks: list[Task] = []
    if responses is None:
        tasks += coverage_tasks(design, portable)
    else:
        settings |= {"responses": fingerprint(matrix.responses), "q": matrix.q.as_lists()}
        settings["groups"] = [matrix.groups, matrix.group.tolist()]
    tasks += matrix_tasks(design, matrix, portable)
    sizes = pd.DataFrame([*design.coverage_sizes], columns=_SIZE)
    parts = {"coverage": COVERAGE._replace(conditions=sizes), **CONSISTENCY_PARTS, **UNSEEN_PARTS}
    return abilities_found(do_tasks(tasks, parts, settings, running), matrix)


def coverage_tasks(design: AbilitiesDesign, key: PortableKey) -> Iterator[Task]:
    """Yield batches of suites, largest first."""
    sizes = sorted(enumerate(design.coverage_sizes), key=lambda pair: -pair[1][1] * pair[1][2])
    for number, size in sizes:
        for first in range(0, design.replications, BATCH):
            batch = range(first, min(first + BATCH, design.replications))
            places = [("coverage", (number, k)) for k in batch]
            yield Task(places, partial(coverage_rows, number, size, batch, design.draws, key))


def matrix_tasks(
    design: AbilitiesDesign, matrix: AbilityMatrix, key: PortableKey
) -> Iterator[Task]:
    """Yield the tasks on one matrix."""
    if design.posterior_draws and matrix.responses.n_observed <= MOST_DRAWN:
        draw = partial(agreement_rows, 0, matrix, design.posterior_draws, key)
        yield Task([("agreement", (0,))], draw)
    given = matrix, design.trained, key
    each = [*product(range(matrix.q.n_abilities), ESTIMATES)]
    yield Task([("criterion", place) for place in each], partial(criterion_rows, *given))
    for k in range(design.halves):
        halves = [("consistency", (HALVES, HALVES, k, *place)) for place in each]
        yield Task(halves, partial(halves_rows, k, *given))
    has_truth = matrix.truth is not None
    predictors = [name for name in PREDICTORS if has_truth or not name.startswith("true")]
    for one, other in combinations(range(len(matrix.groups)), 2):
        between = [("consistency", (one, other, 0, *place)) for place in each]
        ways = product(((one, other), (other, one)), predictors)
        across = [("across", (*direction, name)) for direction, name in ways]
        yield Task([*between, *across], partial(pair_rows, one, other, *given))
    for k in range(design.splits):
        split = [("prediction", (k, name)) for name in predictors]
        yield Task(split, partial(split_rows, k, *given))


def _matrix(
    design: AbilitiesDesign,
    key: Array,
    responses: Responses | None,
    q: QMatrix | None,
    groups: Mapping[str, str] | None,
) -> AbilityMatrix:
    """Return the matrix to study, or raise an error about what is missing."""
    if responses is not None and q is not None:
        return given_matrix(responses, q, groups)
    if responses is not None:
        raise ResponseError(
            "abilities need a Q-matrix with those that each item needs; give --q-matrix"
        )
    if q is not None:
        raise ResponseError("a Q-matrix needs the responses to its items; give --responses too")
    if groups is not None:
        raise ResponseError(
            "groups of items need the responses and a Q-matrix; give --responses and --q-matrix"
        )
    return simulated_matrix(design.size, key=jax.random.fold_in(key, _MATRIX_SEED))
