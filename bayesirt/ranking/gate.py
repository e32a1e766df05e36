"""Whether a candidate scores worse than a baseline, or whether that is still undecided."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.data.scales import Scale, ends_of, refuse_other_answers
from bayesirt.errors import ResponseError
from bayesirt.names import counted, one_line
from bayesirt.posterior import Posterior
from bayesirt.ranking.gate_result import SURE, Gate
from bayesirt.ranking.paired_difference import Pairs, needed, paired_difference

if TYPE_CHECKING:
    from bayesirt.ranking.calibrated_difference import CalibratedDifference

Through = Callable[[Responses, str, str], "CalibratedDifference"]

_MOST_SHOWN = 5


def gate(
    responses: Responses,
    *,
    baseline: str,
    candidate: str,
    margin: float = 0.0,
    group: str | None = None,
    history: Posterior | Through | None = None,
    sure: float = SURE,
    seed: int = 0,
) -> Gate:
    """Judge whether a candidate scores worse than a baseline on the questions that both answered.

    Parameters
    ----------
    responses : Responses
        Runs of one question are its trials.
    baseline, candidate : str
        Names of two subjects.
    margin : float
        A drop of at most this share of the questions is not a regression; 0.02 is two points. For
        grades and scores it is in their own unit: 0.2 is a fifth of a grade.
    group : str, optional
        Column of the item metadata: questions with the same value depend on each other.
    history : Posterior, or what `bayesirt.bank.gate_history.through_bank` returns, optional
        Items calibrated on other subjects, by the 2PL or 3PL, or as an item bank.
    sure : float
        Probability from which a claim is made.
    seed : int

    Returns
    -------
    Gate

    Raises
    ------
    ResponseError
        If a subject is missing, both are the same, the margin is not a share, they have fewer than
        two questions in common, or the history has calibrated too few of the questions.

    Notes
    -----
    A claim is judged by the Bayesian bootstrap over questions (Rubin, 1981) with one additional
    question that contradicts it: with one run of each question and no margin this is the exact
    one-sided McNemar test. Ends of intervals include half of such a question.

    Examples
    --------
    >>> import numpy as np
    >>> answers = np.vstack([np.ones(40), np.r_[np.zeros(8), np.ones(32)]])
    >>> responses = Responses.from_arrays(answers, subjects=["old", "new"])
    >>> found = gate(responses, baseline="old", candidate="new")
    >>> found.verdict, round(found.difference.mean, 3)
    ('regression', -0.2)
    """
    scale = responses.scale
    margin = _as_share(margin, scale)
    if history is not None:
        refuse_other_answers(scale, "a history", "binary")
    for name in (baseline, candidate):
        check_name(name, responses.subjects)
    if baseline == candidate:
        raise ResponseError(f"baseline and candidate are both {one_line(baseline)!r}; name two")
    pairs = _pairs(responses, baseline, candidate, group)
    rows = [responses.subjects.index(name) for name in (baseline, candidate)]
    calibrated = None
    if history is not None:
        from bayesirt.ranking.calibrated_difference import calibrated_difference

        through = history if callable(history) else partial(calibrated_difference, history)
        calibrated = through(responses, baseline, candidate)
    return Gate(
        baseline,
        candidate,
        margin,
        pairs,
        paired_difference(pairs, seed=seed),
        needed(pairs, margin, sure),
        sure,
        _both(responses.costs, rows),
        _both(_lengths(responses), rows),
        _parts(responses, pairs, group, seed),
        calibrated,
        scale=scale,
    )


def gate_all(
    responses: Responses, *, baseline: str, candidates: Sequence[str], **options: Any
) -> list[Gate]:
    """Compare several candidates with one baseline, corrected for multiple comparisons.

    Each claim must be so certain that at most one in twenty such families contains a wrong one
    (Bonferroni); `options` are those of `gate`.
    """
    if len(set(candidates)) < len(candidates):
        twice = next(name for name in candidates if list(candidates).count(name) > 1)
        raise ResponseError(f"candidate {one_line(twice)!r} is named twice; name it once")
    sure = 1 - (1 - options.pop("sure", SURE)) / max(len(candidates), 1)
    return [
        gate(responses, baseline=baseline, candidate=name, sure=sure, **options)
        for name in candidates
    ]


def _as_share(margin: float, scale: Scale | None) -> float:
    """Return a margin as a share of the questions, or of the scale; refuse an invalid one."""
    low, high = ends_of(scale)
    if (low, high) != (0.0, 1.0):
        if not 0 <= margin < high - low:
            raise ResponseError(
                f"the margin is in the scores' own unit, from 0 to below {high - low:g}, got "
                f"{margin:g}"
            )
        return margin / (high - low)
    if 1 <= margin <= 100:
        raise ResponseError(
            f"the margin is a share of the questions; for {margin:g} points give {margin / 100:g}"
        )
    if not 0 <= margin < 1:
        raise ResponseError(
            f"the margin must be a share of the questions from 0 to below 1, got {margin:g}; 0.02 "
            f"is two points"
        )
    return margin


def check_name(name: str, subjects: Sequence[str]) -> None:
    """Refuse a name that is not among the subjects, and offer the nearest."""
    if name in subjects:
        return
    near = get_close_matches(name, subjects, 3, 0.5) or list(subjects)[:_MOST_SHOWN]
    offered = ", ".join(repr(one_line(other, 40)) for other in near)
    raise ResponseError(f"no model {one_line(name)!r} in these results; did you mean {offered}?")


def _pairs(responses: Responses, baseline: str, candidate: str, group: str | None) -> Pairs:
    rows = [responses.subjects.index(name) for name in (baseline, candidate)]
    successes, trials = (m[rows].astype(np.int64) for m in responses.cells.matrices())
    both = np.asarray((trials > 0).all(0))
    n = int(both.sum())
    if n < 2:
        names = one_line(baseline, 40), one_line(candidate, 40)
        raise ResponseError(
            f"{names[0]!r} and {names[1]!r} have {counted(n, 'question')} in common; a comparison "
            f"needs at least 2"
        )
    shares = successes[:, both] / trials[:, both]
    items = [name for name, answered in zip(responses.items, both, strict=True) if answered]
    groups = np.arange(n) if group is None else _codes(responses, group)[both]
    of_runs = responses.scale is None
    return Pairs(items, shares[0], shares[1], trials[:, both], groups, of_runs)


def _lengths(responses: Responses) -> NDArray[np.float64] | None:
    """Return the mean length of each subject's answers, if they have lengths."""
    if responses.latency is None:
        return None
    from bayesirt.likelihood.latencies import mean_lengths

    return mean_lengths(responses)


def _both(values: NDArray[np.float64] | None, rows: list[int]) -> tuple[float, float] | None:
    """Return the values of the two subjects, if both are known."""
    if values is None or np.isnan(values[rows]).any():
        return None
    return float(values[rows[0]]), float(values[rows[1]])


def _codes(responses: Responses, column: str) -> NDArray[np.intp]:
    """Return the group of each item as a number; an item without a group is its own group."""
    columns = list(responses.item_metadata.columns)
    if column not in columns:
        listed = ", ".join(repr(one_line(str(name), 40)) for name in columns[:_MOST_SHOWN])
        raise ResponseError(
            f"the questions have no column {one_line(column)!r} to group them by; "
            + (f"they have {listed}" if columns else "pass a long table with such a column")
        )
    codes, _ = pd.factorize(responses.item_metadata[column])
    alone = codes < 0
    return np.where(alone, codes.max() + 1 + np.cumsum(alone), codes)


def _parts(responses: Responses, pairs: Pairs, group: str | None, seed: int) -> pd.DataFrame:
    """Return the difference on each benchmark, and on each group that is large enough to show."""
    parts: list[tuple[str, Pairs]] = []
    table = responses.item_metadata.reindex(pairs.items)
    for column in dict.fromkeys(["benchmark", group]):
        if column is None or column not in table:
            continue
        for name, members in table.groupby(column, sort=False).indices.items():
            if not 1 < len(members) < len(pairs.items):
                continue
            chosen = np.zeros(len(pairs.items), bool)
            chosen[members] = True
            part = pairs.select(chosen)
            if part.n_groups == 1:  # the part is one group: its questions are resampled
                part = replace(part, group=np.arange(len(members)))
            parts.append((str(name), part))
    rows = []
    for name, part in parts:
        means = float(part.baseline.mean()), float(part.candidate.mean())
        alone, together = (
            paired_difference(part, seed=seed, outside=0.1 / n) for n in (1, len(parts))
        )
        ends = alone.low, alone.high, together.low, together.high
        rows.append((name, len(part.items), *means, alone.mean, *ends))
    columns = ["part", "n_questions", "baseline", "candidate", "difference", "low", "high"]
    columns += ["low_of_all", "high_of_all"]
    return pd.DataFrame(rows, columns=columns).sort_values("difference", ignore_index=True)
