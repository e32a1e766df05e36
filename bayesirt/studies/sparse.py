"""The sparse study: when the simple average misleads, and whether the posterior warns (Kang, 2026).

It covers four domains and a grid of sparsities and difficulty gaps, as in the paper, and also what
the posterior says about both rankings without knowing the truth.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Unpack

import numpy as np
import pandas as pd
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from scipy.optimize import curve_fit

from bayesirt.models import Priors
from bayesirt.posterior import LEVEL
from bayesirt.report.plots import ACCENT, INK, SOFT
from bayesirt.studies.claims import Claim, claims_from
from bayesirt.studies.engine import Running, Study, do_tasks
from bayesirt.studies.figures import draw_dots, draw_lines, legend_above, new_figure
from bayesirt.studies.measures import Floats, ratio_se, read_notes, read_printed
from bayesirt.studies.sparse_conditions import (
    BATCH,
    DOMAINS,
    GRID_ABILITY_SD,
    MASKS,
    SUITES,
    Condition,
    domain_conditions,
    suite_rows,
)
from bayesirt.studies.tasks import PortableKey, Task

TERMS = ("constant", "S", "D", "S x D")
# Ranking errors from which the simple average fails, and fails badly.
ERROR_BOUNDS = (0.05, 0.2)
ERROR_NAMES = ("up to 0.05", "0.05 to 0.2", "above 0.2")
SPARSE_FROM = 0.4
_ROUNDING = 1e-9
_INTERVALS = ["average_low", "average_high", "rho_posterior_low", "rho_posterior_high"]
_RANKS = [
    "rho_difficulty", "fake_rank", "fake_rank_average", "fake_rank_irt", "best_rank_average",
    "best_rank_irt",
]  # fmt: skip
_CONTOURS = (0.6, 0.8, 0.9, 0.95, 0.99)
_GAINS = (0.01, 0.05, 0.1, 0.2, 0.4)
_COUNTS = ["subjects", "ranks_covered", "abilities_covered", "misplaced", "exposed", "false_alarms"]
_DESIGNS = {"domains": "Domains"} | {mask: f"Grid, {words}" for mask, words in MASKS.items()}
_PAPERS_SEEDS = 20


@dataclass(frozen=True)
class SparseDesign:
    """What the study simulates; by default as in Kang (2026), 4 and 5.3."""

    domain_seeds: int = 20  # Suites of each domain.
    grid_seeds: int = 15  # Of each cell of the grid under each mask.
    # Of these, suites whose posterior is drawn; unless 0, it is drawn for all of the domains.
    drawn_seeds: int = 3
    sparsities: tuple[float, ...] = tuple(k / 20 for k in range(15))  # S of the grid.
    gaps: tuple[float, ...] = tuple(k / 2 for k in range(1, 11))  # D of the grid.
    priors: Priors = field(default_factory=Priors)  # Of the posterior.

    @property
    def conditions(self) -> list[Condition]:
        """The domains and the cells of the grid."""
        grid = product(MASKS, self.sparsities, self.gaps)
        return [*domain_conditions(), *(Condition(*cell) for cell in grid)]


QUICK = SparseDesign(4, 4, 1, (0.0, 0.35, 0.7), (0.5, 2.0, 3.5, 5.0))
"""A coarser grid with fewer seeds."""


def sparse_study(
    design: SparseDesign | None = None, *, key: Array, **running: Unpack[Running]
) -> Study:
    """Replicate Kang (2026), sections 4 and 5, and see whether the posterior warns."""
    design, portable = design or SparseDesign(), PortableKey.of(key)
    conditions = pd.DataFrame(design.conditions).rename(columns={"sparsity": "S", "gap": "D"})
    parts = {"suites": SUITES._replace(conditions=conditions)}
    settings = {**asdict(design), "key": portable}
    return sparse_found(do_tasks(suite_tasks(design, portable), parts, settings, running)["suites"])


def suite_tasks(design: SparseDesign, key: PortableKey) -> list[Task]:
    """Return all suites in batches, those with a posterior first."""
    conditions = design.conditions
    suites: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for number, condition in enumerate(conditions):
        n = design.domain_seeds if condition.is_domain else design.grid_seeds
        n_drawn = n if condition.is_domain and design.drawn_seeds else design.drawn_seeds
        for seed in range(n):
            suites[seed < n_drawn].append((number, seed))
    tasks: list[Task] = []
    for drawn, places in suites.items():
        for first in range(0, len(places), BATCH):
            batch, k = places[first : first + BATCH], len(tasks) if drawn else None
            work = partial(suite_rows, conditions, batch, key, design.priors, k)
            tasks.append(Task([("suites", place) for place in batch], work))
    return tasks


def sparse_found(suites: pd.DataFrame) -> Study:
    """Evaluate the rows of suites."""
    domains, grid, warning = domain_table(suites), grid_table(suites), warning_table(suites)
    tables = {"domains": domains, "grid": grid, "surface": surface_table(grid)}
    tables |= {"laws": law_table(grid), "warning": warning}
    figures = {
        "domains": partial(plot_domains, domains),
        "failure_surface": partial(plot_failure_surface, grid),
    }
    if len(warning):
        figures["warning"] = partial(plot_warning, suites, warning)
    n_drawn = suites["subjects"].notna().sum()
    title = f"sparse study of {len(suites):,} suites, {n_drawn:,} with a posterior"
    claims = sparse_claims(suites, tables)
    return Study(title, suites, tables, claims, read_notes("sparse"), figures)


def sparse_claims(suites: pd.DataFrame, tables: dict[str, pd.DataFrame]) -> Iterator[Claim]:
    """Yield claims on the domains, the failure surface, and the posterior's intervals."""
    domains, surface = tables["domains"], tables["surface"]
    printed_errors = {
        f"{name}_error": domains[f"printed_rho_{name}_sd"] / np.sqrt(_PAPERS_SEEDS)
        for name in ("average", "irt")
    }
    drawn = suites[suites["subjects"].notna()]
    fails = drawn[1 - drawn["rho_average"] > ERROR_BOUNDS[0]]
    ess = drawn["ess"].quantile([0.5, 0.05, 0.0]).tolist()
    counts = fails[_COUNTS].sum().to_frame().T.assign(bound=ERROR_BOUNDS[0], fails=len(fails))
    frames = {
        "domains": domains.assign(product=domains["S"] * domains["D"], **printed_errors),
        "surface": surface.assign(
            design=surface["mask"], printed_error=(surface["printed"] / surface["printed_t"]).abs()
        ),
        "sparse domains": _sparse_domains(domains, surface),
        "drawn": pd.DataFrame([(len(drawn), *ess)], columns=["drawn", "median", "low", "lowest"]),
        "failing": counts.head(len(fails)),
        "warning": tables["warning"],
    }
    return claims_from("sparse", frames, {"domain": DOMAINS, "design": _DESIGNS})


def _sparse_domains(domains: pd.DataFrame, surface: pd.DataFrame) -> pd.DataFrame:
    """Compare the power law from the 10 x 10 grid with the error of 6-item domains."""
    law = surface[surface["mask"] == "biased"].set_index("quantity")["value"]
    scale, power = (law[f"least squares power law {name}"] for name in ("scale", "exponent"))
    sparse = domains[domains["S"] > 0]
    by_law = (scale * (sparse["S"] * sparse["D"]) ** power).mean()
    error = (1 - sparse["rho_average"]).mean()
    return pd.DataFrame([{"by_law": by_law, "found": error}])


class Interaction(NamedTuple):
    """The centred interaction regression, Kang (2026), equation (6)."""

    gamma: Floats  # shape (4,), By `TERMS`.
    t: Floats  # shape (4,), Each coefficient in units of its standard error.
    r_squared: float


class PowerLaw(NamedTuple):
    """1 - ρ = scale (S x D)^exponent."""

    scale: float
    exponent: float
    r_squared: float  # On the scale of 1 - rho.
    residual_sd: float  # Root of the mean squared residual, on the same scale.


def fit_interaction(sparsity: Floats, gap: Floats, error: Floats) -> Interaction:
    """Regress ranking error on centred S and D and their product, by least squares."""
    s, d = sparsity - sparsity.mean(), gap - gap.mean()
    design = np.stack([np.ones_like(s), s, d, s * d], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    gamma = inverse @ design.T @ error
    residual = error - design @ gamma
    variance = (residual**2).sum() / (len(error) - len(TERMS))
    t = gamma / np.sqrt(variance * np.diag(inverse))
    return Interaction(gamma, t, _r_squared(residual, error))


def fit_power_law(product: Floats, error: Floats) -> PowerLaw:
    """Fit the power law by least squares on the scale of the error."""
    (scale, exponent), _ = curve_fit(
        lambda x, scale, exponent: scale * x**exponent,
        product,
        error,
        p0=(0.03, 2.0),
        bounds=((0, 0.1), (np.inf, 10)),
    )
    return _power_law(scale, exponent, product, error)


def fit_log_power_law(product: Floats, error: Floats) -> PowerLaw:
    """Fit the power law as Kang (2026) does: a straight line through logs.

    Cells with hardly any error, whose logs are far apart, get as much weight as those with a large
    error.
    On the authors' 150 cells this gives their printed 0.0262, 1.8334 and R² = 0.587.
    """
    used = (product > 0) & (error > 0)
    exponent, log_scale = np.polyfit(np.log(product[used]), np.log(error[used]), 1)
    return _power_law(np.exp(log_scale), exponent, product[used], error[used])


def _power_law(scale: float, exponent: float, product: Floats, error: Floats) -> PowerLaw:
    residual = error - scale * product**exponent
    spread = float(np.sqrt((residual**2).mean()))
    return PowerLaw(float(scale), float(exponent), _r_squared(residual, error), spread)


def _r_squared(residual: Floats, error: Floats) -> float:
    return float(1 - (residual**2).sum() / ((error - error.mean()) ** 2).sum())


def domain_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return means of each domain over seeds beside those of Kang (2026) (Table 1, 5.1)."""
    printed = read_printed("sparse_domains").set_index("domain").iloc[:, 5:].add_prefix("printed_")
    of_domains = replications[replications["name"].isin(printed.index)]
    groups = of_domains.groupby("name", sort=False)
    table = groups[["S", "D"]].first().assign(seeds=groups.size())
    for rho in ("rho_average", "rho_irt"):
        table[rho], table[f"{rho}_sd"] = groups[rho].mean(), groups[rho].std(ddof=0)
    table = table.join(groups[_INTERVALS + _RANKS].mean()).join(printed)
    return table.rename_axis("domain").reset_index()


def grid_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the means over seeds of each cell of the grid; NaN where nothing was drawn."""
    on_grid = replications[replications["name"].isin(MASKS)]
    columns = ["rho_average", "rho_irt", "rho_posterior", *_INTERVALS, "gap_irt"]
    cells = on_grid.groupby(["name", "S", "D"], sort=False)
    table = cells[columns].mean().assign(rho_average_se=cells["rho_average"].sem()).reset_index()
    table["gap_irt"] *= GRID_ABILITY_SD
    return table.rename(columns={"name": "mask"})


def surface_table(grid: pd.DataFrame) -> pd.DataFrame:
    """Return a summary of the failure surface, beside that of Kang (2026) (Table 3, 5.3)."""
    rows: list[tuple[str, str, float, float]] = []
    for mask, own in grid.groupby("mask", sort=False):
        s, d, error = (x.to_numpy() for x in (own["S"], own["D"], 1 - own["rho_average"]))
        regression = fit_interaction(s, d, error)
        rows += [(mask, *row) for row in zip(TERMS, regression.gamma, regression.t, strict=True)]
        laws = {
            "power law": fit_log_power_law(s * d, error),
            "least squares power law": fit_power_law(s * d, error),
        }
        figures = "scale", "exponent", "R2"
        single = {
            "R2": regression.r_squared,
            **{f"{name} {x}": law[k] for name, law in laws.items() for k, x in enumerate(figures)},
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
    laws = {
        mask: fit_power_law(
            (own["S"] * own["D"] / GRID_ABILITY_SD).to_numpy(), 1 - own["rho_average"].to_numpy()
        )
        for mask, own in grid.groupby("mask", sort=False)
    }
    table = pd.DataFrame(laws.values(), pd.Index(laws, name="mask")).drop(columns="r_squared")
    return table.reset_index()


def warning_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return whether the posterior's intervals cover, and warn, where the simple average fails.

    By design and size of the average's error: shares of subjects that are misplaced by it, exposed
    by an interval, or wrongly excluded; and the share of suites whose ρ its 90% interval covers.
    """
    drawn = _drawn(replications)
    size = np.digitize(1 - drawn["rho_average"], ERROR_BOUNDS)
    groups = drawn.groupby([drawn["design"], pd.Series(size, drawn.index, name="average_error")])
    counts = groups[_COUNTS].sum()
    n, misplaced = counts["subjects"], counts["misplaced"]
    table = pd.DataFrame({"suites": groups.size()})
    for name, part in {"rank": "ranks_covered", "ability": "abilities_covered"}.items():
        table[f"{name}_coverage"] = counts[part] / n
        table[f"{name}_coverage_se"] = [ratio_se(own[part], own["subjects"]) for _, own in groups]
        if name == "rank":
            table["rank_width"] = groups["rank_width"].mean()
    table["misplaced"] = misplaced / n
    table["exposed"] = counts["exposed"] / misplaced
    table["false_alarms"] = counts["false_alarms"] / (n - misplaced)
    for name, interval in {"average": "average", "posterior": "rho_posterior"}.items():
        # Ranks make ties, so bounds are rounded.
        low, high = drawn[f"{interval}_low"] - _ROUNDING, drawn[f"{interval}_high"] + _ROUNDING
        inside = drawn[f"rho_{name}"].between(low, high).groupby(groups.ngroup())
        table[f"{name}_rho_coverage"] = inside.mean().to_numpy()
    return table.rename(index=dict(enumerate(ERROR_NAMES)), level=1).reset_index()


def _drawn(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the suites whose posterior was drawn, with their design: a mask, or the domains."""
    drawn = replications[replications["subjects"].notna()]
    return drawn.assign(design=drawn["name"].where(drawn["name"].isin(MASKS), "domains"))


def plot_domains(domains: pd.DataFrame) -> Figure:
    """Draw ρ of the simple average and of IRT in each domain, here and in the paper."""
    fig, axes = new_figure(7.2, 3.2, x="Spearman's rho with the true ranking, over seeds")
    product = (domains["S"] * domains["D"]).map("S x D = {:.2f}".format)
    names = domains["domain"].map(DOMAINS) + "\n" + product
    for column, label, mark, fill, shift in (
        ("rho_average", "simple average, here", "o", INK, -0.24),
        ("printed_rho_average", "simple average, paper", "o", "white", -0.08),
        ("rho_irt", "IRT, here", "s", INK, 0.08),
        ("printed_rho_irt", "IRT, paper", "s", "white", 0.24),
    ):
        looks: dict[str, Any] = {"fmt": mark, "mfc": fill, "ecolor": SOFT, "label": label}
        draw_dots(axes[0, 0], names, domains[column], domains[f"{column}_sd"], shift=shift, **looks)
    legend_above(fig, axes[0, 0], 4)
    return fig


def plot_failure_surface(grid: pd.DataFrame) -> Figure:
    """Draw ρ over sparsity and difficulty gap: the failure surface of Kang (2026), Figure 1."""
    biased, random = (grid[grid["mask"] == mask] for mask in MASKS)
    gain = biased.assign(gain=biased["rho_irt"] - biased["rho_average"])
    panels = (
        (f"A  Average: {MASKS['biased']}", biased, "rho_average", _CONTOURS),
        (f"B  IRT on these: {biased['rho_irt'].min():.3f} at least", biased, "rho_irt", _CONTOURS),
        (f"C  Average: {MASKS['random']}", random, "rho_average", _CONTOURS),
        ("D  What IRT gains over the average of A", gain, "gain", _GAINS),
    )
    fig, axes = new_figure(8.0, 6.2, 2, 2, sharex=True, sharey=True)
    for ax, (title, table, column, levels) in zip(axes.flat, panels, strict=True):
        _draw_surface(ax, table, column, levels)
        ax.set_title(title, fontsize=8, loc="left")
    fig.supxlabel("sparsity S")
    fig.supylabel("difficulty gap D")
    label = "1 - rho (A, B, C); gain in rho (D)"
    fig.colorbar(axes[0, 0].collections[0], ax=axes, label=label, shrink=0.6)
    return fig


def plot_warning(replications: pd.DataFrame, warning: pd.DataFrame) -> Figure:
    """Draw whether the posterior warns of the average's failure, and its coverage of ranks."""
    drawn = _drawn(replications)
    drawn["middle"] = (drawn["average_low"] + drawn["average_high"]) / 2
    fig, axes = new_figure(7.6, 3.7, 1, 2)
    left, right = axes[0]
    names = {design: design for design in _DESIGNS}
    draw_lines(left, drawn, "rho_average", "middle", names, by="design", ls="", mfc="none")
    lowest = min(0.0, float(drawn["rho_average"].min()))
    left.plot([lowest, 1], [lowest, 1], color=ACCENT, lw=1)
    left.set_xlabel("rho of the simple average with the truth")
    left.set_ylabel(f"middle of its {LEVEL:.0%} interval by the posterior")
    position = warning["average_error"].map(ERROR_NAMES.index)
    offset = 0.15 * (warning["design"].map([*_DESIGNS].index) - 1)
    for measure, fill, shift in (("rank", INK, 0.0), ("ability", "white", 0.06)):
        table = warning.assign(place=position + offset + shift)
        names = {design: f"{measure}, {design}" for design in _DESIGNS}
        shares = f"{measure}_coverage", names
        draw_lines(right, table, "place", *shares, by="design", se=f"{measure}_coverage_se",
                   ls="", mfc=fill)  # fmt: skip
    right.axhline(LEVEL, color=ACCENT, lw=1)
    right.set_xticks(range(len(ERROR_NAMES)), ERROR_NAMES)
    right.set(xlabel="ranking error of the simple average", ylim=(None, 1.02))
    right.set_ylabel(f"coverage of {LEVEL:.0%} intervals")
    for ax in (left, right):
        ax.legend(fontsize=7)
    return fig


def _draw_surface(ax: Axes, table: pd.DataFrame, column: str, levels: tuple[float, ...]) -> None:
    """Shade each cell, darker where ρ is lower or the gain higher, and draw contours."""
    ax.grid(visible=False)
    square = table.pivot(index="D", columns="S", values=column)
    x, y, z = square.columns.to_numpy(), square.index.to_numpy(), square.to_numpy()
    shade = z if column == "gain" else 1 - z
    mesh = ax.pcolormesh(x, y, shade, cmap="Greys", norm=PowerNorm(0.5, 0, 1), shading="nearest")
    mesh.set_edgecolor("face")
    crossed = [level for level in levels if z.min() < level < z.max()]
    if crossed:
        lines = ax.contour(x, y, z, levels=crossed, colors=ACCENT, linewidths=1)
        ax.clabel(lines, fontsize=7, fmt="%g")
