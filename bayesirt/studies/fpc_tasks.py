"""The suite and the conditions of the FPC study, and its tasks: a chain under a condition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayesirt.bank.bank_tables import check_anchors
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.anchors import AnchorRule
from bayesirt.studies.engine import Part
from bayesirt.studies.fpc_chain import (
    MEASURES,
    Chain,
    first_benchmarks,
    measure_predictions,
    measure_random,
    run_chain,
    shares,
)
from bayesirt.studies.labels import labels_for
from bayesirt.studies.measures import Index
from bayesirt.studies.tasks import PortableKey, Row, Task

Split = Literal["random", "abler", "families"]
REFERENCE_SHARE = 0.75  # Of the subjects, as in Habba et al. (2026).
_LEAST_TEST = 5
_FEWEST_BENCHMARKS = 3
USUAL_RULE: AnchorRule = "clusters"
METHODS = {  # Methods of prediction, in words.
    "fixed": "FPC",
    "fixed_gp_irt": "FPC by gp-IRT",
    "fixed_p_irt": "FPC by p-IRT",
    "anchor_mean": "mean of anchors",
    "concurrent": "concurrent calibration",
    "concurrent_gp_irt": "concurrent calibration by gp-IRT",
    "random": "random sampling",
}
RULE_WORDS = {  # Rules that choose anchors, in words.
    "clusters": "clusters",
    "random": "random items",
    "discrimination": "largest slopes",
    "design": "least expected variance",
    "information": "most information",
}
CHAINS = Part(("condition", "chain", "step", "method"), (
    "benchmark", "n_items", "n_asked", "n_earlier", "n_calibrating", "n_test", *MEASURES,
    "asked_subject", "asked_reference", "seconds", "compiling", "converged",
), (*METHODS,))  # fmt: skip
_FIXED = {
    "accuracy": "fixed",
    "gp_irt": "fixed_gp_irt",
    "p_irt": "fixed_p_irt",
    "anchor_mean": "anchor_mean",
}
_CONCURRENT = {"accuracy": "concurrent", "gp_irt": "concurrent_gp_irt"}
_RANDOM = "random"
_MOST_TEST = 400
_MOST_MAPS = 30_000
"""About half of what Linux allows a process; each compiled function holds several."""


@dataclass(frozen=True)
class SimulatedSuite:
    """A suite of many small benchmarks, such as the 57 subjects of MMLU."""

    n_benchmarks: int = 57
    n_items: int = 40  # Items of each benchmark.
    n_subjects: int = 400  # Reference and test subjects together.
    n_abilities: int = 5  # Of the truth and of the model.


@dataclass(frozen=True, eq=False)
class FPCMatrix:
    """Complete answers to several benchmarks."""

    responses: Responses
    benchmarks: tuple[str, ...]  # Each item's.
    families: tuple[str, ...] = ()  # Each subject's; empty if they are not known.
    simulated: bool = False
    n_abilities: int = 5  # Of the model; of a simulated suite also of the truth.

    @property
    def of(self) -> NDArray[np.object_]:
        """The benchmark of each item, as an array."""
        return np.asarray(self.benchmarks, object)

    @property
    def names(self) -> tuple[str, ...]:
        """The benchmarks, in the order of their names."""
        return tuple(sorted(set(self.benchmarks)))


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
            f"a chain needs at least {_FEWEST_BENCHMARKS} benchmarks, got {len(set(benchmarks))}"
        )
    if (1 - REFERENCE_SHARE) * responses.n_subjects < _LEAST_TEST:
        raise ResponseError(
            f"a quarter of {responses.n_subjects} subjects is too few to predict; at least "
            f"{_LEAST_TEST / (1 - REFERENCE_SHARE):.0f} subjects are needed"
        )
    if families is None:
        return FPCMatrix(responses, benchmarks)
    named = labels_for(responses.subjects, families, "subject", "family")
    matrix = FPCMatrix(responses, benchmarks, named)
    divided(matrix, "families", np.random.default_rng(0))
    return matrix


def simulated_matrix(suite: SimulatedSuite, rng: np.random.Generator) -> FPCMatrix:
    """Simulate a suite of benchmarks that mix a general ability with others.

    θ ~ N(0, I). The mean slopes of a benchmark are 1 on the first ability and N(0, .5²) on each
    other one, and those of its items N(mean, .4²); intercepts are N(δ, 1.2²) with δ ~ N(.5, .8²)
    for each benchmark.
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
    benchmarks = tuple(np.repeat(names, j).tolist())
    return FPCMatrix(responses, benchmarks, simulated=True, n_abilities=k)


def chain_order(matrix: FPCMatrix, chain: int, rng: np.random.Generator) -> list[str]:
    """Return the order in which benchmarks join; over chains, each benchmark is last in turn."""
    last = matrix.names[chain % len(matrix.names)]
    others = [name for name in matrix.names if name != last]
    return [*(others[b] for b in rng.permutation(len(others))), last]


def divided(matrix: FPCMatrix, split: Split, rng: np.random.Generator) -> tuple[Index, Index]:
    """Return three quarters of the subjects for calibration and the others for prediction."""
    order = rng.permutation(matrix.responses.n_subjects)
    n_test = len(order) - round(REFERENCE_SHARE * len(order))
    chosen = np.arange(len(order)) < n_test
    if split == "abler":
        right = shares(matrix.responses)
        of_benchmarks = [right[:, matrix.of == name].mean(1) for name in matrix.names]
        score = np.mean(of_benchmarks, axis=0)[order]
        chosen = np.isin(np.arange(len(order)), np.argsort(-score, kind="stable")[:n_test])
    elif split == "families":
        chosen = np.isin(np.asarray(matrix.families, object)[order], _held_out(matrix, n_test, rng))
    return order[~chosen][: len(order) - n_test], order[chosen]


def _held_out(matrix: FPCMatrix, n_test: int, rng: np.random.Generator) -> list[str]:
    """Return families with at most a quarter of the subjects."""
    names, sizes = np.unique(np.asarray(matrix.families, object), return_counts=True)
    held, n_held = [], 0
    for k in rng.permutation(len(names)):
        if n_held + sizes[k] <= n_test:
            held.append(str(names[k]))
            n_held += int(sizes[k])
    if n_held < _LEAST_TEST:
        raise ResponseError(
            f"the families ({len(names)}) cannot be split so that a quarter of the subjects is "
            f"held out; name smaller families, or leave them out"
        )
    return held


@dataclass(frozen=True)
class FPCDesign:
    """What is varied, one factor at a time."""

    anchors: tuple[int, ...] = (10, 25, 50, 100)  # Anchors of each benchmark.
    usual: int = 100  # Their number when something else is varied.
    rule_anchors: tuple[int, ...] = (25, 100)  # Those at which the rules are compared.
    references: tuple[int, ...] = (25, 100, 400)  # Reference subjects, besides all of them.
    n_abilities: int = 5  # Of a given suite; a simulated one is fitted with the true number.
    orders: int = 2  # Chains that end with the same benchmark of a given suite.
    chains: int = 3  # Of a simulated suite.
    # Of these, chains on which factors other than the number of anchors are varied and concurrent
    # calibration is run; of a given suite, one for each benchmark.
    few: int = 2
    measured: int = 8  # Most steps of a chain at which test subjects are predicted.
    simulated: SimulatedSuite = field(default_factory=SimulatedSuite)


FPC_SIMULATED = FPCDesign(anchors=(5, 10, 20), usual=10, rule_anchors=(10,), references=(25, 100))
"""For benchmarks of 40 items."""

FPC_QUICK = FPCDesign(  # A short chain, and few steps of it.
    anchors=(5, 10),
    usual=10,
    rule_anchors=(10,),
    references=(50,),
    n_abilities=2,
    orders=1,
    chains=1,
    few=1,
    measured=2,
    simulated=SimulatedSuite(8, 30, 240, 2),
)


@dataclass(frozen=True)
class Condition:
    """How a chain is run."""

    n_anchors: int
    how: AnchorRule  # The rule that chooses anchors.
    n_reference: int  # 0 for all.
    split: Split
    chains: int  # How many.
    concurrent: int = 0  # On how many of them concurrent calibration is run too.


def conditions_of(design: FPCDesign, matrix: FPCMatrix) -> list[Condition]:
    """Return the conditions, which vary one factor at a time."""
    n = len(matrix.names)
    chains, few = (design.chains, design.few) if matrix.simulated else (design.orders * n, n)
    most = round(REFERENCE_SHARE * matrix.responses.n_subjects)
    splits: tuple[Split, ...] = ("abler", "families") if matrix.families else ("abler",)
    rules = [how for how in get_args(AnchorRule) if how != USUAL_RULE]
    return [
        *(Condition(m, USUAL_RULE, 0, "random", chains, few) for m in design.anchors),
        *(Condition(m, USUAL_RULE, 0, split, few) for split in splits for m in design.anchors),
        *(
            Condition(design.usual, USUAL_RULE, r, "random", few)
            for r in design.references
            if r < most
        ),
        *(Condition(m, how, 0, "random", few) for m in design.rule_anchors for how in rules),
    ]


def tasks_of(
    design: FPCDesign, matrix: FPCMatrix, conditions: Sequence[Condition], key: PortableKey
) -> list[Task]:
    """Return the chains of all conditions, chain by chain within each varied factor."""
    fewest = min(condition.n_anchors for condition in conditions)
    check_anchors(matrix.benchmarks, fewest, matrix.n_abilities)

    def turn(place: tuple[int, int]) -> tuple[bool, bool, bool, int]:
        case = conditions[place[0]]
        return case.how != USUAL_RULE, case.split != "random", case.n_reference > 0, place[1]

    chains = [(number, k) for number, case in enumerate(conditions) for k in range(case.chains)]
    return [
        chain_task(conditions[number], (number, k), matrix, design.measured, key)
        for number, k in sorted(chains, key=turn)
    ]


def chain_task(
    condition: Condition, place: tuple[int, int], matrix: FPCMatrix, most: int, key: PortableKey
) -> Task:
    """Return a chain under a condition, measured at most `most` times including the last step.

    Benchmarks join in the same order under all conditions.
    """
    _, chain = place
    order = chain_order(matrix, chain, key.rng(chain, 0))
    n_steps = len(order) - first_benchmarks(matrix.of, order, matrix.n_abilities)
    steps = np.linspace(1, n_steps, min(n_steps, most)).round().astype(int).tolist()
    concurrent = chain < condition.concurrent
    methods = [*_FIXED.values(), *(_CONCURRENT.values() if concurrent else ()), _RANDOM]
    places = [("chains", (*place, step, method)) for step in steps for method in methods]
    return Task(places, partial(chain_rows, condition, chain, matrix, order, steps, key))


def chain_rows(
    condition: Condition,
    chain: int,
    matrix: FPCMatrix,
    order: Sequence[str],
    steps: Sequence[int],
    key: PortableKey,
) -> list[Row]:
    """Return a row for each measured step and method."""
    _make_room()
    responses, of = matrix.responses, matrix.of
    everything = np.arange(responses.n_items)
    reference, test = divided(matrix, condition.split, key.rng(chain, 1))
    reference = reference[: condition.n_reference or None]
    answers = responses.select(test[:_MOST_TEST], everything)
    calibrating = responses.select(reference, everything)
    grown = run_chain(
        Chain(calibrating, answers, of, condition.n_anchors, condition.how, matrix.n_abilities),
        order,
        key=key.folded(chain),
        measured=steps,
        concurrent=chain < condition.concurrent,
    )
    rows: list[Row] = []
    for step in grown:
        sizes = {
            "benchmark": matrix.names.index(step.benchmark), "n_items": step.n_items,
            "n_asked": step.n_anchors, "n_earlier": step.n_earlier,
            "n_calibrating": len(reference), "n_test": answers.n_subjects,
        }  # fmt: skip
        for calibration, estimates in ((step.fixed, _FIXED), (step.concurrent, _CONCURRENT)):
            if calibration is not None:
                measures = measure_predictions(calibration.predicted)
                cost = calibration._asdict() | {"converged": float(calibration.converged)}
                del cost["predicted"]
                rows += [sizes | measures[estimate] | cost for estimate in estimates]
        right = shares(answers)[:, of == step.benchmark]
        sample = measure_random(right, step.n_anchors, key.rng(chain, 2, step.step))
        free = {"asked_subject": step.n_anchors, "asked_reference": 0, "converged": 1.0}
        rows.append(sizes | sample | free | {"seconds": 0.0, "compiling": 0.0})
    return rows


def _make_room() -> None:
    """Clear compiled code if this process holds so much that it would crash."""
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()
