"""A chain of benchmarks that join a suite one after another (Habba et al., 2026).

At each step the scores of test subjects on the new benchmark are predicted from anchors.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesirt.bank.bank_tables import check_anchors, with_anchors
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.bank.suite.excess import measure_excess
from bayesirt.bank.suite.suite_scores import predict_suite
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.anchors import AnchorRule
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.fpc import calibrate_items
from bayesirt.estimators.mirt import fit_mirt
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import LEVEL
from bayesirt.studies.measures import Floats, Index, spearman
from bayesirt.studies.tasks import compile_clock, quietly

MEASURES = ("mae", "bias", "spearman", "coverage", "width")
ESTIMATES = ("accuracy", "p_irt", "gp_irt", "anchor_mean")
_POINTS = 100
_ROUNDING = 1e-9
_SAMPLES = 20
Measures = dict[str, float]
_NO_INTERVALS: Measures = {"coverage": float("nan"), "width": float("nan")}
_MOST_MEASURED = 250  # Reference subjects whose errors are measured: enough for a mean square.
_EXCESS_DRAWS = 60
_DRAWS = 100
_ROOM = 128
_EARLIER, _NEW = "earlier", "new"
_PREDICTED = ["accuracy", "low", "high", "p_irt", "gp_irt", "anchor_mean"]


def predict_benchmark(
    earlier: KnownItems, own: BankItems, reference: Responses, test: Responses, *, key: Array
) -> pd.DataFrame:
    """Predict test subjects on a benchmark from their answers to its anchors and earlier ones.

    One row per test subject, as in `predict_suite`, with its accuracy on the benchmark as `truth`.
    Items are padded to a multiple of 128 with items without slope, both answered and unanswered, so
    that benchmarks of different sizes share compiled code. These carry no information on abilities
    and belong to the earlier benchmarks, whose scores are not used.
    """
    (name,) = own.benchmark_names
    weights, names = own.anchors(name), (*earlier.names, *own.known.names)
    answered = {*earlier.names, *weights}
    sure, unsure = _fillers(names, len(answered))
    n, k = len(sure) + len(unsure), earlier.n_abilities
    blank = np.zeros((n, k)), np.zeros(n), np.zeros((n, k + 1, k + 1))
    items = _joined(earlier, own.known, KnownItems((*sure, *unsure), *blank))
    inside = set(own.known.names)
    labels = [_NEW if item in inside else _EARLIER for item in items.names]
    before = (*earlier.names, *sure)
    anchors = {_NEW: weights, _EARLIER: dict.fromkeys(before, 1 / len(before))}
    of_excess, of_scores = jax.random.split(key)
    looked_at = np.arange(min(reference.n_subjects, _MOST_MEASURED))
    reference_answers = _answers(reference, looked_at, set(names), sure)
    excess = measure_excess(
        items, labels, reference_answers, anchors=anchors, key=of_excess, n_draws=_EXCESS_DRAWS
    )
    test_answers = _answers(test, np.arange(test.n_subjects), answered, sure)
    scores = predict_suite(
        items,
        labels,
        test_answers,
        anchors=anchors,
        key=of_scores,
        excess={_NEW: excess[_NEW]},
        n_draws=_DRAWS,
    )
    predictions = scores.summary[scores.summary["benchmark"] == _NEW].set_index("subject")
    truth = shares(test)[:, [item in inside for item in test.items]].mean(1)
    return predictions.loc[list(test.subjects), _PREDICTED].assign(truth=truth)


def shares(responses: Responses) -> Floats:
    """Return the proportion correct of each cell, shape (subject, item)."""
    successes, trials = responses.cells.matrices()
    proportions: Floats = successes / np.maximum(trials, 1)
    return proportions


def measure_predictions(predicted: pd.DataFrame) -> dict[str, Measures]:
    """Compare each estimate with the truth; only the posterior mean has intervals."""
    truth = predicted["truth"].to_numpy()
    low, high = predicted["low"].to_numpy(), predicted["high"].to_numpy()
    return {
        name: _compared(predicted[name].to_numpy(), truth)
        | (_intervals(low, high, truth) if name == "accuracy" else _NO_INTERVALS)
        for name in ESTIMATES
    }


def measure_random(right: Floats, n_asked: int, rng: np.random.Generator) -> Measures:
    """Predict by the mean on the same few random items for all subjects, averaged over 20 draws.

    Intervals are Wilson's (1927), with (J - n) / (J - 1) of the variance of n answers drawn with
    replacement. Habba et al. (2026), section 4.1.
    """
    truth, n_items = right.mean(1), right.shape[1]
    measures = []
    for _ in range(_SAMPLES):
        mean = right[:, rng.permutation(n_items)[:n_asked]].mean(1)
        variance = (n_items - n_asked) / max(n_items - 1, 1) / n_asked
        measures.append(_compared(mean, truth) | _intervals(*_wilson(mean, variance), truth))
    return {name: float(np.mean([one[name] for one in measures])) for name in MEASURES}


def _fillers(names: Sequence[str], n_answered: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return unique names of fillers, answered and unanswered."""
    new = "_" * (1 + max(map(len, names)))
    counts = -n_answered % _ROOM, (n_answered - len(names)) % _ROOM
    sure = tuple(f"{new}{k}" for k in range(counts[0]))
    return sure, tuple(f"{new}{k}" for k in range(counts[0], sum(counts)))


def _joined(*parts: KnownItems) -> KnownItems:
    names = tuple(name for part in parts for name in part.names)
    a, d, covariance = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("a", "d", "covariance")
    )
    return KnownItems(names, a, d, covariance)


def _answers(
    responses: Responses, subjects: Index, items: set[str], sure: tuple[str, ...]
) -> Responses:
    """Return the answers of some subjects to some items, with right answers to fillers."""
    positions = _chosen(responses.items, items)
    answers = responses.select(subjects, positions)
    ones = np.ones((len(subjects), len(sure)), np.int64)
    successes, trials = (np.hstack([x, ones]) for x in answers.cells.matrices())
    return Responses.from_arrays(
        successes, trials, subjects=answers.subjects, items=(*answers.items, *sure)
    )


def _compared(values: Floats, truth: Floats) -> Measures:
    off = _POINTS * (values - truth)
    return {
        "mae": float(np.abs(off).mean()),
        "bias": float(off.mean()),
        "spearman": float(spearman(truth, values)),
    }


def _intervals(low: Floats, high: Floats, truth: Floats) -> Measures:
    held = (low <= truth + _ROUNDING) & (truth <= high + _ROUNDING)
    return {"coverage": float(held.mean()), "width": float(_POINTS * (high - low).mean())}


def _wilson(mean: Floats, variance: float) -> tuple[Floats, Floats]:
    """Return ends of intervals; `variance` is that of a mean of answers with unit variance."""
    share = float(ndtri((1 + LEVEL) / 2)) ** 2 * variance
    centre = (mean + share / 2) / (1 + share)
    half = np.sqrt(share * (mean * (1 - mean) + share / 4)) / (1 + share)
    return centre - half, centre + half


_ITEMS_AN_ABILITY = 10
_TOGETHER = 8


class Calibration(NamedTuple):
    """The calibration of a benchmark that joins, and its predictions for test subjects."""

    predicted: pd.DataFrame  # One row per test subject; see `predict_benchmark`.
    # Answers asked of a new subject at this step, as counted by Habba et al. (2026): those to the
    # benchmark's anchors, and under concurrent calibration also those to all earlier ones.
    asked_subject: int
    asked_reference: int  # Answers asked of each reference subject, likewise.
    seconds: float  # Of the calibration.
    compiling: float  # Seconds of these that JAX spent on compiling.
    converged: bool


class ChainStep(NamedTuple):
    """A benchmark that joins the suite."""

    step: int  # From 1, the first benchmark added to the initial suite.
    benchmark: str
    n_items: int  # Of the benchmark.
    n_anchors: int  # Of the benchmark.
    n_earlier: int  # Anchors of all earlier benchmarks.
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
    """Add benchmarks to a suite one by one, and predict test subjects on each from anchors.

    Each step does what `add_benchmark` does, with a bank in memory. Beyond 8 benchmarks, a new one
    is linked by the anchors of the oldest 8, 16, 24, ...: all but 7 at most, so that steps share
    compiled code. Predictions use all anchors. Concurrent calibration keeps earlier anchors and
    chooses those of the new benchmark by its own parameters.

    Habba et al. (2026), sections 3 and 4.1.
    """
    of, n_abilities = chain.of, chain.n_abilities
    check_anchors([str(name) for name in of], chain.n_anchors, n_abilities)
    n_first = first_benchmarks(of, order, n_abilities)
    bank = chain.begun(order[:n_first], key=jax.random.fold_in(key, 0))
    for step, name in enumerate(order[n_first:], 1):
        of_anchors, of_fixed, of_other = jax.random.split(jax.random.fold_in(key, step), 3)
        own = np.flatnonzero(of == name)
        earlier = bank.items.select(_chosen(bank.items.names, set(bank.anchor_items)))
        with compile_clock() as clock:
            point = quietly(calibrate_items, chain.linked(bank, own), bank.items)
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
    """Return how many benchmarks a suite starts with: enough for ten items per ability."""
    sizes = np.array([np.count_nonzero(benchmarks == name) for name in order])
    needed = int(np.searchsorted(sizes.cumsum(), _ITEMS_AN_ABILITY * n_abilities)) + 1
    if needed >= len(order):
        raise ResponseError(
            f"{len(order)} benchmarks with {sizes.sum()} items cannot make a suite of "
            f"{n_abilities} abilities that another benchmark joins; it needs "
            f"{_ITEMS_AN_ABILITY} items per ability before, so ask for fewer abilities"
        )
    return needed


@dataclass(frozen=True)
class Chain:
    """Settings and data that are the same at each step."""

    reference: Responses
    test: Responses
    of: NDArray[np.object_]  # Each item's benchmark.
    n_anchors: int = 100
    how: AnchorRule = "clusters"
    n_abilities: int = 5

    def answers(self, items: Index) -> Responses:
        """Return the reference subjects' answers to some items."""
        return self.reference.select(np.arange(self.reference.n_subjects), np.sort(items))

    def begun(self, names: Sequence[str], *, key: Array) -> ItemBank:
        """Return a bank of the first benchmarks."""
        first = np.flatnonzero(np.isin(self.of, names))
        point = quietly(fit_mirt, self.answers(first), n_abilities=self.n_abilities)
        estimates, rule = KnownItems.from_estimate(point), (self.of[first].tolist(), self.n_anchors)
        items = with_anchors(estimates, *rule, how=self.how, key=key)
        return ItemBank(self.n_abilities, (BankStep("create", items),))

    def linked(self, bank: ItemBank, own: Index) -> Responses:
        """Return the answers to a new benchmark and to the anchors that link it."""
        names = bank.benchmark_names
        n = len(names) // _TOGETHER * _TOGETHER or len(names)
        anchors = {item for name in names[:n] for item in bank.anchors(name)}
        old = _chosen(self.reference.items, anchors)
        return self.answers(np.append(old, own))

    def chosen(self, point: PointEstimate, own: Index, name: str, *, key: Array) -> BankItems:
        """Return a benchmark's items with their estimates, and anchors among them."""
        estimates, names = KnownItems.from_estimate(point), {self.reference.items[j] for j in own}
        new = estimates.select(_chosen(estimates.names, names))
        return with_anchors(new, [name] * len(own), self.n_anchors, how=self.how, key=key)

    def concurrent(self, earlier: KnownItems, own: Index, name: str, *, key: Array) -> Calibration:
        """Fit earlier anchors and a new benchmark together, and predict from the fit."""
        of_anchors, of_prediction = jax.random.split(key)
        names = set(earlier.names)
        old = _chosen(self.reference.items, names)
        with compile_clock() as clock:
            answers = self.answers(np.append(old, own))
            point = quietly(fit_mirt, answers, n_abilities=self.n_abilities)
            items = self.chosen(point, own, name, key=of_anchors)
        estimates = KnownItems.from_estimate(point)
        again = estimates.select(_chosen(estimates.names, names))
        predicted = predict_benchmark(again, items, self.reference, self.test, key=of_prediction)
        counts = len(old) + len(items.anchors(name)), len(old) + len(own)
        return Calibration(predicted, *counts, clock.seconds, clock.compiling, point.converged)


def _chosen(names: Sequence[str], chosen: Collection[str]) -> Index:
    """Return the places of the names that are chosen."""
    return np.flatnonzero([name in chosen for name in names])
