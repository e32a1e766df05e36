"""The number of abilities, chosen by predicting held-out answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.scipy.special import gammaln
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.cell_expectations import predictor, usual_quadrature
from bayesirt.estimators.mirt import climbed
from bayesirt.estimators.mirt_start import start
from bayesirt.estimators.normal_beliefs import Beliefs, Items
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.families import LOGIT
from bayesirt.likelihood.few_shapes import filled_up
from bayesirt.likelihood.host_arrays import host
from bayesirt.progress import progress_bar
from bayesirt.random_keys import Key, as_key, host_random

_NODES = 15
_NO_EVIDENCE = 1.0
"""Difference in total log score that counts as no evidence: a likelihood ratio of e."""


@dataclass(frozen=True, eq=False, repr=False)
class DimensionChoice:
    """Predictive performance of each number of abilities, and the smallest that is sufficient."""

    n_abilities: int  # The chosen number.
    candidates: tuple[int, ...]  # In ascending order.
    # shape (candidate, subject). Log predictive probability of each subject's held-out answers.
    log_scores: NDArray[np.float64]
    n_held_out: int  # Cells that were held out, each once.
    n_folds: int

    def __repr__(self) -> str:
        return f"<DimensionChoice: {self.to_text()}>"

    @property
    def summary(self) -> pd.DataFrame:
        """One row per number of abilities.

        `log_score` is the sum over cells and `per_cell` their mean; `behind_best` is the difference
        from the best log score, and `se` its standard error over subjects.
        """
        totals = self.log_scores.sum(1)
        behind, errors = _behind(self.log_scores)
        columns = {
            "log_score": totals,
            "per_cell": totals / self.n_held_out,
            "behind_best": behind,
            "se": errors,
            "chosen": np.array(self.candidates) == self.n_abilities,
        }
        return pd.DataFrame(columns, index=pd.Index(self.candidates, name="n_abilities"))

    def to_text(self) -> str:
        """Return the choice in one sentence."""
        best = self.candidates[int(self.log_scores.sum(1).argmax())]
        noun = "ability" if self.n_abilities == 1 else "abilities"
        if best == self.n_abilities:
            return f"{self.n_abilities} {noun}, the best of {_listed(self.candidates)}"
        behind = self.summary.loc[self.n_abilities]
        return (
            f"{self.n_abilities} {noun}: the fewest of {_listed(self.candidates)} that predict "
            f"about as well as the best, {best} ({behind['behind_best']:.1f} behind in log score, "
            f"standard error {behind['se']:.1f})"
        )


def choose_dimension(
    responses: Responses,
    *,
    key: Key,
    candidates: Sequence[int] = (1, 2, 5, 10),
    folds: int = 3,
    tolerance: float = 1e-5,
    max_iterations: int = 100,
    progress: bool = False,
) -> DimensionChoice:
    """Choose the number of abilities by cross-validation on held-out answers.

    Parameters
    ----------
    responses : Responses
    key : jax.random.key or int
        Determines the folds.
    candidates : sequence of int
        Numbers of abilities to compare.
    folds : int
        Number of folds. Each observed cell, with all its trials, is held out once.
    tolerance, max_iterations
        As for `fit_mirt`.
    progress : bool
        Show a progress bar, if stderr is a terminal.

    Returns
    -------
    DimensionChoice
        The smallest number whose log score is within one standard error of the best, or within 1.
        The standard error is that of the difference, with subjects as independent draws.

    Raises
    ------
    ResponseError
        If a number of abilities is not below that of items, or there are fewer than two folds.

    Warns
    -----
    ConvergenceWarning
        If a fit does not converge.

    Notes
    -----
    The predictive probability integrates a cell's linear predictor over the normal posteriors of
    the subject's abilities and of the item's parameters by Gauss-Hermite quadrature.

    References
    ----------
    Hastie, Tibshirani & Friedman 2009, section 7.10 (one standard error).

    Examples
    --------
    >>> import jax, numpy as np
    >>> drawn = np.random.default_rng(0).integers(0, 2, (20, 6))
    >>> answers = Responses.from_arrays(drawn)
    >>> choice = choose_dimension(answers, candidates=(1, 2), folds=2, key=jax.random.key(0))
    >>> choice.n_held_out
    120
    """
    key = as_key(key)
    counts = tuple(sorted(set(candidates)))
    _check(responses, counts, folds)
    layout = filled_up(*responses.cells.matrices())
    scores = np.zeros((len(counts), len(layout.trials)))
    splits = held_out_folds(responses, layout, folds, key)
    fits = ((row, *split) for split in splits for row in range(len(counts)))
    with progress_bar("Held-out fits") as show:
        for n_done, (row, kept, held) in enumerate(fits, 1):
            fitted = fit_kept(kept, counts[row], tolerance=tolerance, max_iterations=max_iterations)
            scores[row] += np.asarray(_LOG_SCORES(held, *fitted), np.float64)
            if progress and show is not None:
                show(n_done, folds * len(counts))
    scores = scores[:, : responses.n_subjects]
    behind, errors = _behind(scores)
    chosen = counts[int(np.argmax(behind <= np.maximum(errors, _NO_EVIDENCE)))]
    return DimensionChoice(chosen, counts, scores, responses.n_observed, folds)


def fit_kept(
    kept: DenseLayout, n_abilities: int, *, tolerance: float, max_iterations: int
) -> tuple[Items, Beliefs]:
    """Fit items and abilities to the answers that are not held out."""
    state, _ = climbed(
        kept,
        usual_quadrature(kept, None),
        start(kept, n_abilities),
        tolerance=tolerance,
        max_iterations=max_iterations,
    )
    return state.parameters.items, state.beliefs


def log_scores(held: DenseLayout, items: Items, beliefs: Beliefs) -> Float[Array, " subject"]:
    """Return the log predictive probability of each subject's held-out answers."""
    return cell_log_scores(held, items, beliefs).sum(1)


def cell_log_scores(
    held: DenseLayout, items: Items, beliefs: Beliefs
) -> Float[Array, "subject item"]:
    """Return the log predictive probability of each cell's answers, 0 without trials."""
    mean, variance = predictor(items, *beliefs)
    spread = jnp.sqrt(variance)
    points, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    shares = weights / weights.sum()

    def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
        point, log_share = node
        terms = LOGIT.terms(mean + point * spread, *held)
        return jnp.logaddexp(total, log_share + terms.log_likelihood), None

    nodes = jnp.asarray(points, mean.dtype), jnp.log(jnp.asarray(shares, mean.dtype))
    nothing = jnp.full_like(mean, -jnp.inf)
    total, _ = jax.lax.scan(add, nothing, nodes)
    y, n = (x.astype(mean.dtype) for x in held)
    ways = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
    return jnp.where(n > 0, total + ways, 0)


def _check(responses: Responses, counts: tuple[int, ...], folds: int) -> None:
    if not counts or not (counts[0] >= 1 and counts[-1] < responses.n_items):
        raise ResponseError(
            f"candidates must be from 1 to {responses.n_items - 1}, below the number of items, got "
            f"{_listed(counts) or 'none'}"
        )
    if not 2 <= folds <= responses.n_observed:
        raise ResponseError(f"`folds` must be 2 or more, and no more than cells, got {folds}")


def held_out_folds(
    responses: Responses, whole: DenseLayout, folds: int, key: Array
) -> Iterator[tuple[DenseLayout, DenseLayout]]:
    """Yield the kept and the held-out cells of each fold."""
    subject, item, *_ = responses.cells.listed()
    order = host_random(key).permutation(len(subject))
    fold = np.full(whole.shape, -1, np.int8 if folds < 128 else np.int32)
    fold[subject, item] = order % folds
    cells = [np.asarray(x) for x in whole]
    for number in range(folds):
        held = fold == number
        yield (
            DenseLayout(*(host(np.where(held, 0, x)) for x in cells)),
            DenseLayout(*(host(np.where(held, x, 0)) for x in cells)),
        )


def _behind(scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each candidate's difference from the best, and its standard error."""
    short = scores[scores.sum(1).argmax()] - scores
    return short.sum(1), short.std(1, ddof=1) * np.sqrt(scores.shape[1])


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))


_LOG_SCORES: Any = jax.jit(log_scores)
