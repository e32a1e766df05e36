"""A calibrated item bank: a growing suite of benchmarks on one scale, step by step."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from bayesirt.bank.step import BankItems, BankStep, ReferenceSubjects
from bayesirt.bank.tables import ANSWER_COLUMNS, SCORE_COLUMNS
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.names import first_few, one_line


@dataclass(frozen=True, eq=False, repr=False)
class ItemBank:
    """The content of a bank; steps that contradict each other are refused.

    >>> known = KnownItems(("x", "y"), np.ones((2, 1)), np.zeros(2), np.zeros((2, 2, 2)))
    >>> items = BankItems(known, ("maths", "maths"), np.array([1.0, np.nan]))
    >>> ItemBank(1, (BankStep("create", items),))
    <ItemBank: 1 benchmarks, 2 items, 1 anchors, 1 abilities, 1 steps>
    """

    n_abilities: int
    steps: tuple[BankStep, ...]  # The first creates the bank; later ones only add to it.

    def __post_init__(self) -> None:
        kinds = [step.kind for step in self.steps]
        if kinds.count("create") != 1 or kinds[0] != "create":
            raise ResponseError(
                "the first step of a bank, and no other, must be of kind 'create'; add further "
                "benchmarks by a step of kind 'add'"
            )
        items: set[str] = set()
        benchmarks: set[str] = set()
        anchors: set[str] = set()
        for name, step in zip(self.step_names, self.steps, strict=True):
            if step.items is not None:
                self._check_abilities(name, step.items)
                _refuse_known("item", step.items.known.names, items)
                _refuse_known("benchmark", step.items.benchmark_names, benchmarks)
                items.update(step.items.known.names)
                benchmarks.update(step.items.benchmark_names)
                anchors.update(*map(step.items.anchors, step.items.benchmark_names))
            _check_step(name, step, benchmarks, anchors)
        _refuse_contradiction(self.answer_table)

    def __repr__(self) -> str:
        return (
            f"<ItemBank: {len(self.benchmark_names)} benchmarks, {len(self.benchmarks):,} items, "
            f"{len(self.anchor_items):,} anchors, {self.n_abilities} abilities, "
            f"{len(self.steps)} steps>"
        )

    def _check_abilities(self, name: str, items: BankItems) -> None:
        if items.known.n_abilities != self.n_abilities:
            raise ResponseError(
                f"the items of step {name} have {items.known.n_abilities} abilities, those of the "
                f"bank {self.n_abilities}; calibrate them with the same number"
            )

    @property
    def step_names(self) -> tuple[str, ...]:
        """Names of the steps, such as ``001-add``."""
        return tuple(f"{k:03}-{step.kind}" for k, step in enumerate(self.steps))

    @property
    def items(self) -> KnownItems:
        """All items, in order of their steps."""
        parts = [items.known for items in self._item_steps()]
        return KnownItems(
            tuple(name for one in parts for name in one.names),
            np.concatenate([one.a for one in parts]),
            np.concatenate([one.d for one in parts]),
            np.concatenate([one.covariance for one in parts]),
        )

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Benchmark of each item."""
        return tuple(name for items in self._item_steps() for name in items.benchmarks)

    @property
    def benchmark_names(self) -> tuple[str, ...]:
        """Benchmarks, in order of their steps."""
        return tuple(name for items in self._item_steps() for name in items.benchmark_names)

    def anchors(self, benchmark: str) -> dict[str, float]:
        """Return a benchmark's anchors, with the share of the benchmark that each represents."""
        for items in self._item_steps():
            if benchmark in items.benchmark_names:
                return items.anchors(benchmark)
        names = ", ".join(one_line(name, 24) for name in self.benchmark_names[:12])
        raise ResponseError(
            f"the bank has no benchmark {one_line(benchmark)!r}; its benchmarks are {names}"
        )

    @property
    def anchor_items(self) -> tuple[str, ...]:
        """All anchors, in order of their steps."""
        return tuple(
            name
            for items in self._item_steps()
            for name, weight in zip(items.known.names, items.weights, strict=True)
            if not np.isnan(weight)
        )

    @cached_property
    def answer_table(self) -> pd.DataFrame:
        """Answers of all subjects to anchors, each once: `ANSWER_COLUMNS`."""
        tables = [step.answers for step in self.steps if step.answers is not None]
        if not tables:
            return pd.DataFrame(columns=list(ANSWER_COLUMNS))
        return pd.concat(tables, ignore_index=True).drop_duplicates(ignore_index=True)

    @property
    def answers(self) -> Responses:
        """Answers of all subjects to anchors, in order of their steps."""
        if self.answer_table.empty:
            raise ResponseError("the bank keeps no answers; add a step with answers to anchors")
        return Responses.from_long(self.answer_table, score="successes", trials="trials")

    @property
    def history(self) -> pd.DataFrame:
        """All scores so far, each with its ``step``."""
        tables = [
            step.scores.assign(step=name)
            for name, step in zip(self.step_names, self.steps, strict=True)
            if step.scores is not None
        ]
        if not tables:
            return pd.DataFrame(columns=["step", *SCORE_COLUMNS])
        table = pd.concat(tables, ignore_index=True)
        return table[["step", *table.columns.drop("step")]]

    @property
    def subjects(self) -> ReferenceSubjects | None:
        """Reference subjects with their latest abilities, and accuracies on all benchmarks."""
        position: dict[str, int] = {}
        placed = [step.subjects for step in self.steps if step.subjects is not None]
        for step in placed:
            for name in step.names:
                position.setdefault(name, len(position))
        if not position:
            return None
        n, k, columns = len(position), self.n_abilities, len(self.benchmark_names)
        theta, covariance = np.empty((n, k)), np.empty((n, k, k))
        accuracy = np.full((n, columns), np.nan)
        first = 0
        for items, subjects in self._placements():
            last = first + len(items.benchmark_names)
            if subjects is not None:
                rows = np.array([position[name] for name in subjects.names], np.intp)
                theta[rows], covariance[rows] = subjects.theta, subjects.covariance
                accuracy[rows, first:last] = subjects.accuracy
            first = last
        return ReferenceSubjects(tuple(position), theta, covariance, accuracy)

    def _item_steps(self) -> Iterator[BankItems]:
        return (step.items for step in self.steps if step.items is not None)

    def _placements(self) -> Iterator[tuple[BankItems, ReferenceSubjects | None]]:
        return ((step.items, step.subjects) for step in self.steps if step.items is not None)


def _refuse_known(kind: str, names: Collection[str], known: Collection[str]) -> None:
    again = [name for name in names if name in known]
    if again:
        shown = first_few([repr(one_line(name)) for name in again], 5)
        raise ResponseError(
            f"{kind} {shown} {'is' if len(again) == 1 else 'are'} in the bank already, where "
            f"nothing can change; rename or drop what is not new"
        )


def _check_step(
    name: str, step: BankStep, benchmarks: Collection[str], anchors: Collection[str]
) -> None:
    """Refuse a step that refers to benchmarks or anchors which are not yet in the bank."""
    scored = [] if step.scores is None else step.scores["benchmark"].unique().tolist()
    for benchmark in (*scored, *step.figures):
        if benchmark not in benchmarks:
            raise ResponseError(
                f"step {name} refers to benchmark {one_line(benchmark)!r}, which is not in the "
                f"bank; add it first"
            )
    answered = [] if step.answers is None else step.answers["item"].unique().tolist()
    for item in answered:
        if item not in anchors:
            raise ResponseError(
                f"step {name} holds answers to item {one_line(item)!r}, which is not an anchor of "
                f"the bank; leave out answers to other items"
            )


def _refuse_contradiction(answers: pd.DataFrame) -> None:
    again = answers.duplicated(["subject", "item"]).to_numpy()
    if again.any():
        row = answers.iloc[int(np.argmax(again))]
        raise ResponseError(
            f"subject {one_line(row['subject'])!r} answered item {one_line(row['item'])!r} "
            f"differently in an earlier step; give the subject another name if it has changed"
        )
