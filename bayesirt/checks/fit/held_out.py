"""How well models predict held-out answers: Rasch, 2PL, two abilities."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray
from scipy.special import betaln, xlog1py, xlogy

from bayesirt.checks.fit.rasch import fit_rasch
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.dimension import cell_log_scores, fit_kept, held_out_folds
from bayesirt.estimators.normal_beliefs import Beliefs, Items
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.few_shapes import filled_up
from bayesirt.likelihood.host_arrays import host
from bayesirt.progress import progress_bar
from bayesirt.random_keys import host_random
from bayesirt.threads import stop_at_exit

MODELS = ("items alone", "Rasch", "2PL", "2 abilities")
_BASE = MODELS.index("2PL")
_FOLDS, _LEAST_ITEMS = 3, 3
_TOLERANCE, _MAX_ITERATIONS = 1e-5, 100
_MOST_CELLS = 500_000

Answer = Literal["well", "nearly", "no"]

_STANDARD_ERRORS = 1.645
_NOTHING, _LITTLE = 0.005, 0.05
"""Gains as shares of the first ability's: below the first bound a gain counts as none, below the
second as small."""


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """Predictions of held-out answers."""

    # One row per model: `model` ("items alone", with the same probabilities for every subject,
    # "Rasch", "2PL", "2 abilities"), `log_score` (log predictive probability per answer), `ahead`
    # (lead over the 2PL, per answer), its standard error `se`, and `share` (the gain over items
    # alone, as a share of the 2PL's gain).
    summary: pd.DataFrame
    # shape (cell,). Probability of a right answer under the 2PL.
    predicted: NDArray[np.float64]
    # shape (cell,). The answers.
    successes: NDArray[np.int64]
    trials: NDArray[np.int64]
    # Numbers of subjects and items that were used.
    n_subjects: int
    n_items: int

    def __repr__(self) -> str:
        return f"<HeldOut: {len(self.trials):,} answers>"

    @property
    def one_ability(self) -> Answer:
        """Whether one ability explains the answers.

        "no" if two abilities predict held-out answers better by more than 1.645 standard errors and
        by at least 5% of the first ability's gain; "nearly" if by as many standard errors and from
        0.5% to 5%; else "well".
        """
        two = self._two
        gain = two["share"] - 1
        if not two["ahead"] > _STANDARD_ERRORS * two["se"] or gain < _NOTHING:
            return "well"
        return "nearly" if gain < _LITTLE else "no"

    def in_short(self) -> str:
        """Return a sentence on whether one ability explains the answers."""
        if self._tell_nobody_apart:
            return "These answers hardly tell subjects apart."
        return {
            "well": "One ability explains these answers well.",
            "nearly": "One ability explains nearly all of these answers.",
            "no": "One ability does not explain these answers; rank by several abilities (bayesirt "
            "profile), or each part by itself.",
        }[self.one_ability]

    def to_text(self) -> str:
        """Return the conclusion in a few sentences."""
        return " ".join([self.in_short(), self.details()])

    def details(self) -> str:
        """Return the evidence on whether one ability explains the answers."""
        return " ".join(filter(None, [self._of_abilities(), self._of_slopes()]))

    @property
    def tells_apart(self) -> bool:
        """Whether abilities of subjects clearly predict better than items alone."""
        alone = self.summary.set_index("model").loc["items alone"]
        return bool(-alone["ahead"] > _STANDARD_ERRORS * alone["se"])

    @property
    def gain(self) -> str:
        """A clause on what two abilities gain."""
        share = self._two["share"] - 1
        more = "" if pd.isna(share) else f" by {share:.0%} of the first ability's gain"
        return f"two abilities predict held-out answers better{more}"

    @property
    def _two(self) -> pd.Series:
        return self.summary.set_index("model").loc["2 abilities"]

    @property
    def _tell_nobody_apart(self) -> bool:
        return self.one_ability == "well" and bool(pd.isna(self._two["share"]))

    def _of_abilities(self) -> str:
        two = self._two
        by = f"by {two['ahead']:.4f} (standard error {two['se']:.4f}) per answer"
        if self._tell_nobody_apart:
            return (
                "Abilities of subjects predict held-out answers no better than each item's "
                "proportion "
                "correct alone."
            )
        if self.one_ability == "well":
            return f"A second ability changes the held-out log score {by}."
        more = (
            "" if pd.isna(two["share"]) else f", {two['share'] - 1:.0%} of the first ability's gain"
        )
        return f"A second ability improves the held-out log score {by}{more}."

    def _of_slopes(self) -> str:
        rasch = self.summary.set_index("model").loc["Rasch"]
        if -rasch["ahead"] > _STANDARD_ERRORS * rasch["se"]:
            return ""
        return "A Rasch model, with one discrimination for all items, predicts them as well."


def predict_held_out(responses: Responses, *, key: Array, progress: bool = False) -> HeldOut:
    """Predict each answer from others with a Rasch model, a 2PL and a model with two abilities.

    Each of three folds of the cells is predicted from fits to the others, all by the same
    variational EM and integrated over the uncertainty of abilities and items, as in
    `choose_dimension`. That is far cheaper than draws from three posteriors, and needs no
    importance weights, which may fail. With more than half a million cells, a random part of the
    subjects and items is used. Standard errors treat subjects and items as random: with δ_ij the
    differences less their mean, the variance of the sum is Σ_i (Σ_j δ_ij)² + Σ_j (Σ_i δ_ij)² -
    Σ_ij δ_ij², and at least the larger of the first two.

    Hastie, Tibshirani & Friedman 2009, section 7.10; Cameron, Gelbach & Miller 2011 (errors).
    """
    if responses.n_items < _LEAST_ITEMS:
        raise ResponseError(
            f"a check of fit needs {_LEAST_ITEMS} items or more, got {responses.n_items}; add items"
        )
    part_key, fold_key = jax.random.split(key)
    responses = _part(responses, part_key)
    whole = filled_up(*responses.cells.matrices())
    scores = np.zeros((len(MODELS), *whole.shape), np.float32)
    predicted = np.zeros(whole.shape)
    one = DenseLayout(*(host(np.ones(whole.shape), np.int8) for _ in whole))
    folds = list(held_out_folds(responses, whole, _FOLDS, fold_key))
    n_done, steps = 0, _FOLDS * len(_FITS)
    with progress_bar("Held-out fits") as show:
        for kept, held in folds:
            scores[0] += _alone(kept, held)
            for row, fit in enumerate(_FITS, 1):
                stop_at_exit()
                fitted = fit(kept, tolerance=_TOLERANCE, max_iterations=_MAX_ITERATIONS)
                scores[row] += np.asarray(_CELL_LOG_SCORES(held, *fitted), np.float32)
                if row == _BASE:
                    chance = np.asarray(_CELL_LOG_SCORES(one, *fitted), np.float64)
                    predicted = np.where(held.trials > 0, np.exp(chance), predicted)
                n_done += 1
                if progress and show is not None:
                    show(n_done, steps)
    n_subjects, n_items = responses.n_subjects, responses.n_items
    y, n = (np.asarray(x, np.int64) for x in responses.cells.matrices())
    table = _table(scores[:, :n_subjects, :n_items], n)
    seen = np.nonzero(n)
    return HeldOut(table, predicted[seen], y[seen], n[seen], n_subjects, n_items)


def _table(scores: NDArray[np.float32], trials: NDArray[np.int64]) -> pd.DataFrame:
    total = trials.sum()
    per_answer = scores.sum((1, 2), dtype=np.float64) / total
    gains = [score - scores[_BASE] for score in scores]
    alone = per_answer[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (per_answer - alone) / (per_answer[_BASE] - alone)
    return pd.DataFrame(
        {
            "model": MODELS,
            "log_score": per_answer,
            "ahead": per_answer - per_answer[_BASE],
            "se": [clustered_error(gain, trials) / total for gain in gains],
            "share": share if per_answer[_BASE] > alone else np.nan,
        }
    )


def clustered_error(gain: NDArray[np.floating], trials: NDArray[np.integer]) -> float:
    """Return the standard error of a sum over cells whose subjects and items are random."""
    off = gain - trials * (gain.sum(dtype=np.float64) / trials.sum())
    rows, columns = ((off.sum(axis) ** 2).sum() for axis in (1, 0))
    n_rows, n_columns = off.shape
    rows, columns = rows * n_rows / (n_rows - 1), columns * n_columns / (n_columns - 1)
    return float(np.sqrt(max(rows + columns - (off**2).sum(), rows, columns)))


def _alone(kept: DenseLayout, held: DenseLayout) -> NDArray[np.float64]:
    """Return log scores of items' proportions correct, with a right and a wrong answer added."""
    y, n = (np.asarray(x).sum(0, dtype=np.int64) for x in kept)
    right, trials = (np.asarray(x, np.float64) for x in held)
    p = (y + 1) / (n + 2)
    log_ways = -np.log1p(trials) - betaln(trials - right + 1, right + 1)
    scores: NDArray[np.float64] = log_ways + xlogy(right, p) + xlog1py(trials - right, -p)
    return scores


_FITS: tuple[Callable[..., tuple[Items, Beliefs]], ...] = (
    fit_rasch,
    partial(fit_kept, n_abilities=1),
    partial(fit_kept, n_abilities=2),
)


def _part(responses: Responses, key: Array) -> Responses:
    """Return a random part of the subjects and items that is not too large, without empty ones."""
    n, m = responses.n_subjects, responses.n_items
    if n * m <= _MOST_CELLS:
        return responses
    m_kept = min(m, max(int(np.sqrt(_MOST_CELLS)), _MOST_CELLS // n))
    n_kept = min(n, _MOST_CELLS // m_kept)
    of_subjects, of_items = jax.random.split(key)
    drawn = np.zeros((2, max(n, m)), bool)
    drawn[0, host_random(of_subjects).permutation(n)[:n_kept]] = True
    drawn[1, host_random(of_items).permutation(m)[:m_kept]] = True
    subject, item, *_ = responses.cells.listed()
    chosen = drawn[0, subject] & drawn[1, item]
    return responses.select(np.unique(subject[chosen]), np.unique(item[chosen]))


_CELL_LOG_SCORES: Any = jax.jit(cell_log_scores)
