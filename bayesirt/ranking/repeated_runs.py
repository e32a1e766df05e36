"""Results of several runs of each question: pass@k and pass^k."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from bayesirt.errors import ResponseError
from bayesirt.likelihood.beta_binomial import BETA_BINOMIAL
from bayesirt.likelihood.families import family_named
from bayesirt.posterior import TAILS, Posterior

RUNS = (1, 2, 3, 4, 5)
_MOST_DRAWS, _CELL_DRAWS = 1000, 50_000_000


@dataclass(frozen=True, eq=False, repr=False)
class RepeatedRuns:
    """How often at least one, and all, of several runs of a question are right.

    Attributes
    ----------
    table : DataFrame
        A row for each subject and number of runs k, in the order of the posterior's subjects:
        `subject`, `runs`, `pass_at` (pass@k: at least one of k runs is right), `pass_all` (pass^k:
        all of them are), means over the suite's questions, each with its 90% interval (`_low`,
        `_high`).
    correlation : float
        Correlation of two runs of a typical question; 0 if the model assumes that runs are
        independent.
    """

    table: pd.DataFrame
    correlation: float

    def __repr__(self) -> str:
        return f"<RepeatedRuns: {self.to_text()}>"

    def to_text(self) -> str:
        """Return a sentence on the average results of several runs."""
        most = self.table["runs"].max()
        last = self.table[self.table["runs"] == most].mean(numeric_only=True)
        return (
            f"Of {most} runs of each question, at least one is right on {last['pass_at']:.0%} of "
            f"the questions on average, and all are right on {last['pass_all']:.0%}; two runs "
            f"correlate by {self.correlation:.2f}."
        )


def repeated_runs(posterior: Posterior, runs: Iterable[int] = RUNS) -> RepeatedRuns:
    """Return pass@k and pass^k of each subject on the suite, with their uncertainty.

    Parameters
    ----------
    posterior : Posterior
        Preferably of the model of repeats, which allows runs of a question to be dependent. If they
        are, models of independent runs give too high a pass@k and too low a pass^k.
    runs : iterable of int
        Values of k.

    Returns
    -------
    RepeatedRuns

    Raises
    ------
    ResponseError
        If k is not positive, or answers are grades or scores.

    Notes
    -----
    Each draw has a probability p for every subject and question. With dependent runs it is drawn
    from Beta(μ φ + successes, (1 - μ) φ + failures), so it depends mostly on the question's own
    runs, and otherwise on other questions. pass@k is the mean of 1 - (1 - p)^k over questions,
    pass^k that of p^k.

    Chen, M., et al. (2021). Evaluating large language models trained on code. arXiv:2107.03374

    Yao, S., Shinn, N., Razavi, P., & Narasimhan, K. (2024). τ-bench. arXiv:2406.12045
    """
    counts = sorted({int(k) for k in runs})
    if not counts or counts[0] < 1:
        raise ResponseError("runs must be whole numbers from 1, such as 1,5")
    if posterior.answers is not None:
        raise ResponseError(
            "pass@k needs right and wrong answers; --threshold turns grades and scores into such"
        )
    passes = np.stack([_passes(right, wrong, counts) for right, wrong in _chances(posterior)])
    low, high = np.quantile(passes, TAILS, axis=0)
    columns = {
        name + end: values[side].ravel()
        for side, name in enumerate(("pass_at", "pass_all"))
        for end, values in (("", passes.mean(0)), ("_low", low), ("_high", high))
    }
    subjects = np.repeat(np.asarray(posterior.subjects, object), len(counts))
    table = pd.DataFrame(
        {"subject": subjects, "runs": np.tile(counts, len(posterior.subjects)), **columns}
    )
    return RepeatedRuns(table, _correlation(posterior))


def _correlation(posterior: Posterior) -> float:
    if posterior.link != BETA_BINOMIAL.name:
        return 0.0
    return float(np.median(1 / (1 + posterior.draws("phi"))))


def _chances(posterior: Posterior) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield each draw's probabilities that each cell is right, and wrong."""
    rng, trials = np.random.default_rng(0), posterior.trials
    right, wrong = posterior.successes, trials - posterior.successes
    n_draws = max(20, min(_MOST_DRAWS, _CELL_DRAWS // trials.size))
    draws = (posterior.draws(name, n_draws) for name in posterior.parameters)
    for theta, a, d, *further in zip(*draws, strict=True):
        eta = np.asarray(theta, float)[:, None] * a + d
        if posterior.link == BETA_BINOMIAL.name:
            (phi,) = further
            one = rng.standard_gamma(expit(eta) * phi + right)
            other = rng.standard_gamma(expit(-eta) * phi + wrong)
            yield one / (one + other), other / (one + other)
        else:
            p = np.asarray(family_named(posterior.link).given(further).probability(eta))
            yield p, 1 - p


def _passes(
    right: NDArray[np.float64], wrong: NDArray[np.float64], counts: list[int]
) -> NDArray[np.float64]:
    """Return pass@k and pass^k, shape (2, subject, k)."""
    any_right = [1 - (wrong**k).mean(1) for k in counts]
    return np.stack([np.stack(any_right, 1), np.stack([(right**k).mean(1) for k in counts], 1)])
