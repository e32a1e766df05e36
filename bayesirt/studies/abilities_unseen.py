"""Predictions of answers to unseen items from the abilities that they need.

Predictors range from the subject's accuracy, which ignores items, to the mean accuracy of all
subjects on items that share abilities, which ignores subjects.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from scipy.special import expit, logit
from scipy.stats import rankdata

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.estimators.neural_cd import NeuralDiagnosis, fit_neural_cd
from bayesirt.estimators.q_mirt import fit_q_mirt
from bayesirt.inference.engines import sample_q_mirt
from bayesirt.models.q_mirt import default_structure
from bayesirt.point_estimate import PointEstimate
from bayesirt.profiles.item_prediction import predict_items
from bayesirt.studies.abilities_matrix import R_HAT_BOUND, AbilityMatrix, Counts
from bayesirt.studies.engine import Part
from bayesirt.studies.measures import Floats, Index, Mask, log_losses, with_answers
from bayesirt.studies.tasks import PortableKey, Row, two_chains

PREDICTORS = {  # Predictors, in words; the last two need a simulated matrix.
    "accuracy": "subject's accuracy",
    "2pl": "2PL without knowledge of items",
    "items": "all subjects' accuracy on items that share abilities",
    "additive": "subject's accuracy + all subjects' on such items",
    "own items": "subject's accuracy on items that share abilities",
    "both": "mean of the subject's and all subjects' on such items",
    "neutral": "Q-mIRT, neutral items",
    "learnt": "Q-mIRT, population of items learnt",
    "learnt, average": "the same, averaged over subjects",
    "learnt, profile": "the same, less the average subject",
    "neural": "NeuralCD, as in the paper",
    "neural, average": "the same, averaged over subjects",
    "neural, profile": "the same, less the average subject",
    "true abilities": "true abilities and population of items",
    "true chances": "true abilities and items",
}
NO_CHANCES = frozenset({"learnt, profile", "neural, profile"})
"""Predictors that order answers but give no probabilities."""

_DECAYS = 4  # How often the network's learning rate is lowered, as in 20 epochs.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
_EDGE = 1e-6
TEST_SHARE = 0.1
MEASURED = ("auc", "auc_sd", "subjects", "above_items", "pooled_auc", "log_score", "new_items")
_AGREEMENT = (
    "correlation", "mean_difference", "auc_point", "auc_posterior", "log_score_point",
    "log_score_posterior", "r_hat_above", "seconds",
)  # fmt: skip
UNSEEN_PARTS = {
    "prediction": Part(("split", "method"), MEASURED, [*PREDICTORS]),
    "across": Part(("source", "target", "method"), MEASURED, [*PREDICTORS]),
    "agreement": Part(("split",), _AGREEMENT),
}
MOST_DRAWN = 200_000  # Responses beyond which no full posterior is drawn.


@dataclass(frozen=True, eq=False)
class Division:
    """Items with responses, and items to predict."""

    responses: Responses  # Training responses.
    q: QMatrix  # Q-matrix of their items, without abilities that none of them needs.
    # shape (new item, ability), For the items to predict, each of which needs an ability of `q`.
    needs: Mask
    subjects: Index  # Places of the rows of `responses` in the whole matrix.
    items: Index  # Places of the items to predict in the whole matrix.
    successes: Counts  # shape (subject, new item)
    trials: Counts  # shape (subject, new item)


@dataclass(frozen=True, eq=False)
class Fits:
    """Fits of each model to the training items."""

    q_mirt: PointEstimate  # With the Q-matrix.
    plain: PointEstimate  # With one ability that all items need.
    neural: NeuralDiagnosis


def divide(matrix: AbilityMatrix, train: Index, test: Index) -> Division:
    """Divide a matrix by its items."""
    responses = matrix.responses
    subjects, train_items = with_answers(responses, np.arange(responses.n_subjects), train)
    part = responses.select(subjects, train_items)
    q = matrix.q.for_items(part.items, drop_unneeded=True)
    positions = np.array([matrix.q.abilities.index(name) for name in q.abilities])
    needs = matrix.q.needs[np.ix_(test, positions)]
    items = test[needs.any(1)]
    successes, trials = (x[np.ix_(subjects, items)] for x in responses.cells.matrices())
    return Division(part, q, needs[needs.any(1)], subjects, items, successes, trials)


def fit_all(division: Division, *, key: Array, trained: int) -> Fits:
    """Fit all models to the training items."""
    responses, q = division.responses, division.q
    one = QMatrix.from_arrays(np.ones((q.n_items, 1), bool), q.items)
    epochs = max(1, round(trained / responses.n_observed))
    decay = max(1, round(epochs / _DECAYS))
    return Fits(
        fit_q_mirt(responses, q, structure=default_structure(q.n_abilities)),
        fit_q_mirt(responses, one, structure="independent"),
        fit_neural_cd(responses, q, key=key, epochs=epochs, decay_epochs=decay),
    )


def predictions(division: Division, fits: Fits, matrix: AbilityMatrix) -> dict[str, Floats]:
    """Return probabilities (scores for `NO_CHANCES`) on the items to predict, by `PREDICTORS`."""
    rows, positions = np.unique(division.needs, axis=0, return_inverse=True)
    of_rows = {
        **shared_accuracies(division, rows),
        "2pl": learnt_chances(fits.plain, np.ones((len(rows), 1), bool)),
        "neutral": neutral_chances(fits.q_mirt, rows),
        **_parts("learnt", learnt_chances(fits.q_mirt, rows)),
        **_parts("neural", fits.neural.predict(rows)),
    }
    of_items = {name: p[:, positions] for name, p in of_rows.items()}
    if matrix.truth is not None:
        of_items |= _true_chances(matrix, division)
    return {name: of_items[name] for name in PREDICTORS if name in of_items}


def shared_accuracies(division: Division, new: Mask) -> dict[str, Floats]:
    """Return the predictors without a model: accuracy, items, additive, own items and both.

    The weight of a training item for a new one is the number of abilities that both need as a share
    of those that either needs. Each accuracy is shrunk towards its value without shared abilities,
    with the weight of one answer.
    """
    successes, trials = (np.asarray(x, float) for x in division.responses.cells.matrices())
    weights = similarity(new, division.q.needs)
    total = successes.sum() / trials.sum()
    overall = (successes.sum(1) + total) / (trials.sum(1) + 1)
    n_trials = np.maximum(trials.sum(0), 1)
    of_item = successes.sum(0) / n_trials
    items = (weights @ of_item + total) / (weights.sum(1) + 1)
    own_items = (successes @ weights.T + overall[:, None]) / (trials @ weights.T + 1)
    shape = own_items.shape
    additive = _logit(overall)[:, None] + _logit(items) - _logit(total)
    return {
        "accuracy": np.broadcast_to(overall[:, None], shape),
        "items": np.broadcast_to(items, shape),
        "additive": expit(additive),
        "own items": own_items,
        "both": expit((_logit(own_items) + _logit(items)) / 2),
    }


def similarity(new: Mask, known: Mask) -> Floats:
    """Return the abilities that two items need as a share of those that either needs."""
    shared = new.astype(float) @ known.T.astype(float)
    return shared / (new.sum(1)[:, None] + known.sum(1) - shared)


def learnt_chances(point: PointEstimate | Mapping[str, Any], needs: Mask) -> Floats:
    """Return probabilities on items drawn from the population that a fit has learnt.

    Integrates over abilities by ``theta_se``, as if they were independent, and over slopes and
    intercepts, with a normal logit: within a hundredth of the exact probability unless slopes vary
    widely.
    """
    theta, se = _abilities(point)
    mu, sigma = float(point["mu_a"]), float(point["sigma_a"])
    slope = np.exp(mu + sigma**2 / 2)
    mean = slope * theta @ needs.T + float(point["mu_d"]) + needs @ np.asarray(point["beta"])
    spread = slope**2 * (np.expm1(sigma**2) * theta**2 + np.exp(sigma**2) * se**2)
    return _mean_chance(mean, spread @ needs.T + float(point["sigma_d"]) ** 2)


def neutral_chances(point: PointEstimate, needs: Mask) -> Floats:
    """Return probabilities on items with slopes 1 and intercept 0."""
    theta, se = _abilities(point)
    return _mean_chance(theta @ needs.T, se**2 @ needs.T)


def _abilities(point: PointEstimate | Mapping[str, Any]) -> tuple[Floats, Floats]:
    theta = np.asarray(point["theta"])
    is_estimate = isinstance(point, PointEstimate)
    return theta, np.asarray(point["theta_se"]) if is_estimate else np.zeros_like(theta)


def _mean_chance(mean: Floats, variance: Floats) -> Floats:
    """Return the mean of sigmoid(η) for η ~ N(mean, variance)."""
    sd, p = np.sqrt(variance), np.zeros_like(mean)
    for node, weight in zip(_NODES, _WEIGHTS / _WEIGHTS.sum(), strict=True):
        p += weight * expit(mean + node * sd)
    return p


def _parts(name: str, p: Floats) -> dict[str, Floats]:
    """Return probabilities, their average over subjects, and the deviations from it."""
    logits = _logit(p)
    average = np.broadcast_to(p.mean(0), p.shape)
    return {name: p, f"{name}, average": average, f"{name}, profile": logits - logits.mean(0)}


def _true_chances(matrix: AbilityMatrix, division: Division) -> dict[str, Floats]:
    assert matrix.truth is not None
    truth = {str(name): x.to_numpy() for name, x in matrix.truth.items()}
    slopes = np.zeros(matrix.q.needs.shape)
    slopes[matrix.q.loadings] = truth["a"]
    of_subjects = truth | {"theta": truth["theta"][division.subjects]}
    logits = of_subjects["theta"] @ slopes[division.items].T + truth["d"][division.items]
    return {
        "true abilities": learnt_chances(of_subjects, matrix.q.needs[division.items]),
        "true chances": expit(logits),
    }


def _logit(p: Any) -> Any:
    return logit(np.clip(p, _EDGE, 1 - _EDGE))


def split_rows(split: int, matrix: AbilityMatrix, trained: int, key: PortableKey) -> list[Row]:
    """Return the performance of each predictor on one random split of the items."""
    division = divide(matrix, *split_items(matrix.q.n_items, split, key))
    fits = fit_all(division, key=key.folded("split", split), trained=trained)
    return [*measure(predictions(division, fits, matrix), division).values()]


def agreement_rows(split: int, matrix: AbilityMatrix, draws: int, key: PortableKey) -> list[Row]:
    """Compare the full posterior with the point estimate, on one split."""
    division = divide(matrix, *split_items(matrix.q.n_items, split, key))
    structure = default_structure(division.q.n_abilities)
    data = division.responses, division.q
    point = fit_q_mirt(*data, structure=structure)
    start = time.perf_counter()
    of_draws, of_items = jax.random.split(key.folded("agreement", split))
    options = two_chains(draws)
    posterior = sample_q_mirt(*data, key=of_draws, structure=structure, init=point, options=options)
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


def auc(scores: Floats, successes: Counts, failures: Counts) -> float:
    """Return the probability that a right answer has a higher score than a wrong one."""
    n_right, n_wrong = int(successes.sum()), int(failures.sum())
    if not (n_right and n_wrong):
        return float("nan")
    ranks = rankdata(np.r_[np.repeat(scores, successes), np.repeat(scores, failures)])
    above = ranks[:n_right].sum() - n_right * (n_right + 1) / 2
    return float(above / (n_right * n_wrong))


def subject_aucs(scores: Floats, successes: Counts, trials: Counts) -> Floats:
    """Return the AUC within each subject."""
    rows = zip(scores, successes, trials - successes, strict=True)
    return np.array([auc(*row) for row in rows])


def log_score(p: Floats, successes: Counts, trials: Counts) -> float:
    """Return the mean negative log probability of an answer, pooled over subjects and items."""
    return float(log_losses(p, successes, trials - successes).sum() / trials.sum())


def split_items(
    n_items: int, number: int, key: PortableKey, share: float = TEST_SHARE
) -> tuple[Index, Index]:
    """Divide the items at random."""
    order = key.rng("items", number, round(1000 * share)).permutation(n_items)
    n_test = max(1, round(share * n_items))
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def measure(predictions: dict[str, Floats], division: Division) -> dict[str, dict[str, float]]:
    """Return the performance of each predictor within subjects, by `MEASURED`."""
    successes, trials = division.successes, division.trials
    if not trials.sum():
        nothing = dict.fromkeys(MEASURED, float("nan")) | {"new_items": 0.0}
        return dict.fromkeys(predictions, nothing)
    aucs = pd.DataFrame(
        {name: subject_aucs(p, successes, trials) for name, p in predictions.items()}
    )
    aucs = aucs.dropna()
    return {
        name: {
            "auc": float(aucs[name].mean()),
            "auc_sd": float(aucs[name].std(ddof=0)),
            "subjects": float(len(aucs)),
            "above_items": float((aucs[name] - aucs["items"]).mean()),
            "pooled_auc": auc(p.ravel(), successes.ravel(), (trials - successes).ravel()),
            "log_score": float("nan") if name in NO_CHANCES else log_score(p, successes, trials),
            "new_items": float(trials.shape[1]),
        }
        for name, p in predictions.items()
    }


def _rows_to_predict(division: Division) -> QMatrix:
    """Return the Q-matrix of the items to predict, without abilities that none of them needs."""
    used = np.flatnonzero(division.needs.any(0))
    longest = max(division.q.items, key=len)
    names = [f"{longest} {j}" for j in range(len(division.needs))]  # None is that of a known item.
    abilities = [division.q.abilities[k] for k in used]
    return QMatrix.from_arrays(division.needs[:, used], names, abilities)
