"""What the FPC study varies, and its work: one chain under one condition."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import jax
import numpy as np

from bayesirt.bank.bank_tables import check_anchors
from bayesirt.data.responses import Responses
from bayesirt.estimators.anchors import AnchorRule
from bayesirt.studies.engine import Places, Row
from bayesirt.studies.fpc_chain import Chain, ChainStep, first_benchmarks, run_chain
from bayesirt.studies.fpc_matrix import (
    REFERENCE_SHARE,
    FPCMatrix,
    SimulatedSuite,
    Split,
    chain_order,
    divided,
)
from bayesirt.studies.fpc_prediction import MEASURES, measure_predictions, measure_random, shares
from bayesirt.studies.tasks import PortableKey

USUAL_RULE: AnchorRule = "clusters"

METHODS = {
    "fixed": "FPC",
    "fixed_gp_irt": "FPC by gp-IRT",
    "fixed_p_irt": "FPC by p-IRT",
    "anchor_mean": "mean of anchors",
    "concurrent": "concurrent calibration",
    "concurrent_gp_irt": "concurrent calibration by gp-IRT",
    "random": "random sampling",
}
"""Who predicts, and in words."""
COLUMNS = (
    *("condition", "chain", "step", "method", "benchmark", "n_items", "n_asked", "n_earlier"),
    *("n_calibrating", "n_test", *MEASURES),
    *("asked_subject", "asked_reference", "seconds", "compiling", "converged"),
)
"""Of a row."""

_ESTIMATES = {
    "fixed": {
        "accuracy": "fixed",
        "gp_irt": "fixed_gp_irt",
        "p_irt": "fixed_p_irt",
        "anchor_mean": "anchor_mean",
    },
    "concurrent": {"accuracy": "concurrent", "gp_irt": "concurrent_gp_irt"},
}
_LAST = "random"
_MOST_TEST = 400
_MOST_MAPS = 30_000
"""About half of what Linux allows a process; compiled code holds several for each function."""


@dataclass(frozen=True)
class FPCDesign:
    """What is varied, one thing at a time."""

    anchors: tuple[int, ...] = (10, 25, 50, 100)  # Of each benchmark.
    usual: int = 100  # Their number where something else is varied.
    rule_anchors: tuple[int, ...] = (25, 100)  # Those at which the rules are compared.
    references: tuple[int, ...] = (25, 100, 400)  # Reference subjects; all of them anyway.
    n_abilities: int = 5  # Of a given suite; a simulated one is fitted with as many as it has.
    orders: int = 2  # Chains that end with the same benchmark of a given suite.
    chains: int = 3  # Of a simulated suite.
    # Of these, chains on which all but the number of anchors is varied, and concurrent calibration
    # is done; of a given suite, one for each benchmark.
    few: int = 2
    measured: int = 8  # Most steps of a chain at which test subjects are predicted.
    simulated: SimulatedSuite = field(default_factory=SimulatedSuite)


FPC_SIMULATED = FPCDesign(anchors=(5, 10, 20), usual=10, rule_anchors=(10,), references=(25, 100))
"""For benchmarks of 40 items."""

FPC_QUICK = FPCDesign(
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
"""A short chain, and few steps of it."""


@dataclass(frozen=True)
class Condition:
    """How a chain is run."""

    n_anchors: int
    how: AnchorRule  # The rule that chooses anchors.
    n_reference: int  # 0 for all.
    split: Split
    chains: int  # How many.
    concurrent: int = 0  # On how many of them concurrent calibration is done, too.


def conditions_of(design: FPCDesign, matrix: FPCMatrix) -> list[Condition]:
    """Return what is varied, one thing at a time."""
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


@dataclass(frozen=True)
class ChainTask:
    """One chain under one condition."""

    number: int  # Of the condition.
    condition: Condition
    chain: int
    matrix: FPCMatrix
    design: FPCDesign
    key: PortableKey  # The study's.

    @property
    def n_abilities(self) -> int:
        """Of the model."""
        simulated = self.matrix.simulated
        return self.design.simulated.n_abilities if simulated else self.design.n_abilities

    @property
    def order(self) -> list[str]:
        """Benchmarks as they join, the same under all conditions."""
        return chain_order(self.matrix, self.chain, self._rng(0))

    @property
    def measured(self) -> list[int]:
        """Steps at which test subjects are predicted, the last among them."""
        of = np.asarray(self.matrix.benchmarks, object)
        n_steps = len(self.order) - first_benchmarks(of, self.order, self.n_abilities)
        spread = np.linspace(1, n_steps, min(n_steps, self.design.measured))
        return [int(step) for step in spread.round()]

    @property
    def places(self) -> Places:
        """Part and place of its last row."""
        return [("chains", (self.number, self.chain, self.measured[-1], _LAST))]

    def run(self) -> list[Row]:
        """Return a row for each measured step and method."""
        _make_room()
        condition, responses = self.condition, self.matrix.responses
        everything = np.arange(responses.n_items)
        reference, test = divided(self.matrix, condition.split, self._rng(1))
        reference = reference[: condition.n_reference or None]
        answers = responses.select(test[:_MOST_TEST], everything)
        chain = Chain(
            responses.select(reference, everything),
            answers,
            np.asarray(self.matrix.benchmarks, object),
            condition.n_anchors,
            condition.how,
            self.n_abilities,
        )
        steps = run_chain(
            chain,
            self.order,
            key=self.key.folded(self.chain),
            measured=self.measured,
            concurrent=self.chain < condition.concurrent,
        )
        place = {"condition": self.number, "chain": self.chain}
        place |= {"n_calibrating": len(reference), "n_test": answers.n_subjects}
        return [place | row for step in steps for row in self._rows(step, answers)]

    def _rows(self, step: ChainStep, test: Responses) -> Iterator[Row]:
        place = {
            "step": step.step,
            "benchmark": self.matrix.names.index(step.benchmark),
            "n_items": step.n_items,
            "n_asked": step.n_anchors,
            "n_earlier": step.n_earlier,
        }
        for kind, calibration in (("fixed", step.fixed), ("concurrent", step.concurrent)):
            if calibration is None:
                continue
            found = measure_predictions(calibration.predicted)
            cost = calibration._asdict() | {"converged": float(calibration.converged)}
            del cost["predicted"]
            for estimate, method in _ESTIMATES[kind].items():
                yield place | {"method": method, **found[estimate], **cost}
        own = np.asarray(self.matrix.benchmarks, object) == step.benchmark
        rng = self._rng(2, step.step)
        measures = measure_random(shares(test)[:, own], step.n_anchors, rng)
        free = {"asked_reference": 0, "seconds": 0.0, "compiling": 0.0, "converged": 1.0}
        asked = {"asked_subject": step.n_anchors, **free}
        yield place | {"method": _LAST, **measures, **asked}

    def _rng(self, *numbers: int) -> np.random.Generator:
        return self.key.rng(self.chain, *numbers)


def tasks_of(
    design: FPCDesign, matrix: FPCMatrix, conditions: Sequence[Condition], key: PortableKey
) -> list[ChainTask]:
    """Return the chains of all conditions, chain by chain within what is varied."""
    tasks = [
        ChainTask(number, condition, chain, matrix, design, key)
        for number, condition in enumerate(conditions)
        for chain in range(condition.chains)
    ]
    fewest = min(condition.n_anchors for condition in conditions)
    check_anchors(matrix.benchmarks, fewest, tasks[0].n_abilities)

    def place(task: ChainTask) -> tuple[bool, bool, bool, int]:
        own = task.condition
        varied = own.how != USUAL_RULE, own.split != "random", own.n_reference > 0
        return (*varied, task.chain)

    return sorted(tasks, key=place)


def _make_room() -> None:
    """Forget compiled code when this process holds so much that it would crash."""
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()
