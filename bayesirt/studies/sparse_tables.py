"""The tables of the sparse study, from its replications."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.studies.sparse_conditions import (
    GRID_ABILITY_SD,
    MASKS,
)
from bayesirt.studies.sparse_surface import (
    TERMS,
    PowerLaw,
    fit_interaction,
    fit_log_power_law,
    fit_power_law,
)
from bayesirt.studies.study_rows import read_printed

ERROR_BOUNDS = (0.05, 0.2)
"""Ranking errors of the simple average from which on it fails, and fails badly."""

ERROR_NAMES = ("up to 0.05", "0.05 to 0.2", "above 0.2")
SPARSE_FROM = 0.4

_ROUNDING = 1e-9


def domain_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return ρ of each domain beside what Kang (2026) prints (Table 1 and 5.1).

    One row a domain: S, D, mean and standard deviation over seeds of ρ of the simple average and of
    IRT, the 90% intervals that the posterior gives them on average, the mean ranks of the Fake and
    the True subject, and under ``printed_`` the paper's figures.
    """
    printed = read_printed("sparse_domains").set_index("domain").iloc[:, 5:].add_prefix("printed_")
    rows = []
    for name, own in replications.groupby("name", sort=False):
        if name not in printed.index:
            continue
        row = {"domain": name, "S": own["S"].iloc[0], "D": own["D"].iloc[0], "seeds": len(own)}
        for rho in ("average", "irt"):
            row[f"rho_{rho}"] = own[f"rho_{rho}"].mean()
            row[f"rho_{rho}_sd"] = own[f"rho_{rho}"].std(ddof=0)
        row |= {column: own[column].mean() for column in _INTERVALS + _RANKS}
        rows.append(row | printed.loc[name].to_dict())
    return pd.DataFrame(rows)


_INTERVALS = ["average_low", "average_high", "rho_posterior_low", "rho_posterior_high"]
_RANKS = [
    "rho_difficulty", "fake_rank", "fake_rank_average", "fake_rank_irt", "best_rank_average",
    "best_rank_irt",
]  # fmt: skip


def grid_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the means over seeds of each cell of the grid.

    One row a mask, S and D: ρ of the simple average, of IRT and of the posterior mean, the 90%
    intervals that the posterior gives them on average (NaN where nothing was drawn), the fitted gap
    in units of the abilities, and the standard error of the first.
    """
    on_grid = replications[replications["name"].isin(MASKS)]
    columns = ["rho_average", "rho_irt", "rho_posterior", *_INTERVALS, "gap_irt"]
    cells = on_grid.groupby(["name", "S", "D"], sort=False)
    table = cells[columns].mean().assign(rho_average_se=cells["rho_average"].sem()).reset_index()
    table["gap_irt"] *= GRID_ABILITY_SD
    return table.rename(columns={"name": "mask"})


def surface_table(grid: pd.DataFrame) -> pd.DataFrame:
    """Return what summarises the failure surface, beside what Kang (2026) prints (Table 3, 5.3).

    One row a mask and quantity: value, t where it is a coefficient, and the paper's.
    """
    rows: list[tuple[str, str, float, float]] = []
    for mask, own in grid.groupby("mask", sort=False):
        s, d, error = (x.to_numpy() for x in (own["S"], own["D"], 1 - own["rho_average"]))
        regression = fit_interaction(s, d, error)
        rows += [(mask, *row) for row in zip(TERMS, regression.gamma, regression.t, strict=True)]
        logs, law = fit_log_power_law(s * d, error), fit_power_law(s * d, error)
        single = {
            "R2": regression.r_squared,
            **_of_law("power law", logs),
            **_of_law("least squares power law", law),
            "lowest rho of the average": own["rho_average"].min(),
            "standard error of the lowest": own.loc[own["rho_average"].idxmin(), "rho_average_se"],
            "lowest rho of IRT": own["rho_irt"].min(),
            "mean error from S = 0.4 on": error[s >= SPARSE_FROM - _ROUNDING].mean(),
        }
        rows += [(mask, name, float(value), np.nan) for name, value in single.items()]
    table = pd.DataFrame(rows, columns=["mask", "quantity", "value", "t"])
    printed = read_printed("sparse_surfaces").rename(columns={"t": "printed_t"})
    return table.merge(printed, on=["mask", "quantity"], how="left")


def law_table(grid: pd.DataFrame) -> pd.DataFrame:
    """Return the power laws for D in standard deviations of the abilities.

    One row a mask: scale, exponent and residual_sd, as `bayesirt.ranking.simple_averages` holds
    them.
    """
    rows = []
    for mask, own in grid.groupby("mask", sort=False):
        product = (own["S"] * own["D"] / GRID_ABILITY_SD).to_numpy()
        law = fit_power_law(product, 1 - own["rho_average"].to_numpy())
        rows.append((mask, law.scale, law.exponent, law.residual_sd))
    return pd.DataFrame(rows, columns=["mask", "scale", "exponent", "residual_sd"])


def warning_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return whether the posterior's intervals hold, and warn, where the simple average fails.

    One row a design (the domains, or a mask of the grid) and size of the average's error: suites,
    and shares. Of the subjects, how many true ranks and abilities their 90% interval covers, how
    many the average misplaces, how many of these the interval exposes, and how many it excludes
    wrongly. Of the suites, how many ρ of the average, and of the posterior mean, the posterior's
    90% interval covers.
    """
    drawn = replications[replications["subjects"].notna()]
    design = drawn["name"].where(drawn["name"].isin(MASKS), "domains")
    size = np.digitize(1 - drawn["rho_average"], ERROR_BOUNDS)
    rows = []
    for place, own in drawn.groupby([design, size], sort=True):
        n_subjects, n_misplaced = own["subjects"].sum(), own["misplaced"].sum()
        right = n_subjects - n_misplaced
        rows.append(
            {
                "design": place[0],
                "average_error": ERROR_NAMES[place[1]],
                "suites": len(own),
                "rank_coverage": own["ranks_covered"].sum() / n_subjects,
                "rank_coverage_se": _ratio_se(own["ranks_covered"], own["subjects"]),
                "rank_width": own["rank_width"].mean(),
                "ability_coverage": own["abilities_covered"].sum() / n_subjects,
                "ability_coverage_se": _ratio_se(own["abilities_covered"], own["subjects"]),
                "misplaced": n_misplaced / n_subjects,
                "exposed": own["exposed"].sum() / n_misplaced if n_misplaced else np.nan,
                "false_alarms": own["false_alarms"].sum() / right if right else np.nan,
                "average_rho_coverage": _inside(own, "rho_average", "average").mean(),
                "posterior_rho_coverage": _inside(own, "rho_posterior", "rho_posterior").mean(),
            }
        )
    return pd.DataFrame(rows)


def _of_law(name: str, law: PowerLaw) -> dict[str, float]:
    return {
        f"{name} scale": law.scale, f"{name} exponent": law.exponent, f"{name} R2": law.r_squared
    }  # fmt: skip


def _inside(rows: pd.DataFrame, value: str, interval: str) -> pd.Series:
    """Return whether a value lies in its interval; ranks make ties, so bounds are rounded."""
    low, high = rows[f"{interval}_low"] - _ROUNDING, rows[f"{interval}_high"] + _ROUNDING
    return rows[value].between(low, high)


def _ratio_se(part: pd.Series, whole: pd.Series) -> float:
    """Return the standard error of Σ part / Σ whole between independent suites."""
    n = len(part)
    if n < 2:
        return float("nan")
    residual: NDArray[np.float64] = (part - part.sum() / whole.sum() * whole).to_numpy()
    return float(np.sqrt(n / (n - 1) * (residual**2).sum()) / whole.sum())
