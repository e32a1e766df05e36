"""The tables of the LaRT study."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.studies.lart_matrix_tasks import PREDICTION_COLUMNS, PREDICTIONS
from bayesirt.studies.lart_splits import SPLITS
from bayesirt.studies.lart_suites import (
    ANSWERS,
    DRAWN,
    EM_METHODS,
    INTERVALS,
    LENGTHS,
    SAEM_METHODS,
)
from bayesirt.studies.measures import TAILS, resampled_sums
from bayesirt.studies.study_rows import groups_of

PLACE = ["n_subjects", "n_items", "rho"]

_INTERVALS_OF = {"lart": INTERVALS[:3], "irt": INTERVALS[:1], DRAWN: INTERVALS[3:]}


def recovery_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return by condition and parameter how far LaRT and IRT by EM are from the truth.

    `gain` is IRT's mean error less LaRT's; NaN for what IRT does not have.
    """
    rows = []
    for place, own in groups_of(replications, PLACE):
        of = {name: own[own["method"] == name].set_index("replication") for name in EM_METHODS}
        for parameter in (*ANSWERS, *LENGTHS):
            errors = {name: table[f"rmse_{parameter}"] for name, table in of.items()}
            row = place | {"parameter": parameter, "replications": len(errors["lart"])}
            for name, values in errors.items():
                row |= {name: values.mean(), f"{name}_sd": values.std()}
            wins = (errors["lart"] < errors["irt"]).mean()
            row["lart_wins"] = wins if errors["irt"].notna().all() else np.nan
            gain = errors["irt"] - errors["lart"]
            row |= {"gain": gain.mean(), "gain_se": gain.sem()}
            rows.append(row)
    return pd.DataFrame(rows)


def time_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the median seconds of each method, and how often it converges."""
    groups = replications.groupby([*PLACE, "method"], sort=False)
    table = pd.DataFrame({
        "replications": groups.size(), "seconds": groups["seconds"].median(),
        "converged": groups["converged"].mean(),
    })  # fmt: skip
    return table.reset_index()


def saem_suites(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of EM and SAEM in SAEM's suites, with `gap`, how far below EM's they end."""
    keys = [*PLACE, "replication"]
    rows = replications[replications["method"].isin(["lart", *SAEM_METHODS])]
    places = pd.MultiIndex.from_frame(rows[keys])
    rows = rows[places.isin(places[rows["method"] != "lart"])]
    em = rows[rows["method"] == "lart"].set_index(keys)["loss"]
    return rows.assign(gap=rows["loss"].to_numpy() - em.reindex(rows.set_index(keys).index).array)


def saem_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return how SAEM compares with EM in its suites (Xu et al., 2026, Appendix D).

    Log likelihoods hold the weak prior of a few items without a finite estimate.
    """
    groups = saem_suites(replications).groupby([*PLACE, "method"], sort=False)
    table = pd.DataFrame({"replications": groups.size()})
    for name in (*ANSWERS, *LENGTHS):
        table[f"rmse_{name}"] = groups[f"rmse_{name}"].mean()
    table["worst_a"] = groups["rmse_a"].max()
    table["gap"], table["largest_gap"] = groups["gap"].median(), groups["gap"].max()
    table["converged"] = groups["converged"].mean()
    return table.reset_index()


def coverage_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return coverage and mean width of the abilities' 90% intervals; IRT's forms are the same."""
    rows = []
    for place, own in groups_of(replications, PLACE):
        for method, kinds in _INTERVALS_OF.items():
            part = own[own["method"] == method]
            for kind in kinds if len(part) else ():
                cover = part[f"cover_{kind}"]
                rows.append({
                    **place, "method": method, "interval": kind,
                    "replications": len(part), "coverage": cover.mean(),
                    "coverage_se": cover.sem(),
                    "width": part[f"width_{kind}"].mean(),
                })  # fmt: skip
    return pd.DataFrame(rows)


def prediction_table(
    rows: pd.DataFrame, groups: NDArray[np.intp], rng: np.random.Generator
) -> pd.DataFrame:
    """Return how far predictions of items left out are off, and by how much less than IRT's.

    `gain` has a 90% interval from base subjects drawn again with replacement.
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
    both = np.stack([values, np.ones(len(values))], axis=1)
    sums, sizes = resampled_sums(both, labels, rng).T
    low, high = np.quantile(sums / sizes, TAILS)
    return float(low), float(high)


def mean_table(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return means over repetitions of every other column, ordered."""
    groups = rows.drop(columns="repetition", errors="ignore").groupby(by)
    table = groups.mean()
    table.insert(0, "repetitions", groups.size())
    return table.reset_index()
