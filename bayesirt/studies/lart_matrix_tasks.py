"""The value of lengths on one matrix: prediction, validity, item and subject efficiency.

Xu et al. (2026), 6.3.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from bayesirt.data.responses import Responses
from bayesirt.posterior import TAILS
from bayesirt.studies.engine import Part
from bayesirt.studies.lart_matrix import (
    Cells,
    Items,
    draw_rows,
    item_information,
    posterior_on_grid,
    score_abilities,
    speed_evidence,
)
from bayesirt.studies.lart_suites import EM_METHODS, fit_model
from bayesirt.studies.measures import (
    Floats,
    Index,
    log_losses,
    resampled_sums,
    spearman,
    with_answers,
)
from bayesirt.studies.tasks import PortableKey, Row, Task

N_FOLDS = 5
SPLITS = ("by row", "by base subject")
Groups = Index  # shape (subject,): subjects that a split keeps together.
PREDICTIONS = {
    "irt": "probit IRT",
    "lart": "LaRT, item not yet run",
    "lart length": "LaRT, length of the item known",
}
_ERRORS = ("absolute_error", "log_score")
PARTS = {
    "prediction": Part(("repetition", "split", "subject", "method"), _ERRORS),
    "validity": Part(
        ("repetition", "method"),
        ("subjects", "variance_sum", "within_share", "rho_sets", "rho_rest"),
    ),
    "subject_efficiency": Part(
        ("repetition", "n_subjects", "method"),
        ("distance_a", "distance_d", "typical_a", "typical_d"),
    ),
    "item_efficiency": Part(("n_items", "method"), ("distance", "rho", "rho_accuracy")),
    "rho": Part(("method",), ("rho", "low", "high", "seconds")),
}
SHARES = (50 / 140, 75 / 140, 100 / 140, 125 / 140)
"""Shares of the subjects in Table 2 of Xu et al. (2026)."""

_MOST_ITEMS = 100
_FIRST_ITEMS = 10
_SHOWN = (15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 400)


def base_subjects(names: Sequence[str], suffixes: Sequence[str]) -> Index:
    """Return each row's base subject: names that differ only in a suffix belong together."""
    endings = "|".join(re.escape(s) for s in suffixes if s)
    bases = [re.sub(rf"({endings})\Z", "", name) for name in names]
    return np.unique(bases, return_inverse=True)[1]


def subject_folds(groups: Index, n_folds: int, rng: np.random.Generator) -> list[Index]:
    """Split the subjects into disjoint folds of about the same size, keeping groups together."""
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    fold_of, filled = np.zeros(len(sizes), int), np.zeros(n_folds, int)
    for k in rng.permutation(len(sizes)):
        fold_of[k] = filled.argmin()
        filled[fold_of[k]] += sizes[k]
    return [np.flatnonzero(fold_of[group] == fold) for fold in range(n_folds)]


def item_folds(n_items: int, n_folds: int, rng: np.random.Generator) -> list[Index]:
    """Split the items into disjoint folds of about the same size."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n_items), n_folds)]


def first_subjects(groups: Index, rng: np.random.Generator) -> Index:
    """Return the subjects in random order, with groups kept together."""
    position = rng.permutation(groups.max() + 1)
    return np.argsort(position[groups], kind="stable")


def matrix_tasks(
    responses: Responses, groups: Groups, repetitions: int, draws: int, key: PortableKey
) -> Iterator[Task]:
    """Yield the tasks on a matrix, which is split anew in each repetition."""
    splits = [np.arange(len(groups))]  # In the order of `SPLITS`.
    if len(np.unique(groups)) < len(groups):
        splits.append(groups)
    yield item_task(responses)
    if draws:
        yield Task([("rho", ("posterior",))], partial(draw_rows, responses, draws, key))
    for k in range(repetitions):
        for split, split_groups in enumerate(splits):
            yield prediction_task(k, split, responses, split_groups, key)
        sets = item_folds(responses.n_items, N_FOLDS, key.rng("validity", k))
        places = [("validity", (k, name)) for name in EM_METHODS]
        yield Task(places, partial(validity_rows, responses, sets))
        yield subject_task(k, responses, groups, key)


def prediction_task(
    repetition: int, split: int, responses: Responses, groups: Groups, key: PortableKey
) -> Task:
    """Return the task of predicting every subject's answers, in one split that keeps groups."""
    rng = key.rng("prediction", repetition, split)
    folds = [
        (test, item_folds(responses.n_items, N_FOLDS, rng))
        for test in subject_folds(groups, N_FOLDS, rng) if len(test)
    ]  # fmt: skip
    tested = np.concatenate([test for test, _ in folds]).tolist()
    places = [("prediction", (repetition, split, i, name)) for i in tested for name in PREDICTIONS]
    return Task(places, partial(prediction_rows, responses, folds))


def prediction_rows(responses: Responses, folds: list[tuple[Index, list[Index]]]) -> list[Row]:
    """Return errors by subject and method, with items fitted to the subjects of other folds."""
    rows: list[Row] = []
    everyone, cells = np.arange(responses.n_subjects), Cells.of(responses)
    for test, of_items in folds:
        train = np.setdiff1d(everyone, test)
        subjects, columns = with_answers(responses, train, np.arange(responses.n_items))
        part = responses.select(subjects, columns)
        items = {name: Items.of(fit_model(name, part)) for name in EM_METHODS}
        sets = [np.flatnonzero(np.isin(columns, fold)) for fold in of_items]
        errors = np.array([
            predict_left_out(
                items[name.split()[0]], cells.rows(test).columns(columns), sets, "length" in name
            )
            for name in PREDICTIONS
        ])  # fmt: skip
        by_subject = errors.transpose(2, 0, 1).reshape(-1, len(_ERRORS)).tolist()
        rows += [dict(zip(_ERRORS, values, strict=True)) for values in by_subject]
    return rows


def predict_left_out(
    items: Items, cells: Cells, folds: list[Index], length_known: bool
) -> tuple[Floats, Floats]:
    """Return each subject's mean errors on items that its ability was estimated without."""
    plugged, predicted = np.zeros_like(cells.trials), np.zeros_like(cells.trials)
    for fold in folds:
        mask = np.ones(len(items.a), bool)
        mask[fold] = False
        scores = score_abilities(items, cells, mask, None if length_known else mask)
        plugged[:, fold] = scores.plugged_in(items)[:, fold]
        predicted[:, fold] = scores.predictive(items)[:, fold]
    wrong = cells.trials - cells.successes
    errors = cells.successes * (1 - plugged) + wrong * plugged
    logs = log_losses(predicted, cells.successes, wrong)
    n = np.where(cells.trials.sum(1) > 0, cells.trials.sum(1), np.nan)
    return errors.sum(1) / n, logs.sum(1) / n


def validity_rows(responses: Responses, sets: list[Index]) -> list[Row]:
    """Return the agreement of abilities from disjoint sets of items, one row per method."""
    n, j = responses.cells.shape
    theta = {name: np.full((len(sets), n), np.nan) for name in EM_METHODS}
    for k, items in enumerate(sets):
        subjects, columns = with_answers(responses, np.arange(n), items)
        part = responses.select(subjects, columns)
        for name in EM_METHODS:
            theta[name][k, subjects] = fit_model(name, part)["theta"]
    cells = Cells.of(responses)
    rest = np.array([cells.accuracy(np.setdiff1d(np.arange(j), item_set)) for item_set in sets])
    return [agreement_of_sets(estimates, rest) for estimates in theta.values()]


def agreement_of_sets(theta: Floats, rest: Floats) -> dict[str, float]:
    """Return the agreement of abilities from disjoint sets of items, for subjects in all sets."""
    complete = np.isfinite(theta).all(0)
    levels, other = theta[:, complete], rest[:, complete]
    variance = levels.var(0)
    pairs = [(k, m) for k in range(len(levels)) for m in range(k)]
    return {
        "subjects": int(complete.sum()),
        "variance_sum": float(variance.sum()),
        "within_share": float(variance.mean() / levels.var()),
        "rho_sets": float(np.mean([spearman(levels[k], levels[m]) for k, m in pairs])),
        "rho_rest": float(np.mean([spearman(x, y) for x, y in zip(levels, other, strict=True)])),
    }


def item_task(responses: Responses) -> Task:
    """Return the task of estimating abilities from increasingly many adaptively chosen items."""
    j = responses.n_items
    counts = [min(_FIRST_ITEMS, j), *(n for n in _SHOWN if n < j)]
    places = [("item_efficiency", (n, name)) for name in EM_METHODS for n in counts]
    return Task(places, partial(item_rows, responses, counts))


def item_rows(responses: Responses, counts: list[int]) -> list[Row]:
    """Return a row for each method and number of items."""
    cells, rows = Cells.of(responses), []
    accuracy = cells.accuracy(np.arange(responses.n_items))
    for name in EM_METHODS:
        items = Items.of(fit_model(name, responses))
        whole = score_abilities(items, cells).mean
        for theta in adaptive_abilities(items, cells, counts).values():
            rows.append({
                "distance": float(np.sqrt(np.mean((theta - whole) ** 2))),
                "rho": float(spearman(whole, theta)),
                "rho_accuracy": float(spearman(accuracy, theta)),
            })  # fmt: skip
    return rows


def adaptive_abilities(items: Items, cells: Cells, counts: list[int]) -> dict[int, Floats]:
    """Return abilities after some numbers of items, chosen for each subject.

    Xu et al. (2026), 6.3.2: the next item is the one with the largest information at the estimate
    so far (equation 10). An item without an answer of the subject is never chosen.
    """
    of_right, of_wrong = (x.T for x in items.log_probabilities())
    wrong = cells.trials - cells.successes
    is_asked = np.zeros(wrong.shape, bool)
    is_asked[:, : counts[0]] = True
    by_count: dict[int, Floats] = {}
    for count in range(counts[0], counts[-1] + 1):
        total = (cells.successes * is_asked) @ of_right + (wrong * is_asked) @ of_wrong
        theta = posterior_on_grid(total, speed_evidence(items, cells, is_asked), items.rho).mean
        if count in counts:
            by_count[count] = theta
        information = item_information(items, theta)
        information[is_asked | (cells.trials == 0)] = -np.inf
        is_asked[np.arange(len(is_asked)), information.argmax(1)] = True
    return by_count


def subject_task(repetition: int, responses: Responses, groups: Groups, key: PortableKey) -> Task:
    """Return the task of comparing items fitted to fewer subjects with the full fit (Table 2)."""
    sizes = [max(2, round(share * responses.n_subjects)) for share in SHARES]
    order = first_subjects(groups, key.rng("subjects", repetition))
    places = [("subject_efficiency", (repetition, n, m)) for n, m in product(sizes, EM_METHODS)]
    return Task(places, partial(subject_rows, responses, [np.sort(order[:n]) for n in sizes]))


def subject_rows(responses: Responses, chosen: list[Index]) -> list[Row]:
    """Return a row per set of subjects and method, over the most informative items."""
    point, everyone = fit_model("lart", responses), np.arange(responses.n_subjects)
    information = item_information(Items.of(point), point["theta"]).mean(0)
    items = np.sort(np.argsort(-information, kind="stable")[:_MOST_ITEMS])
    whole = {name: _item_fit(name, responses, everyone, items) for name in EM_METHODS}
    return [
        distances(_item_fit(name, responses, subjects, items), whole[name])
        for subjects, name in product(chosen, EM_METHODS)
    ]


def _item_fit(name: str, responses: Responses, subjects: Index, items: Index) -> dict[str, Floats]:
    """Return a and d of some items, NaN where nobody answered one."""
    subjects, columns = with_answers(responses, subjects, items)
    point = fit_model(name, responses.select(subjects, columns))
    estimates = {}
    for parameter in ("a", "d"):
        estimates[parameter] = np.full(len(items), np.nan)
        estimates[parameter][np.isin(items, columns)] = point[parameter]
    return estimates


def distances(estimates: dict[str, Floats], reference: dict[str, Floats]) -> dict[str, float]:
    """Return distances of items from the full fit: root mean square and median."""
    row = {}
    for name in ("a", "d"):
        difference = estimates[name] - reference[name]
        row[f"distance_{name}"] = float(np.sqrt(np.nanmean(difference**2)))
        row[f"typical_{name}"] = float(np.nanmedian(np.abs(difference)))
    return row


def prediction_table(rows: pd.DataFrame, groups: Index, rng: np.random.Generator) -> pd.DataFrame:
    """Return errors on held-out items; `gain` over IRT has a 90% interval over base subjects."""
    summary = []
    for split, group in rows.groupby("split"):
        for measure in _ERRORS:
            wide = group.pivot_table(index="subject", columns="method", values=measure)
            labels = groups[wide.index.to_numpy(int)]
            for method in PREDICTIONS:
                gain = (wide["irt"] - wide[method]).to_numpy()
                low, high = resampled_mean(gain, labels, rng)
                summary.append({
                    "split": SPLITS[int(split)], "method": method, "measure": measure,
                    "subjects": len(wide), "repetitions": group["repetition"].nunique(),
                    "value": wide[method].mean(), "gain": gain.mean(), "low": low, "high": high,
                })  # fmt: skip
    return pd.DataFrame(summary)


def resampled_mean(values: Floats, labels: Index, rng: np.random.Generator) -> tuple[float, float]:
    """Return the bounds of the mean's 90% interval, from resampled groups."""
    both = np.stack([values, np.ones(len(values))], axis=1)
    sums, sizes = resampled_sums(both, labels, rng).T
    low, high = np.quantile(sums / sizes, TAILS)
    return float(low), float(high)


def mean_table(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return means of all other columns over repetitions, sorted."""
    groups = rows.drop(columns="repetition", errors="ignore").groupby(by)
    table = groups.mean()
    table.insert(0, "repetitions", groups.size())
    return table.reset_index()
