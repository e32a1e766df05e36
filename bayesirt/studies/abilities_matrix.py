"""The matrix that the abilities study looks at: one's own, or one simulated like the paper's."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.profiles.simulation import simulate_q_mirt
from bayesirt.studies.labels import labels_for
from bayesirt.studies.measures import Index, read_printed

Counts = NDArray[np.integer]
CORRELATION = 0.7  # Of each pair of simulated abilities: abilities of language models go together.
_FEWEST_ITEMS = 3
_LEAST_ITEMS, _LEAST_SUBJECTS = 10, 5


@dataclass(frozen=True, eq=False)
class AbilityMatrix:
    """Responses, the abilities that their items need, and where the items come from."""

    responses: Responses
    q: QMatrix  # A row for each item, in the order of the responses.
    groups: tuple[str, ...]  # Benchmarks; empty if they are not known.
    group: Index  # shape (item,), Which of them an item is of; -1 if they are not known.
    truth: xr.Dataset | None = (
        None  # As `bayesirt.profiles.simulation.QSimulation` names parameters.
    )


def given_matrix(
    responses: Responses, q: QMatrix, groups: Mapping[str, str] | None = None
) -> AbilityMatrix:
    """Return the matrix of given responses."""
    if responses.n_items < _LEAST_ITEMS or responses.n_subjects < _LEAST_SUBJECTS:
        raise ResponseError(
            f"splits of the items need at least {_LEAST_SUBJECTS} subjects and {_LEAST_ITEMS} "
            f"items, got {responses.n_subjects} and {responses.n_items}"
        )
    kept = q.for_items(responses.items, drop_unneeded=True)
    if groups is None:
        return AbilityMatrix(responses, kept, (), np.full(responses.n_items, -1, np.intp))
    labels = labels_for(responses.items, groups, "item", "benchmark")
    names, group = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise ResponseError(
            f"all items are of the benchmark {one_line(str(names[0]))!r}; across benchmarks takes "
            f"two at least, so leave the groups out"
        )
    return AbilityMatrix(responses, kept, tuple(map(str, names)), group)


def simulated_matrix(size: tuple[int, int, int], *, key: Array) -> AbilityMatrix:
    """Simulate a matrix whose abilities are needed as often as those of Zhang et al. (2026)."""
    n_subjects, n_items, n_abilities = size
    words = np.asarray(jax.random.key_data(key)).tolist()
    q = papers_q_matrix(n_items, n_abilities, np.random.default_rng(words))
    correlation = CORRELATION if n_abilities > 1 else 1.0
    drawn = simulate_q_mirt(n_subjects, q, key=key, correlation=correlation)
    nowhere = np.full(n_items, -1, np.intp)
    return AbilityMatrix(drawn.responses, q, (), nowhere, drawn.parameters)


def papers_q_matrix(n_items: int, n_abilities: int, rng: np.random.Generator) -> QMatrix:
    """Draw a Q-matrix with MMLU-MATH's shares of items by ability (Zhang et al., 2026, Table 3)."""
    printed = read_printed("abilities_printed")
    counts = printed.loc[printed["table"] == "coverage", "value"].to_numpy(float)
    n_printed = printed.loc[
        (printed["quantity"] == "items") & (printed["place"] == "MMLU-MATH"), "value"
    ].item()
    chosen = np.linspace(0, len(counts) - 1, n_abilities).round().astype(int)
    shares = np.sort(counts)[::-1][chosen] / n_printed
    sizes = np.clip(np.round(shares * n_items).astype(int), min(_FEWEST_ITEMS, n_items), n_items)
    needs = np.zeros((n_items, n_abilities), bool)
    for k, size in enumerate(sizes):
        needs[rng.choice(n_items, size, replace=False), k] = True
    needless = np.flatnonzero(~needs.any(1))
    needs[needless, rng.choice(n_abilities, len(needless), p=sizes / sizes.sum())] = True
    return QMatrix.from_arrays(needs)
