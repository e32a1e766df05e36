"""Responses as a table with one row an observed cell."""

from collections.abc import Hashable

import numpy as np
import pandas as pd

from bayesirt.data.responses import Responses


def long_table(responses: Responses) -> pd.DataFrame:
    """Return a table as `Responses.from_long` takes it, but for what answers are."""
    subject, item, successes, trials = responses.cells.listed()
    columns: dict[Hashable, object] = {
        "subject": np.asarray(responses.subjects, object)[subject],
        "item": np.asarray(responses.items, object)[item],
        "successes": successes,
        "trials": trials,
    }
    if responses.latency is not None:
        columns["latency"] = responses.latency
    if responses.clusters is not None:
        columns["cluster"] = np.asarray(responses.clusters.of_each, object)[subject]
    if responses.costs is not None:
        columns["cost"] = responses.costs[subject]
    for name, values in responses.item_metadata.items():
        columns[name] = values.to_numpy()[item]
    for name, values in responses.subject_metadata.items():
        columns[name] = values.to_numpy()[subject]
    return pd.DataFrame(columns)
