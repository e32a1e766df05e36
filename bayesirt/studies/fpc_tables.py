"""The tables of the FPC study, from its rows."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bayesirt.studies.fpc_prediction import MEASURES
from bayesirt.studies.fpc_tasks import USUAL_RULE
from bayesirt.studies.study_rows import groups_of, read_printed

_BASELINES = ("concurrent", "concurrent_gp_irt", "anchor_mean", "random")
_SHOWN = ("fixed", "fixed_gp_irt", "anchor_mean", "random")
_WITHIN = 8
"""Rows to spare beyond one a benchmark, from which a trend is taken within benchmarks."""


def usual_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in which nothing but the number of anchors is varied."""
    usual = (rows["rule"] == USUAL_RULE) & (rows["n_reference"] == 0)
    return rows[usual & (rows["split"] == "random")]


def mean_table(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return means over the predictions of each group, with `mae_se` over chains."""
    found = []
    for place, own in groups_of(rows, by):
        chains = own.groupby("chain")["mae"].mean()
        counts = {"chains": len(chains), "predictions": len(own)}
        errors = {"mae": own["mae"].mean(), "mae_se": chains.sem()}
        found.append(place | counts | errors | {name: own[name].mean() for name in MEASURES[1:]})
    columns = [*by, "chains", "predictions", "mae", "mae_se", *MEASURES[1:]]
    return pd.DataFrame(found, columns=columns)


def paired_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how much further off FPC is than each baseline, on the same predictions.

    `lower` is the share of predictions in which FPC's MAE is at or below the baseline's.
    """
    place = ["anchors", "chain", "step"]
    mae = rows.pivot(index=place, columns="method", values="mae")
    found = []
    for name in (name for name in _BASELINES if name in mae):
        gap = (mae["fixed"] - mae[name]).dropna()
        for anchors, own in gap.groupby("anchors", sort=False):
            found.append({
                "anchors": anchors, "method": name, "predictions": len(own),
                "difference": own.mean(), "difference_se": own.groupby("chain").mean().sem(),
                "lower": (own <= 0).mean(),
            })  # fmt: skip
    table = pd.DataFrame(found)
    return table.sort_values("anchors", kind="stable", ignore_index=True)


def trend_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the slope of the MAE in points a step, as the chain grows.

    `within` says whether benchmarks are compared with themselves at other steps, where they were
    measured often enough; `steps` go from the first measured to the last.
    """
    found = []
    for place, own in groups_of(rows, ("anchors", "method")):
        within = len(own) - own["benchmark"].nunique() >= _WITHIN
        step, mae, n_means = own["step"], own["mae"], 1
        if within:
            of = own["benchmark"]
            step, mae = (x - x.groupby(of).transform("mean") for x in (step, mae))
            n_means = of.nunique()
        step, mae = step - step.mean(), mae - mae.mean()
        spread, left = (step**2).sum(), len(own) - n_means - 1
        slope = (step * mae).sum() / spread if spread else np.nan
        rest = ((mae - slope * step) ** 2).sum()
        error = np.sqrt(rest / left / spread) if left > 0 else np.nan
        steps = int(own["step"].max() - own["step"].min())
        found.append(place | {"slope": slope, "slope_se": error, "steps": steps, "within": within})
    return pd.DataFrame(found)


def varied_table(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return what becomes of errors where one thing is varied, on the same chains."""
    others = {"rule": USUAL_RULE, "n_reference": 0, "split": "random"}
    usual = others.pop(column)
    kept = rows[(rows[list(others)] == pd.Series(others)).all(axis=1)]
    varied = kept[kept[column] != usual]
    same = kept["anchors"].isin(varied["anchors"]) & kept["chain"].isin(varied["chain"])
    shown = kept[same & kept["method"].isin(_SHOWN)]
    return mean_table(shown, ["anchors", column, "n_calibrating", "method"])


def cost_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what each step costs, means over chains, by the count of Habba et al. (2026)."""
    own = rows[rows["method"].isin(("fixed", "concurrent", "random"))]
    columns = ["asked_subject", "asked_reference", "n_earlier", "seconds", "compiling"]
    found: pd.DataFrame = own.groupby(["anchors", "method", "step"], sort=False)[columns].mean()
    return found.reset_index()


def paper_table(summary: pd.DataFrame) -> pd.DataFrame:
    """Return what Habba et al. (2026) print of their data, with `ours`, NaN where we have none."""
    printed = read_printed("fpc_printed")
    ours = summary.set_index(["anchors", "method"])
    columns = {"spearman": "spearman", "mae_low": "mae", "mae_high": "mae"}
    found = []
    for row in printed.itertuples():
        place = (row.anchors, row.method)
        known = row.quantity in columns and place in ours.index
        found.append(float(ours.loc[place, columns[row.quantity]]) if known else np.nan)
    return printed.assign(ours=found)
