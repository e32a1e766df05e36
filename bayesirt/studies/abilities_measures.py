"""How well chances order the answers of each subject, and how probable they made them."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Matrix = NDArray[np.float64]
Counts = NDArray[np.integer]

STRENGTHS = {"strong": 0.7, "moderate": 0.5, "weak": 0.3}
"""Correlations above which Zhang et al. (2026) (section 3.2) calls them so."""


def auc(scores: Matrix, successes: Counts, failures: Counts) -> float:
    """Return the probability that a right answer has a higher score than a wrong one."""
    n_right, n_wrong = int(successes.sum()), int(failures.sum())
    if not (n_right and n_wrong):
        return float("nan")
    ranks = rankdata(np.r_[np.repeat(scores, successes), np.repeat(scores, failures)])
    above = ranks[:n_right].sum() - n_right * (n_right + 1) / 2
    return float(above / (n_right * n_wrong))


def subject_aucs(scores: Matrix, successes: Counts, trials: Counts) -> Matrix:
    """Return the AUC within each subject."""
    rows = zip(scores, successes, trials - successes, strict=True)
    return np.array([auc(*row) for row in rows])


def log_score(p: Matrix, successes: Counts, trials: Counts) -> float:
    """Return the mean negative log probability of an answer, pooled over subjects and items."""
    tiny = np.finfo(float).tiny
    right = successes * np.log(np.maximum(p, tiny))
    wrong = (trials - successes) * np.log(np.maximum(1 - p, np.finfo(float).eps))
    return float(-(right + wrong).sum() / trials.sum())
