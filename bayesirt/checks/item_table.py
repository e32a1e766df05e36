"""A table of the posterior of each item."""

import numpy as np
import pandas as pd

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES, response_flags
from bayesirt.posterior import LOW_MIDDLE_HIGH, Posterior


def item_table(posterior: Posterior) -> pd.DataFrame:
    """Return one row per item, in the order of the data.

    Accuracy; posterior median and 90% interval of discrimination a, intercept d and difficulty b,
    of c if the model has guessing, and for LaRT of phi, omega and lam, and of delta if it has one;
    the number of subjects that answered it; and a flag for what is unusual about it.
    """
    posterior = posterior.reported
    successes, trials = posterior.successes, posterior.trials
    table = {"item": posterior.items, "accuracy": successes.sum(0) / trials.sum(0)}
    lengths = [n for n in ("phi", "omega", "lam", "delta") if n in posterior.dataset]
    for name in ("a", "d", "b", *posterior.further, *lengths):
        low, median, high = np.quantile(posterior.draws(name), LOW_MIDDLE_HIGH, axis=0)
        table |= {name: median, f"{name}_low": low, f"{name}_high": high}
    table["n_subjects"] = np.count_nonzero(trials, 0)
    flat = np.abs(table["a"]) < HARDLY_DISCRIMINATES
    flags = response_flags(successes, trials, 0), flat, _few_grades(posterior)
    table["flag"] = [
        "; ".join(filter(None, [flag, "hardly discriminates" if low else "", few]))
        for flag, low, few in zip(*flags, strict=True)
    ]
    return pd.DataFrame(table)


def _few_grades(posterior: Posterior) -> list[str]:
    """Return the grades of items that get fewer than half of all grades."""
    answers = posterior.answers
    if answers is None or answers.kind != "graded":
        return [""] * len(posterior.items)
    columns = zip(posterior.successes.T, posterior.trials.T > 0, strict=True)
    used = [np.unique(grades[seen]) for grades, seen in columns]
    return [
        f"only {', '.join(answers.labels[k] for k in codes)}"
        if 1 < len(codes) < len(answers.labels) / 2
        else ""
        for codes in used
    ]
