"""A chain of benchmarks that join a suite one after another (Habba et al., 2026)."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.bank.bank_tables import check_anchors, with_anchors
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.anchors import AnchorRule
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.fpc import calibrate_items
from bayesirt.estimators.mirt import fit_mirt
from bayesirt.point_estimate import PointEstimate
from bayesirt.studies.fits import compile_clock, quietly
from bayesirt.studies.fpc_prediction import predict_benchmark
from bayesirt.studies.measures import Index

_ITEMS_AN_ABILITY = 10
_TOGETHER = 8


class Calibration(NamedTuple):
    """What a method made of a benchmark that joined, and what it says of test subjects."""

    predicted: pd.DataFrame  # One row a test subject; see `predict_benchmark`.
    # Answers that a new subject is asked for at this step, as Habba et al. (2026) count: those to
    # the benchmark's anchors, and under concurrent calibration those to all earlier ones again.
    asked_subject: int
    asked_reference: int  # Answers that each reference subject is asked for, likewise.
    seconds: float  # Of the calibration.
    compiling: float  # What of them JAX spent on compiling.
    converged: bool


class ChainStep(NamedTuple):
    """A benchmark that joined the suite."""

    step: int  # From 1, the first that was added to those that the suite began with.
    benchmark: str
    n_items: int  # Of the benchmark.
    n_anchors: int  # Of the benchmark.
    n_earlier: int  # Anchors of all benchmarks before it.
    fixed: Calibration  # Earlier items stay as they are.
    concurrent: Calibration | None  # Earlier anchors are fitted again with the benchmark's items.


def run_chain(
    chain: "Chain",
    order: Sequence[str],
    *,
    key: Array,
    measured: Collection[int] | None = None,
    concurrent: bool = False,
) -> Iterator[ChainStep]:
    """Let benchmarks join a suite one by one, and predict test subjects on each from anchors.

    Each step does what `add_benchmark` does, with a bank that lives in memory only. Beyond 8
    benchmarks, a new one is linked by the anchors of the oldest 8, 16, 24, ...: all but 7 at most,
    so that steps share compiled code. Predictions use all anchors. Concurrent calibration takes
    over earlier anchors and chooses those of the new benchmark by its own parameters.

    Habba et al. (2026), sections 3 and 4.1.
    """
    of, n_abilities = chain.of, chain.n_abilities
    check_anchors([str(name) for name in of], chain.n_anchors, n_abilities)
    n_first = first_benchmarks(of, order, n_abilities)
    bank = chain.begun(order[:n_first], key=jax.random.fold_in(key, 0))
    for step, name in enumerate(order[n_first:], 1):
        of_anchors, of_fixed, of_other = jax.random.split(jax.random.fold_in(key, step), 3)
        own = np.flatnonzero(of == name)
        earlier = _anchors_of(bank)
        with compile_clock() as clock:
            point = quietly(partial(calibrate_items, chain.linked(bank, own), bank.items))
            items = chain.chosen(point, own, name, key=of_anchors)
        bank = ItemBank(n_abilities, (*bank.steps, BankStep("add", items)))
        if measured is not None and step not in measured:
            continue
        n_own, n_earlier = len(items.anchors(name)), len(earlier.names)
        predicted = predict_benchmark(earlier, items, chain.reference, chain.test, key=of_fixed)
        cost = clock.seconds, clock.compiling, point.converged
        fixed = Calibration(predicted, n_own, len(own), *cost)
        other = chain.concurrent(earlier, own, name, key=of_other) if concurrent else None
        yield ChainStep(step, name, len(own), n_own, n_earlier, fixed, other)


def first_benchmarks(
    benchmarks: NDArray[np.object_], order: Sequence[str], n_abilities: int
) -> int:
    """Return how many benchmarks a suite begins with: those that hold ten items an ability."""
    sizes = np.array([np.count_nonzero(benchmarks == name) for name in order])
    needed = int(np.searchsorted(sizes.cumsum(), _ITEMS_AN_ABILITY * n_abilities)) + 1
    if needed >= len(order):
        raise ResponseError(
            f"{len(order)} benchmarks with {sizes.sum()} items cannot make a suite of "
            f"{n_abilities} abilities that another benchmark joins; it takes "
            f"{_ITEMS_AN_ABILITY} items an ability before, so ask for fewer abilities"
        )
    return needed


@dataclass(frozen=True)
class Chain:
    """What stays the same at each step."""

    reference: Responses
    test: Responses
    of: NDArray[np.object_]  # Each item's benchmark.
    n_anchors: int = 100
    how: AnchorRule = "clusters"
    n_abilities: int = 5

    def answers(self, items: Index) -> Responses:
        """Return what reference subjects answered to some items."""
        return self.reference.select(np.arange(self.reference.n_subjects), np.sort(items))

    def begun(self, names: Sequence[str], *, key: Array) -> ItemBank:
        """Return a bank of the first benchmarks."""
        first = np.flatnonzero(np.isin(self.of, names))
        point = quietly(partial(fit_mirt, self.answers(first), n_abilities=self.n_abilities))
        known, rule = KnownItems.from_estimate(point), (self.of[first].tolist(), self.n_anchors)
        items = with_anchors(known, *rule, how=self.how, key=key)
        return ItemBank(self.n_abilities, (BankStep("create", items),))

    def linked(self, bank: ItemBank, own: Index) -> Responses:
        """Return the answers to a new benchmark and to the anchors that link it."""
        names = bank.benchmark_names
        n = len(names) // _TOGETHER * _TOGETHER or len(names)
        anchors = {item for name in names[:n] for item in bank.anchors(name)}
        old = np.flatnonzero([item in anchors for item in self.reference.items])
        return self.answers(np.append(old, own))

    def chosen(self, point: PointEstimate, own: Index, name: str, *, key: Array) -> BankItems:
        """Return a benchmark's items, as an estimate has them, with anchors among them."""
        found, names = KnownItems.from_estimate(point), {self.reference.items[j] for j in own}
        new = found.select(np.flatnonzero([item in names for item in found.names]))
        return with_anchors(new, [name] * len(own), self.n_anchors, how=self.how, key=key)

    def concurrent(self, earlier: KnownItems, own: Index, name: str, *, key: Array) -> Calibration:
        """Fit earlier anchors and a new benchmark together, and predict from that."""
        of_anchors, of_prediction = jax.random.split(key)
        names = set(earlier.names)
        old = np.flatnonzero([item in names for item in self.reference.items])
        with compile_clock() as clock:
            answers = self.answers(np.append(old, own))
            point = quietly(partial(fit_mirt, answers, n_abilities=self.n_abilities))
            items = self.chosen(point, own, name, key=of_anchors)
        found = KnownItems.from_estimate(point)
        again = found.select(np.flatnonzero([item in names for item in found.names]))
        predicted = predict_benchmark(again, items, self.reference, self.test, key=of_prediction)
        asked = len(old) + len(items.anchors(name)), len(old) + len(own)
        return Calibration(predicted, *asked, clock.seconds, clock.compiling, point.converged)


def _anchors_of(bank: ItemBank) -> KnownItems:
    anchors = set(bank.anchor_items)
    return bank.items.select(np.flatnonzero([item in anchors for item in bank.items.names]))
