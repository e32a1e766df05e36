"""Responses in numbers: how many, how many of all, and how many right."""

import pandas as pd

from bayesirt.data.responses import Responses


def summarise(responses: Responses) -> pd.DataFrame:
    """Count responses, and what else is known of them.

    One unrounded column, `value`, and a row for each fact.

    >>> responses = Responses.from_arrays([[1, 0], [1, 1], [0, 1]])
    >>> summarise(responses).loc["responses", "value"]
    6
    """
    successes, trials, observed = responses.cells.totals(1)
    per_item = responses.cells.totals(0).observed
    accuracy = successes / trials
    facts = {
        "subjects": responses.n_subjects,
        "items": responses.n_items,
        "responses": responses.n_observed,
        "trials": int(trials.sum()),
        "coverage": responses.coverage,
        "accuracy": float(successes.sum() / trials.sum()),
        "lowest accuracy of a subject": float(accuracy.min()),
        "highest accuracy of a subject": float(accuracy.max()),
        "fewest items of a subject": int(observed.min()),
        "fewest subjects of an item": int(per_item.min()),
        "connected groups": len(responses.components()),
    }
    if responses.clusters is not None:
        facts["clusters"] = len(responses.clusters.names)
    if responses.costs is not None:
        facts["subjects whose cost is known"] = int((responses.costs >= 0).sum())
    return pd.Series(facts, dtype=object).to_frame("value")
