"""The sparse study: when the simple average misleads, and whether the posterior warns (Kang, 2026).

Four domains and a grid of sparsities and difficulty gaps, as in the paper; and, beyond it, what
the posterior says of both rankings without knowing the truth.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Unpack

import numpy as np
import pandas as pd
from jaxtyping import Array

from bayesirt.models import Priors
from bayesirt.posterior import LEVEL
from bayesirt.studies.claims import Claim, at_least, beside, rows_of
from bayesirt.studies.engine import Part, Running, Study, do_tasks
from bayesirt.studies.measures import read_notes, with_conditions
from bayesirt.studies.sparse_conditions import (
    DOMAINS,
    MASKS,
    Condition,
    domain_conditions,
    draw_suite,
    grid_conditions,
)
from bayesirt.studies.sparse_measures import (
    BATCH,
    DRAWS_COLUMNS,
    POINT_COLUMNS,
    draw_abilities,
    fit,
    measure_draws,
    measure_point,
)
from bayesirt.studies.sparse_tables import (
    ERROR_BOUNDS,
    domain_table,
    grid_table,
    law_table,
    plot_domains,
    plot_failure_surface,
    plot_warning,
    surface_table,
    warning_table,
)
from bayesirt.studies.tasks import PortableKey, Row, Task

_PLACE = ("condition", "seed")
_DESIGNS = {"domains": "Domains"} | {mask: f"Grid, {words}" for mask, words in MASKS.items()}
_ROUNDING = 5e-4
_PAPERS_SEEDS = 20


@dataclass(frozen=True)
class SparseDesign:
    """What the study simulates; by default what Kang (2026) does (4, 5.3)."""

    domain_seeds: int = 20  # Suites of each domain.
    grid_seeds: int = 15  # Of each cell of the grid under each mask.
    # Of these, how many the posterior is drawn for; it is for all of the domains, unless 0.
    drawn_seeds: int = 3
    sparsities: tuple[float, ...] = tuple(k / 20 for k in range(15))  # S of the grid.
    gaps: tuple[float, ...] = tuple(k / 2 for k in range(1, 11))  # D of the grid.
    priors: Priors = field(default_factory=Priors)  # Of the posterior.

    @property
    def conditions(self) -> list[Condition]:
        """The domains and the cells of the grid."""
        return [*domain_conditions(), *grid_conditions(self.sparsities, self.gaps)]


QUICK = SparseDesign(4, 4, 1, (0.0, 0.35, 0.7), (0.5, 2.0, 3.5, 5.0))
"""A coarser grid with fewer seeds."""


def sparse_study(
    design: SparseDesign | None = None, *, key: Array, **running: Unpack[Running]
) -> Study:
    """Do Kang (2026), sections 4 and 5, again, and see whether the posterior warns."""
    design, portable = design or SparseDesign(), PortableKey.of(key)
    parts = {"suites": Part(_PLACE, (*POINT_COLUMNS, *DRAWS_COLUMNS))}
    settings = {**asdict(design), "key": portable}
    rows = do_tasks(suite_tasks(design, portable), parts, settings, running)["suites"]
    columns = {"name": "name", "S": "sparsity", "D": "gap"}
    suites = with_conditions(rows, design.conditions, columns, replication="seed")
    domains, grid, warning = domain_table(suites), grid_table(suites), warning_table(suites)
    surface = surface_table(grid)
    figures = {
        "domains": partial(plot_domains, domains),
        "failure_surface": partial(plot_failure_surface, grid),
    }
    if len(warning):
        figures["warning"] = partial(plot_warning, suites, warning)
    n_drawn = suites["subjects"].notna().sum()
    return Study(
        f"sparse study of {len(suites):,} suites, {n_drawn:,} with a posterior",
        suites,
        {
            "domains": domains,
            "grid": grid,
            "surface": surface,
            "laws": law_table(grid),
            "warning": warning,
        },
        sparse_claims(suites, domains, surface, warning),
        read_notes("sparse"),
        figures,
    )


def suite_tasks(design: SparseDesign, key: PortableKey) -> list[Task]:
    """Return all suites in batches, those with a posterior first."""
    conditions = design.conditions
    suites: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for number, condition in enumerate(conditions):
        n = design.domain_seeds if condition.is_domain else design.grid_seeds
        n_drawn = n if condition.is_domain and design.drawn_seeds else design.drawn_seeds
        for seed in range(n):
            suites[seed < n_drawn].append((number, seed))
    batches = [
        (places[first : first + BATCH], drawn)
        for drawn, places in suites.items()
        for first in range(0, len(places), BATCH)
    ]
    return [
        Task(
            [("suites", place) for place in places],
            partial(suite_rows, conditions, places, key, design.priors, k if drawn else None),
        )
        for k, (places, drawn) in enumerate(batches)
    ]


def suite_rows(
    conditions: Sequence[Condition],
    places: Sequence[tuple[int, int]],
    key: PortableKey,
    priors: Priors,
    batch: int | None,
) -> list[Row]:
    """Return a row for each suite, with draws from its posterior if the batch has a number."""
    suites = [draw_suite(conditions[place[0]], key.rng(*place)) for place in places]
    points = [fit(suite.responses) for suite in suites]
    rows: list[Row] = [{**measure_point(*both)} for both in zip(suites, points, strict=True)]
    if batch is not None:
        responses = [suite.responses for suite in suites]
        draws = draw_abilities(responses, points, key=key.folded(batch), priors=priors)
        for row, suite, theta in zip(rows, suites, draws, strict=True):
            row |= measure_draws(suite, theta)
    return rows


def sparse_claims(
    replications: pd.DataFrame, domains: pd.DataFrame, surface: pd.DataFrame, warning: pd.DataFrame
) -> Iterator[Claim]:
    """Yield the domains' rankings, the failure surface, and what the posterior's intervals hold."""
    for row in domains.to_dict("records"):
        title = f"{DOMAINS[row['domain']]}, S x D = {row['S'] * row['D']:.2f}"
        for name, words in (("rho_average", "the simple average"), ("rho_irt", "IRT")):
            errors = (row[f"{name}_sd"] / np.sqrt(row["seeds"]),
                      row[f"printed_{name}_sd"] / np.sqrt(_PAPERS_SEEDS))  # fmt: skip
            text = f"{title}, rho of {words}"
            yield beside(text, row[name], errors[0], row[f"printed_{name}"], errors[1], _ROUNDING)
        if not np.isnan(row["fake_rank"]):
            text = f"{title}, average rank of the subject that met only easy items"
            yield Claim(f"{text}, true", row["fake_rank"])
            printed = row["printed_fake_rank_average"]
            yield Claim(f"{text}, by the average", row["fake_rank_average"], paper=printed)
            yield Claim(f"{text}, by IRT", row["fake_rank_irt"])
    for row in surface.itertuples():
        error, printed_error = abs(row.value / row.t), abs(row.printed / row.printed_t)
        text = f"{_DESIGNS[row.mask]}: {row.quantity}"
        yield beside(text, row.value, error, row.printed, printed_error, _ROUNDING)
    yield from _on_sparse_domains(domains, surface)
    yield from _on_warning(replications, warning)


def _on_sparse_domains(domains: pd.DataFrame, surface: pd.DataFrame) -> Iterator[Claim]:
    """Yield whether the grid's power law, of 10 x 10 suites, tells the error of 6-item domains."""
    law = surface[surface["mask"] == "biased"].set_index("quantity")["value"]
    scale, power = (law[f"least squares power law {name}"] for name in ("scale", "exponent"))
    sparse = domains[domains["S"] > 0]
    expected = (scale * (sparse["S"] * sparse["D"]) ** power).mean()
    yield Claim("Mean error of the average in sparse domains, by the grid's power law", expected)
    found = (1 - sparse["rho_average"]).mean()
    yield Claim("Mean error of the average in sparse domains, found", found)


def _on_warning(replications: pd.DataFrame, warning: pd.DataFrame) -> Iterator[Claim]:
    drawn = replications[replications["subjects"].notna()]
    yield Claim("Suites whose posterior was drawn", len(drawn))
    if not len(drawn):
        return
    for share, words in ((0.5, "median"), (0.05, "5% quantile"), (0.0, "lowest")):
        text = f"Effective draws of each suite's least certain ability, {words}"
        yield Claim(text, drawn["ess"].quantile(share))
    fails = drawn[1 - drawn["rho_average"] > ERROR_BOUNDS[0]]
    if len(fails):
        title = f"Where the average fails (error above {ERROR_BOUNDS[0]}, {len(fails):,} suites)"
        covered = fails["ranks_covered"].sum() / fails["subjects"].sum()
        yield at_least(f"{title}, true ranks that {LEVEL:.0%} intervals hold", covered, 0, LEVEL)
        exposed = fails["exposed"].sum() / fails["misplaced"].sum()
        yield Claim(f"{title}, share of the misplaced subjects that intervals expose", exposed)
    of_subjects = {"misplaced": "subjects misplaced", "exposed": "of these exposed",
                   "false_alarms": "others exposed by mistake"}  # fmt: skip
    title = "{design}, error of the average {average_error}"
    yield from rows_of(warning, title, of_subjects, design=_DESIGNS)
    for row in warning.to_dict("records"):
        for of in ("rank", "ability"):
            text = f"{title.format(**row | {'design': _DESIGNS[row['design']]})}, coverage of"
            cover, error = row[f"{of}_coverage"], row[f"{of}_coverage_se"]
            yield at_least(f"{text} {LEVEL:.0%} intervals of {of}", cover, error, LEVEL)
