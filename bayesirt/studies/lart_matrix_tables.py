"""The tables of the LaRT study's matrix: gains of prediction, and means over repetitions."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.studies.lart_matrix import RESAMPLES, TAILS
from bayesirt.studies.lart_prediction import PREDICTION_COLUMNS, PREDICTIONS
from bayesirt.studies.lart_splits import SPLITS


def prediction_table(
    rows: pd.DataFrame, groups: NDArray[np.intp], rng: np.random.Generator
) -> pd.DataFrame:
    """Return how far predictions of items left out are off, and by how much less than IRT's.

    One row a split, method and measure: subjects, value (mean over subjects), gain (IRT's less this
    one, above 0 where lengths help) and its 90% interval, from base subjects drawn again with
    replacement.
    """
    found = []
    for split, own in rows.groupby("split"):
        for measure in PREDICTION_COLUMNS:
            wide = own.pivot_table(index="subject", columns="method", values=measure)
            labels = groups[wide.index.to_numpy(int)]
            for method in PREDICTIONS:
                gain = (wide["irt"] - wide[method]).to_numpy()
                low, high = resampled_mean(gain, labels, rng)
                found.append({
                    "split": SPLITS[int(split)], "method": method, "measure": measure,
                    "subjects": len(wide), "repetitions": own["repetition"].nunique(),
                    "value": wide[method].mean(), "gain": gain.mean(), "low": low, "high": high,
                })  # fmt: skip
    return pd.DataFrame(found)


def resampled_mean(
    values: NDArray[np.float64], labels: NDArray[np.intp], rng: np.random.Generator
) -> tuple[float, float]:
    """Return the bounds of the mean's 90% interval, from groups drawn again with replacement."""
    codes = np.unique(labels, return_inverse=True)[1]
    sums, sizes = np.bincount(codes, values), np.bincount(codes)
    counts = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), RESAMPLES)
    low, high = np.quantile((counts @ sums) / (counts @ sizes), TAILS)
    return float(low), float(high)


def mean_table(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return means over repetitions.

    One row a combination, ordered: repetitions and the mean of every other column.
    """
    groups = rows.drop(columns="repetition", errors="ignore").groupby(by)
    table = groups.mean()
    table.insert(0, "repetitions", groups.size())
    return table.reset_index()
