"""The suite that the FPC study grows: one's own answers, or a long simulated one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.studies.fpc_prediction import shares
from bayesirt.studies.labels import labels_for

Split = Literal["random", "abler", "families"]

REFERENCE_SHARE = 0.75
"""Of the subjects, as in Habba et al. (2026)."""
_LEAST_TEST = 5
_FEWEST_BENCHMARKS = 3


@dataclass(frozen=True)
class SimulatedSuite:
    """A suite of many small benchmarks, such as the 57 subjects of MMLU."""

    n_benchmarks: int = 57
    n_items: int = 40  # Of each.
    n_subjects: int = 400  # Reference and test subjects together.
    n_abilities: int = 5  # Of the truth, and of the model.


@dataclass(frozen=True, eq=False)
class FPCMatrix:
    """Complete answers to several benchmarks."""

    responses: Responses
    benchmarks: tuple[str, ...]  # Each item's.
    families: tuple[str, ...] = ()  # Each subject's; empty if they are not known.
    simulated: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The benchmarks, in the order of their names."""
        return tuple(sorted(set(self.benchmarks)))


class Parts(NamedTuple):
    """Subjects that calibrate and subjects that are predicted, each in random order."""

    reference: NDArray[np.intp]  # Positions.
    test: NDArray[np.intp]  # Positions.


def given_matrix(
    responses: Responses, groups: Mapping[str, str], families: Mapping[str, str] | None = None
) -> FPCMatrix:
    """Return the suite of given responses."""
    missing = responses.n_subjects * responses.n_items - responses.n_observed
    if missing:
        raise ResponseError(
            f"predictions are compared with full evaluations, but {missing:,} of the answers are "
            f"missing; keep the subjects and items that have all"
        )
    benchmarks = labels_for(responses.items, groups, "item", "benchmark")
    if len(set(benchmarks)) < _FEWEST_BENCHMARKS:
        raise ResponseError(
            f"a chain takes {_FEWEST_BENCHMARKS} benchmarks at least, got {len(set(benchmarks))}"
        )
    if (1 - REFERENCE_SHARE) * responses.n_subjects < _LEAST_TEST:
        raise ResponseError(
            f"a quarter of {responses.n_subjects} subjects is too few to predict; it takes "
            f"{_LEAST_TEST / (1 - REFERENCE_SHARE):.0f} subjects at least"
        )
    if families is None:
        return FPCMatrix(responses, benchmarks)
    named = labels_for(responses.subjects, families, "subject", "family")
    matrix = FPCMatrix(responses, benchmarks, named)
    divided(matrix, "families", np.random.default_rng(0))
    return matrix


def simulated_matrix(suite: SimulatedSuite, rng: np.random.Generator) -> FPCMatrix:
    """Simulate a suite of benchmarks that need a general ability and others in their own mixture.

    θ ~ N(0, I). The mean slopes of a benchmark are 1 on the first ability and N(0, .5²) on each
    other one, those of its items N(mean, .4²) on each; intercepts are N(δ, 1.2²) with δ ~ N(.5,
    .8²) of the benchmark.
    """
    n, j, k = suite.n_benchmarks, suite.n_items, suite.n_abilities
    mean = np.concatenate([np.ones((n, 1)), 0.5 * rng.normal(size=(n, k - 1))], 1)
    a = np.repeat(mean, j, 0) + 0.4 * rng.normal(size=(n * j, k))
    d = np.repeat(0.5 + 0.8 * rng.normal(size=n), j) + 1.2 * rng.normal(size=n * j)
    theta = rng.normal(size=(suite.n_subjects, k))
    right = rng.uniform(size=(suite.n_subjects, n * j)) < expit(theta @ a.T + d)
    names = [f"subset {b:02}" for b in range(1, n + 1)]
    items = [f"{name}, {q}" for name in names for q in range(1, j + 1)]
    responses = Responses.from_arrays(right.astype(np.int64), items=items)
    return FPCMatrix(responses, tuple(np.repeat(names, j).tolist()), simulated=True)


def chain_order(matrix: FPCMatrix, chain: int, rng: np.random.Generator) -> list[str]:
    """Return the order in which benchmarks join: each is the last of some chain, in turn."""
    last = matrix.names[chain % len(matrix.names)]
    others = [name for name in matrix.names if name != last]
    return [*(others[b] for b in rng.permutation(len(others))), last]


def divided(matrix: FPCMatrix, split: Split, rng: np.random.Generator) -> Parts:
    """Divide the subjects, three quarters to calibrate and a quarter to predict."""
    order = rng.permutation(matrix.responses.n_subjects)
    n_test = len(order) - round(REFERENCE_SHARE * len(order))
    if split == "abler":
        score = _suite_scores(matrix)[order]
        able = np.argsort(-score, kind="stable")[:n_test]
        chosen = np.isin(np.arange(len(order)), able)
    elif split == "families":
        chosen = np.isin(np.asarray(matrix.families, object)[order], _held_out(matrix, n_test, rng))
    else:
        chosen = np.arange(len(order)) < n_test
    return Parts(order[~chosen][: len(order) - n_test], order[chosen])


def _held_out(matrix: FPCMatrix, n_test: int, rng: np.random.Generator) -> list[str]:
    """Return families that make up a quarter of the subjects at most."""
    names, sizes = np.unique(np.asarray(matrix.families, object), return_counts=True)
    held, n_held = [], 0
    for k in rng.permutation(len(names)):
        if n_held + sizes[k] <= n_test:
            held.append(str(names[k]))
            n_held += int(sizes[k])
    if n_held < _LEAST_TEST:
        raise ResponseError(
            f"{len(names)} families cannot be divided so that a quarter of the subjects is held "
            f"out; name smaller families, or leave them out"
        )
    return held


def _suite_scores(matrix: FPCMatrix) -> NDArray[np.float64]:
    of, right = np.asarray(matrix.benchmarks, object), shares(matrix.responses)
    means = np.array([right[:, of == name].mean(1) for name in matrix.names])
    scores: NDArray[np.float64] = means.mean(0)
    return scores
