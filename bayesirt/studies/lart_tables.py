"""The tables of the LaRT study's simulations, from its replications."""

import numpy as np
import pandas as pd

from bayesirt.studies.lart_measures import ANSWERS, INTERVALS, LENGTHS
from bayesirt.studies.lart_tasks import DRAWN, EM_METHODS, SAEM_METHODS

PLACE = ["n_subjects", "n_items", "rho"]

_INTERVALS_OF = {"lart": INTERVALS[:3], "irt": INTERVALS[:1], DRAWN: INTERVALS[3:]}


def recovery_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return how far LaRT and IRT by EM are from the truth.

    One row a condition and parameter: replications, mean and standard deviation of the root mean
    squared error (of ρ the absolute error) of LaRT and of IRT, the share of the replications in
    which LaRT's is the smaller, and the mean of IRT's less LaRT's with its standard error; NaN for
    what IRT does not have.
    """
    rows = []
    for place, own in replications.groupby(PLACE, sort=False):
        of = {name: own[own["method"] == name].set_index("replication") for name in EM_METHODS}
        for parameter in (*ANSWERS, *LENGTHS):
            errors = {name: table[f"rmse_{parameter}"] for name, table in of.items()}
            row = dict(zip(PLACE, place, strict=True))
            row |= {"parameter": parameter, "replications": len(errors["lart"])}
            for name, values in errors.items():
                row |= {name: values.mean(), f"{name}_sd": values.std()}
            wins = (errors["lart"] < errors["irt"]).mean()
            row["lart_wins"] = wins if errors["irt"].notna().all() else np.nan
            gain = errors["irt"] - errors["lart"]
            row |= {"gain": gain.mean(), "gain_se": gain.sem() if len(gain) > 1 else np.nan}
            rows.append(row)
    return pd.DataFrame(rows)


def time_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return how long each method takes, and how often it converges.

    One row a condition and method: replications, median seconds, share converged.
    """
    groups = replications.groupby([*PLACE, "method"], sort=False)
    table = pd.DataFrame({
        "replications": groups.size(), "seconds": groups["seconds"].median(),
        "converged": groups["converged"].mean(),
    })  # fmt: skip
    return table.reset_index()


def saem_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return how SAEM compares with EM in its suites (Xu et al., 2026, Appendix D).

    One row a condition and method, EM among them: replications, mean error of each parameter, the
    largest error of a, and by how much the log likelihood (with the weak prior of a few items
    without a finite estimate) is below that of EM: median and largest.
    """
    names = ["lart", *SAEM_METHODS]
    keys = [*PLACE, "replication"]
    of_saem = replications[replications["method"].isin(list(SAEM_METHODS))]
    tried = pd.MultiIndex.from_frame(of_saem[keys])
    rows = replications[replications["method"].isin(names)]
    rows = rows[pd.MultiIndex.from_frame(rows[keys]).isin(tried)]
    em = rows[rows["method"] == "lart"].set_index(keys)["loss"]
    gap = rows["loss"].to_numpy() - em.reindex(pd.MultiIndex.from_frame(rows[keys])).to_numpy()
    groups = rows.assign(gap=gap).groupby([*PLACE, "method"], sort=False)
    table = pd.DataFrame({"replications": groups.size()})
    for name in (*ANSWERS, *LENGTHS):
        table[f"rmse_{name}"] = groups[f"rmse_{name}"].mean()
    table["worst_a"] = groups["rmse_a"].max()
    table["gap"], table["largest_gap"] = groups["gap"].median(), groups["gap"].max()
    table["converged"] = groups["converged"].mean()
    return table.reset_index()


def coverage_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return how often the 90% intervals of the abilities hold the truth, and how wide they are.

    One row a condition, method and interval: replications, mean coverage with its standard error
    over replications, and mean width. IRT's closed forms are one and the same.
    """
    rows = []
    for place, own in replications.groupby(PLACE, sort=False):
        for method, kinds in _INTERVALS_OF.items():
            part = own[own["method"] == method]
            for kind in kinds if len(part) else ():
                cover = part[f"cover_{kind}"]
                rows.append({
                    **dict(zip(PLACE, place, strict=True)), "method": method, "interval": kind,
                    "replications": len(part), "coverage": cover.mean(),
                    "coverage_se": cover.sem() if len(part) > 1 else np.nan,
                    "width": part[f"width_{kind}"].mean(),
                })  # fmt: skip
    return pd.DataFrame(rows)
