"""Abilities against a measure of ability from outside."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.studies.labels import read_pairs
from bayesirt.studies.lart_matrix import RESAMPLES
from bayesirt.studies.lart_scoring import Matrix
from bayesirt.studies.lart_suites import TAILS
from bayesirt.studies.rank_correlation import spearman

ABILITIES = {"accuracy": "accuracy", "irt": "theta_irt", "lart": "theta_lart"}
_LEAST_SUBJECTS = 5


def read_criterion(path: Path) -> dict[str, float]:
    """Read a measure from outside of each subject; an empty value is left out."""
    table, name = read_pairs(path, "subject", "value"), one_line(path.name)
    numbers = pd.to_numeric(table["value"], errors="coerce")
    given = table["value"].notna() & (table["value"].astype(str).str.strip() != "")
    bad = table[given & ~np.isfinite(numbers)]
    if len(bad):
        row = bad.iloc[0]
        raise ResponseError(
            f"{name} has {one_line(str(row['value']))!r} for {one_line(str(row['subject']))!r}; "
            f"a value must be a number"
        )
    kept = pd.Series(numbers.to_numpy(float), table["subject"].astype(str))[given.to_numpy()]
    return {str(subject): float(value) for subject, value in kept.items()}


def with_criterion(subjects: pd.DataFrame, criterion: Mapping[str, float]) -> pd.DataFrame:
    """Return the subjects that have a criterion, with its values."""
    known = subjects[subjects["subject"].isin(list(criterion))]
    known = known.assign(criterion=[criterion[name] for name in known["subject"]])
    if len(known) < _LEAST_SUBJECTS or known["criterion"].nunique() < 2:
        raise ResponseError(
            f"the criterion tells nothing: {len(known)} of its subjects are in the responses, with "
            f"{known['criterion'].nunique()} different values"
        )
    return known.reset_index(drop=True)


def criterion_table(known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return how well abilities go with the criterion, with and without lengths.

    Intervals are 90% percentiles over base subjects drawn again with replacement, the same ones
    for every ability.
    """
    samples = [np.arange(len(known)), *_resampled(known["group"].to_numpy(), rng)]
    columns = {name: known[column].to_numpy() for name, column in ABILITIES.items()}
    outside = known["criterion"].to_numpy()
    rows = []
    coefficients: dict[str, Callable[[Matrix, Matrix], float]] = {
        "Pearson": lambda x, y: float(np.corrcoef(x, y)[0, 1]),
        "Spearman": lambda x, y: float(spearman(x, y)),
    }
    for label, coefficient in coefficients.items():
        found = {
            name: np.array([coefficient(outside[own], values[own]) for own in samples])
            for name, values in columns.items()
        }
        found["lart less irt"] = found["lart"] - found["irt"]
        for name, values in found.items():
            low, high = np.nanquantile(values[1:], TAILS)
            rows.append((label, name, len(known), values[0], low, high))
    return pd.DataFrame(rows, columns=["coefficient", "method", "subjects", "value", "low", "high"])


def _resampled(groups: NDArray[np.intp], rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Return positions of the members of groups drawn with replacement, many times."""
    members = [np.flatnonzero(groups == label) for label in np.unique(groups)]
    drawn = rng.integers(0, len(members), (RESAMPLES, len(members)))
    return [np.concatenate([members[k] for k in row]) for row in drawn]
