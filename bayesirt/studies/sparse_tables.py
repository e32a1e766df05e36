"""The tables of the sparse study, and the laws of its failure surface (Kang, 2026, 5.3)."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import curve_fit

from bayesirt.studies.sparse_conditions import GRID_ABILITY_SD, MASKS
from bayesirt.studies.study_rows import ratio_se, read_printed

TERMS = ("constant", "S", "D", "S x D")

ERROR_BOUNDS = (0.05, 0.2)
"""Ranking errors of the simple average from which on it fails, and fails badly."""

ERROR_NAMES = ("up to 0.05", "0.05 to 0.2", "above 0.2")
SPARSE_FROM = 0.4

_ROUNDING = 1e-9


class Interaction(NamedTuple):
    """The centred interaction regression, Kang (2026), equation (6)."""

    gamma: NDArray[np.float64]  # shape (4,), By `TERMS`.
    t: NDArray[np.float64]  # shape (4,), Each coefficient in units of its standard error.
    r_squared: float


class PowerLaw(NamedTuple):
    """1 - ρ = scale (S x D)^exponent."""

    scale: float
    exponent: float
    r_squared: float  # On the scale of 1 - rho.
    residual_sd: float  # Root of the mean squared residual, on the same scale.


def fit_interaction(
    sparsity: NDArray[np.float64], gap: NDArray[np.float64], error: NDArray[np.float64]
) -> Interaction:
    """Regress ranking error on centred S and D and on their product, by least squares."""
    s, d = sparsity - sparsity.mean(), gap - gap.mean()
    design = np.stack([np.ones_like(s), s, d, s * d], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    gamma = inverse @ design.T @ error
    residual = error - design @ gamma
    variance = (residual**2).sum() / (len(error) - len(TERMS))
    t = gamma / np.sqrt(variance * np.diag(inverse))
    return Interaction(gamma, t, _r_squared(residual, error))


def fit_power_law(product: NDArray[np.float64], error: NDArray[np.float64]) -> PowerLaw:
    """Fit the power law by least squares on the scale of the error."""
    (scale, exponent), _ = curve_fit(
        lambda x, scale, exponent: scale * x**exponent,
        product,
        error,
        p0=(0.03, 2.0),
        bounds=((0, 0.1), (np.inf, 10)),
    )
    return _power_law(scale, exponent, product, error)


def fit_log_power_law(product: NDArray[np.float64], error: NDArray[np.float64]) -> PowerLaw:
    """Fit the power law as Kang (2026) does: a straight line through logs.

    Cells with hardly any error, whose logs are far apart, weigh as much as those with a large one.
    On the authors' 150 cells this gives their printed 0.0262, 1.8334 and R² = 0.587.
    """
    used = (product > 0) & (error > 0)
    exponent, log_scale = np.polyfit(np.log(product[used]), np.log(error[used]), 1)
    return _power_law(np.exp(log_scale), exponent, product[used], error[used])


def _power_law(
    scale: float, exponent: float, product: NDArray[np.float64], error: NDArray[np.float64]
) -> PowerLaw:
    residual = error - scale * product**exponent
    spread = float(np.sqrt((residual**2).mean()))
    return PowerLaw(float(scale), float(exponent), _r_squared(residual, error), spread)


def _r_squared(residual: NDArray[np.float64], error: NDArray[np.float64]) -> float:
    return float(1 - (residual**2).sum() / ((error - error.mean()) ** 2).sum())


def domain_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the means of each domain over seeds beside what Kang (2026) prints (Table 1, 5.1)."""
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
    """Return the means over seeds of each cell of the grid; NaN where nothing was drawn."""
    on_grid = replications[replications["name"].isin(MASKS)]
    columns = ["rho_average", "rho_irt", "rho_posterior", *_INTERVALS, "gap_irt"]
    cells = on_grid.groupby(["name", "S", "D"], sort=False)
    table = cells[columns].mean().assign(rho_average_se=cells["rho_average"].sem()).reset_index()
    table["gap_irt"] *= GRID_ABILITY_SD
    return table.rename(columns={"name": "mask"})


def surface_table(grid: pd.DataFrame) -> pd.DataFrame:
    """Return what summarises the failure surface, beside Kang (2026) (Table 3, 5.3)."""
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
    """Return the power laws for D in standard deviations of the abilities, by mask."""
    rows = []
    for mask, own in grid.groupby("mask", sort=False):
        product = (own["S"] * own["D"] / GRID_ABILITY_SD).to_numpy()
        law = fit_power_law(product, 1 - own["rho_average"].to_numpy())
        rows.append((mask, law.scale, law.exponent, law.residual_sd))
    return pd.DataFrame(rows, columns=["mask", "scale", "exponent", "residual_sd"])


def warning_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return whether the posterior's intervals hold, and warn, where the simple average fails.

    Shares of subjects by design and size of the average's error: misplaced by it, exposed by an
    interval, excluded wrongly; and of suites, whose ρ its 90% interval covers.
    """
    drawn = replications[replications["subjects"].notna()]
    design = drawn["name"].where(drawn["name"].isin(MASKS), "domains")
    size = np.digitize(1 - drawn["rho_average"], ERROR_BOUNDS)
    rows = []
    for place, own in drawn.groupby([design, size], sort=True):
        n, n_misplaced = own["subjects"].sum(), own["misplaced"].sum()
        row = {"design": place[0], "average_error": ERROR_NAMES[place[1]], "suites": len(own)}
        for name, part in (("rank", own["ranks_covered"]), ("ability", own["abilities_covered"])):
            row[f"{name}_coverage"] = part.sum() / n
            row[f"{name}_coverage_se"] = ratio_se(part, own["subjects"])
            if name == "rank":
                row["rank_width"] = own["rank_width"].mean()
        rows.append(row | {
            "misplaced": n_misplaced / n,
            "exposed": _share(own["exposed"], n_misplaced),
            "false_alarms": _share(own["false_alarms"], n - n_misplaced),
            "average_rho_coverage": _inside(own, "rho_average", "average").mean(),
            "posterior_rho_coverage": _inside(own, "rho_posterior", "rho_posterior").mean(),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _of_law(name: str, law: PowerLaw) -> dict[str, float]:
    return {
        f"{name} scale": law.scale, f"{name} exponent": law.exponent, f"{name} R2": law.r_squared
    }  # fmt: skip


def _share(part: "pd.Series[float]", whole: float) -> float:
    return float(part.sum() / whole) if whole else np.nan


def _inside(rows: pd.DataFrame, value: str, interval: str) -> pd.Series:
    """Return whether a value lies in its interval; ranks make ties, so bounds are rounded."""
    low, high = rows[f"{interval}_low"] - _ROUNDING, rows[f"{interval}_high"] + _ROUNDING
    return rows[value].between(low, high)
