"""What anchors say of test subjects' accuracy on a whole benchmark, and how far off it is."""

from collections.abc import Sequence

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from scipy.special import ndtri

from bayesirt.bank.step import BankItems
from bayesirt.bank.suite.excess import measure_excess
from bayesirt.bank.suite.suite_scores import predict_suite
from bayesirt.data.responses import Responses
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.posterior import LEVEL
from bayesirt.studies.measures import Floats, Index, spearman

MEASURES = ("mae", "bias", "spearman", "coverage", "width")
ESTIMATES = ("accuracy", "p_irt", "gp_irt", "anchor_mean")
_POINTS = 100
_ROUNDING = 1e-9
_SAMPLES = 20
Measures = dict[str, float]
_NO_INTERVALS: Measures = {"coverage": float("nan"), "width": float("nan")}
_MOST_MEASURED = 250  # Reference subjects whose errors are looked at: enough for a mean square.
_EXCESS_DRAWS = 60
_DRAWS = 100
_ROOM = 128
_EARLIER, _NEW = "earlier", "new"
_PREDICTED = ["accuracy", "low", "high", "p_irt", "gp_irt", "anchor_mean"]


def predict_benchmark(
    earlier: KnownItems, own: BankItems, reference: Responses, test: Responses, *, key: Array
) -> pd.DataFrame:
    """Predict test subjects on a benchmark from their answers to its anchors and earlier ones.

    One row a test subject, as by `predict_suite`, with its accuracy on the benchmark as `truth`.
    Items without slope, half of them answered, fill up what is computed to a multiple of 128 items,
    so that benchmarks of different sizes share compiled code. They say nothing of abilities, and
    belong to the earlier benchmarks, whose scores nobody looks at.
    """
    (name,) = own.benchmark_names
    weights, names = own.anchors(name), (*earlier.names, *own.known.names)
    answered = {*earlier.names, *weights}
    sure, unsure = _fillers(names, len(answered))
    items = _joined(earlier, own.known, _blank((*sure, *unsure), earlier.n_abilities))
    inside = set(own.known.names)
    labels = [_NEW if item in inside else _EARLIER for item in items.names]
    before = (*earlier.names, *sure)
    anchors = {_NEW: weights, _EARLIER: dict.fromkeys(before, 1 / len(before))}
    of_excess, of_scores = jax.random.split(key)
    looked_at = np.arange(min(reference.n_subjects, _MOST_MEASURED))
    whole = _answers(reference, looked_at, set(names), sure)
    excess = measure_excess(
        items, labels, whole, anchors=anchors, key=of_excess, n_draws=_EXCESS_DRAWS
    )
    asked = _answers(test, np.arange(test.n_subjects), answered, sure)
    scores = predict_suite(
        items,
        labels,
        asked,
        anchors=anchors,
        key=of_scores,
        excess={_NEW: excess[_NEW]},
        n_draws=_DRAWS,
    )
    found = scores.summary[scores.summary["benchmark"] == _NEW].set_index("subject")
    truth = shares(test)[:, [item in inside for item in test.items]].mean(1)
    return found.loc[list(test.subjects), _PREDICTED].assign(truth=truth)


def shares(responses: Responses) -> Floats:
    """Return the proportion correct of each cell, shape (subject, item)."""
    successes, trials = responses.cells.matrices()
    found: Floats = successes / np.maximum(trials, 1)
    return found


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
    """Ask all subjects the same few items, drawn at random 20 times, and take their mean.

    Intervals are Wilson's (1927), with (J - n) / (J - 1) of the variance that n answers would have
    if items could come twice. Habba et al. (2026), section 4.1.
    """
    truth, n_items = right.mean(1), right.shape[1]
    found = []
    for _ in range(_SAMPLES):
        mean = right[:, rng.permutation(n_items)[:n_asked]].mean(1)
        left = (n_items - n_asked) / max(n_items - 1, 1) / n_asked
        found.append(_compared(mean, truth) | _intervals(*_wilson(mean, left), truth))
    return {name: float(np.mean([one[name] for one in found])) for name in MEASURES}


def _fillers(names: Sequence[str], n_answered: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names of fillers, answered ones and others, that nothing else has."""
    new = "_" * (1 + max(map(len, names)))
    counts = -n_answered % _ROOM, (n_answered - len(names)) % _ROOM
    sure = tuple(f"{new}{k}" for k in range(counts[0]))
    return sure, tuple(f"{new}{k}" for k in range(counts[0], sum(counts)))


def _blank(names: tuple[str, ...], n_abilities: int) -> KnownItems:
    n, k = len(names), n_abilities
    return KnownItems(names, np.zeros((n, k)), np.zeros(n), np.zeros((n, k + 1, k + 1)))


def _joined(*parts: KnownItems) -> KnownItems:
    names = tuple(name for part in parts for name in part.names)
    a, d, covariance = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("a", "d", "covariance")
    )
    return KnownItems(names, a, d, covariance)


def _answers(
    responses: Responses, subjects: Index, items: set[str], sure: tuple[str, ...]
) -> Responses:
    """Return the answers of some subjects to some items, and right ones to fillers."""
    found = np.flatnonzero([name in items for name in responses.items])
    kept = responses.select(subjects, found)
    ones = np.ones((len(subjects), len(sure)), np.int64)
    successes, trials = (np.hstack([x, ones]) for x in kept.cells.matrices())
    return Responses.from_arrays(
        successes, trials, subjects=kept.subjects, items=(*kept.items, *sure)
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
    """Return ends of intervals; the variance is that of a mean whose answers vary by 1."""
    share = float(ndtri((1 + LEVEL) / 2)) ** 2 * variance
    centre = (mean + share / 2) / (1 + share)
    half = np.sqrt(share * (mean * (1 - mean) + share / 4)) / (1 + share)
    return centre - half, centre + half
