"""The tables of the FPC study, from its rows."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bayesirt.studies.fpc_design import USUAL_RULE
from bayesirt.studies.fpc_measures import MEASURES
from bayesirt.studies.fpc_tasks import METHODS
from bayesirt.studies.study_rows import read_printed

_BASELINES = ("concurrent", "concurrent_gp_irt", "anchor_mean", "random")
_SHOWN = ("fixed", "fixed_gp_irt", "anchor_mean", "random")
_WITHIN = 8
"""Rows to spare beyond one a benchmark, from which a trend is taken within benchmarks."""


def usual_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in which nothing but the number of anchors is varied."""
    usual = (rows["rule"] == USUAL_RULE) & (rows["n_reference"] == 0)
    return rows[usual & (rows["split"] == "random")]


def mean_table(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return means over chains.

    One row a group: `chains`, `predictions` (a benchmark each), means over the predictions of
    `mae`, `bias`, `width` (points of accuracy), `spearman` and `coverage`, and `mae_se`, the
    standard error of the first over chains.
    """
    found = []
    for place, own in rows.groupby(list(by), sort=False):
        chains = own.groupby("chain")["mae"].mean()
        found.append(
            dict(zip(by, place, strict=True))
            | {"chains": len(chains), "predictions": len(own), "mae": own["mae"].mean()}
            | {"mae_se": chains.std(ddof=1) / np.sqrt(len(chains))}
            | {name: own[name].mean() for name in MEASURES[1:]}
        )
    return pd.DataFrame(found, columns=[*by, "chains", "predictions", "mae", "mae_se",
                                        *MEASURES[1:]])  # fmt: skip


def paired_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how much further off FPC is than each baseline, on the same predictions.

    By `anchors` and `method`, the baseline: `predictions`, the mean `difference` of the MAE in
    points (below 0 where FPC is better) with its standard error over chains, and `lower`, the share
    of predictions in which FPC's is at or below the baseline's.
    """
    place = ["anchors", "chain", "step"]
    mae = rows.pivot(index=place, columns="method", values="mae")
    found = []
    for name in _BASELINES:
        if name not in mae:
            continue
        gap = (mae["fixed"] - mae[name]).dropna()
        for anchors, own in gap.groupby("anchors", sort=False):
            chains = own.groupby("chain").mean()
            found.append(
                {
                    "anchors": anchors,
                    "method": name,
                    "predictions": len(own),
                    "difference": own.mean(),
                    "difference_se": chains.std(ddof=1) / np.sqrt(len(chains)),
                    "lower": (own <= 0).mean(),
                }
            )
    table = pd.DataFrame(found)
    return table.sort_values("anchors", kind="stable", ignore_index=True)


def trend_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return whether errors grow as the chain does.

    By `anchors` and `method`: the slope of the MAE in points a step, `slope_se`, the number of
    `steps` from the first measured to the last, and `within`, whether benchmarks are compared with
    themselves at other steps: where they were measured often enough.
    """
    found = []
    for place, own in rows.groupby(["anchors", "method"], sort=False):
        within = len(own) - own["benchmark"].nunique() >= _WITHIN
        step, mae = own["step"], own["mae"]
        n_means = 1
        if within:
            of = own["benchmark"]
            step, mae = (x - x.groupby(of).transform("mean") for x in (step, mae))
            n_means = of.nunique()
        step, mae = step - step.mean(), mae - mae.mean()
        spread, left = (step**2).sum(), len(own) - n_means - 1
        slope = (step * mae).sum() / spread if spread else np.nan
        rest = ((mae - slope * step) ** 2).sum()
        found.append(
            dict(zip(("anchors", "method"), place, strict=True))
            | {"slope": slope, "slope_se": np.sqrt(rest / left / spread) if left > 0 else np.nan}
            | {"steps": int(own["step"].max() - own["step"].min()), "within": within}
        )
    return pd.DataFrame(found)


def varied_table(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return what becomes of errors where one thing is varied, on the same chains.

    As of `mean_table`, by anchors, what is varied and method, for the numbers of anchors at which
    it was; with `n_calibrating`, the reference subjects. Empty where nothing was.
    """
    others = {"rule": USUAL_RULE, "n_reference": 0, "split": "random"}
    usual = others.pop(column)
    kept = rows[(rows[list(others)] == pd.Series(others)).all(axis=1)]
    varied = kept[kept[column] != usual]
    same = kept["anchors"].isin(varied["anchors"]) & kept["chain"].isin(varied["chain"])
    shown = kept[same & kept["method"].isin(_SHOWN)]
    return mean_table(shown, ["anchors", column, "n_calibrating", "method"])


def cost_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what each step costs.

    By `anchors`, `method` and `step`, means over chains: answers that a new subject
    (`asked_subject`) and each reference subject (`asked_reference`) is asked for, by the count of
    Habba et al. (2026); earlier anchors (`n_earlier`); `seconds` of the calibration, and what of
    them JAX spent on `compiling`.
    """
    own = rows[rows["method"].isin(("fixed", "concurrent", "random"))]
    columns = ["asked_subject", "asked_reference", "n_earlier", "seconds", "compiling"]
    found: pd.DataFrame = own.groupby(["anchors", "method", "step"], sort=False)[columns].mean()
    return found.reset_index()


def paper_table(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the figures that Habba et al. (2026) print, of its own data, with ours beside them.

    As ``fpc_printed``, with `ours`: NaN where we have none of that kind.
    """
    printed = read_printed("fpc_printed")
    ours = summary.set_index(["anchors", "method"])
    columns = {"spearman": "spearman", "mae_low": "mae", "mae_high": "mae"}
    found = []
    for row in printed.itertuples():
        place = (row.anchors, row.method)
        known = row.quantity in columns and place in ours.index
        found.append(float(ours.loc[place, columns[row.quantity]]) if known else np.nan)
    return printed.assign(ours=found)


def in_words(method: object) -> str:
    """Return a method's name for people."""
    return METHODS[str(method)]
