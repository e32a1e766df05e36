"""Answers to unseen items: random splits of the items, and the full posterior on one of them."""

import time
from functools import partial

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from bayesirt.data.q_matrix import QMatrix
from bayesirt.estimators.q_mirt import fit_q_mirt
from bayesirt.inference.engines import sample_q_mirt
from bayesirt.models.q_mirt import default_structure
from bayesirt.profiles.item_prediction import predict_items
from bayesirt.studies.abilities_matrix import AbilityMatrix, Counts, Matrix
from bayesirt.studies.abilities_predictors import (
    NO_CHANCES,
    PREDICTORS,
    Division,
    divide,
    fit_all,
    learnt_chances,
    predictions,
)
from bayesirt.studies.fits import two_chains
from bayesirt.studies.measures import log_losses
from bayesirt.studies.tasks import PortableKey, Row, Task

TEST_SHARE = 0.1
PREDICTION_COLUMNS = (
    "auc", "auc_sd", "subjects", "above_items", "pooled_auc", "log_score", "new_items",
)  # fmt: skip
AGREEMENT_COLUMNS = (
    "correlation", "mean_difference", "auc_point", "auc_posterior", "log_score_point",
    "log_score_posterior", "r_hat_above", "seconds",
)  # fmt: skip
MOST_DRAWN = 200_000
"""Responses beyond which no full posterior is drawn."""

R_HAT_BOUND = 1.01


def split_task(split: int, matrix: AbilityMatrix, trained: int, key: PortableKey) -> Task:
    """Return one random split of the items, by all predictors."""
    places = [("prediction", (split, name)) for name in predictors_of(matrix)]
    return Task(places, partial(split_rows, split, matrix, trained, key))


def split_rows(split: int, matrix: AbilityMatrix, trained: int, key: PortableKey) -> list[Row]:
    """Return a row for each predictor."""
    division = divide(matrix, *split_items(matrix.q.n_items, split, key))
    fits = fit_all(division, key=key.folded("split", split), trained=trained)
    return [*measure(predictions(division, fits, matrix), division).values()]


def agreement_rows(split: int, matrix: AbilityMatrix, draws: int, key: PortableKey) -> list[Row]:
    """Compare the full posterior with the point estimate, on one split."""
    division = divide(matrix, *split_items(matrix.q.n_items, split, key))
    structure = default_structure(division.q.n_abilities)
    point = fit_q_mirt(division.responses, division.q, structure=structure)
    start = time.perf_counter()
    of_draws, of_items = jax.random.split(key.folded("agreement", split))
    posterior = sample_q_mirt(
        division.responses,
        division.q,
        key=of_draws,
        structure=structure,
        init=point,
        options=two_chains(draws),
    )
    full = predict_items(posterior, _rows_to_predict(division), key=of_items).probability
    seconds = time.perf_counter() - start
    fast = learnt_chances(point, division.needs)
    row: Row = {
        "correlation": float(np.corrcoef(fast.ravel(), full.ravel())[0, 1]),
        "mean_difference": float(np.abs(fast - full).mean()),
        "r_hat_above": float((posterior.summary["r_hat"] > R_HAT_BOUND).mean()),
        "seconds": seconds,
    }
    answers = division.successes, division.trials
    for name, p in (("point", fast), ("posterior", full)):
        row[f"auc_{name}"] = float(np.nanmean(subject_aucs(p, *answers)))
        row[f"log_score_{name}"] = log_score(p, *answers)
    return [row]


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
    return float(log_losses(p, successes, trials - successes).sum() / trials.sum())


def predictors_of(matrix: AbilityMatrix) -> list[str]:
    """Return the predictors that a matrix has: the true ones only where it was simulated."""
    known = matrix.truth is not None
    return [name for name in PREDICTORS if known or not name.startswith("true")]


def split_items(
    n_items: int, number: int, key: PortableKey, share: float = TEST_SHARE
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Divide the items at random."""
    order = key.rng("items", number, round(1000 * share)).permutation(n_items)
    n_test = max(1, round(share * n_items))
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def measure(found: dict[str, Matrix], division: Division) -> dict[str, dict[str, float]]:
    """Return how well each predictor does, by predictor and `PREDICTION_COLUMNS`.

    `auc`, `auc_sd` and `subjects` are of the AUC within a subject; NaN without items to predict.
    """
    successes, trials = division.successes, division.trials
    if not trials.sum():
        nothing = dict.fromkeys(PREDICTION_COLUMNS, float("nan")) | {"new_items": 0.0}
        return dict.fromkeys(found, nothing)
    within = {name: subject_aucs(p, successes, trials) for name, p in found.items()}
    measured = {}
    for name, p in found.items():
        known = np.isfinite(within[name])
        own, gain = within[name][known], (within[name] - within["items"])[known]
        has = bool(known.any())
        measured[name] = {
            "auc": float(own.mean()) if has else float("nan"),
            "auc_sd": float(own.std()) if has else float("nan"),
            "subjects": float(len(own)),
            "above_items": float(gain.mean()) if has else float("nan"),
            "pooled_auc": auc(p.ravel(), successes.ravel(), (trials - successes).ravel()),
            "log_score": float("nan") if name in NO_CHANCES else log_score(p, successes, trials),
            "new_items": float(trials.shape[1]),
        }
    return measured


def _rows_to_predict(division: Division) -> QMatrix:
    """Return the Q-matrix of the items to predict, without abilities that none of them needs."""
    used = np.flatnonzero(division.needs.any(0))
    names = [f"new {j}" for j in range(len(division.needs))]
    seen = set(division.q.items)
    names = [f"{name} " if name in seen else name for name in names]
    abilities = [division.q.abilities[k] for k in used]
    return QMatrix.from_arrays(division.needs[:, used], names, abilities)
