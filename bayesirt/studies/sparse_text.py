"""What the tables of the sparse study say, in words."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayesirt.posterior import LEVEL
from bayesirt.studies.sparse_conditions import DOMAINS, MASKS
from bayesirt.studies.sparse_tables import ERROR_BOUNDS

NOTES = (
    "The domains' items, trials and coverage are the paper's. Abilities of all but the Fake and "
    "the True subject, and masks of the others, are unpublished: each seed draws them anew, one "
    "ability in each equal part of -1.5 to 2, and cells at random to the stated coverage, with 2 "
    "items a subject and 3 subjects an item at least. So our figures match in kind, not digit for "
    "digit, and vary more between seeds. Masks of the Fake and the True subject are those of its "
    "Appendix B; its section 4.3 lets the True one meet three items, not four.",
    "The grid's biased mask matches ability to difficulty: abler subjects meet harder items. It "
    "is one kind of bias; where easy items go to the able, the average would flatter the order "
    "instead of blurring it.",
    "IRT is joint MAP, as in the paper, but run until it converges: the authors' code stops after "
    "80 steps, fits the biased mask alone, and sets rho to 1 where S = 0.",
    "Through logs, cells with hardly any error decide the power law as much as those where the "
    "average fails; that is why the paper's fits the surface less well than its interaction.",
    "Ranks are whole numbers, and 100 trials a cell tell most neighbours apart: so their "
    "intervals cover more often than they say. The grid's discriminations rise with its "
    "difficulties, which the default prior does not expect: where abler subjects meet harder "
    "items, this bends the scale of abilities, and their intervals cover less often than they "
    "say; the order hardly suffers. The paper's prior (--priors fixed) bends it less.",
)


_DESIGNS = {"domains": "Domains"} | {mask: f"Grid, {words}" for mask, words in MASKS.items()}


def study_in_words(
    replications: pd.DataFrame, domains: pd.DataFrame, surface: pd.DataFrame, warning: pd.DataFrame
) -> list[str]:
    """Return the verdict, one sentence or a few a line."""
    return [
        *_on_domains(domains),
        *_on_surface(surface),
        *_on_size(domains, surface),
        *_on_warning(replications, warning),
        *(f"Note: {note}" for note in NOTES),
    ]


def _on_domains(domains: pd.DataFrame) -> Iterator[str]:
    for row in domains.itertuples():
        yield (
            f"{DOMAINS[row.domain]}, S x D = {row.S * row.D:.2f}, {row.seeds} seeds: rho of the "
            f"simple average {_spread(row, 'average')}, of IRT {_spread(row, 'irt')}."
            + _interval(row)
            + _fake(row)
        )


def _spread(row: pd.Series, name: str) -> str:
    own, printed = (
        f"{getattr(row, f'{prefix}rho_{name}'):.3f} ± {getattr(row, f'{prefix}rho_{name}_sd'):.3f}"
        for prefix in ("", "printed_")
    )
    return f"{own} (paper {printed})"


def _interval(row: pd.Series) -> str:
    if np.isnan(row.average_low):
        return ""
    return (
        f" By the posterior, {LEVEL:.0%} intervals are on average {row.average_low:.2f} to "
        f"{row.average_high:.2f} and {row.rho_posterior_low:.2f} to {row.rho_posterior_high:.2f}."
    )


def _fake(row: pd.Series) -> str:
    if np.isnan(row.fake_rank):
        return ""
    printed = "" if np.isnan(row.printed_fake_rank_average) else (
        f" (paper {row.printed_fake_rank_average:.0f})"
    )  # fmt: skip
    return (
        f" The subject that met only easy items ranks {row.fake_rank:.1f} in truth, "
        f"{row.fake_rank_average:.1f} by the average{printed}, {row.fake_rank_irt:.1f} by IRT; the "
        f"best one, {row.best_rank_average:.1f} by the average and {row.best_rank_irt:.1f} by IRT."
    )


def _on_surface(surface: pd.DataFrame) -> Iterator[str]:
    for mask, own in surface.groupby("mask", sort=False):
        rows = own.set_index("quantity")
        interaction = rows.loc["S x D"]
        yield (
            f"Grid, {MASKS[mask]}: ranking error of the average rises by {_beside(rows, 'S')} a "
            f"unit of S, {_beside(rows, 'D')} of D and {_beside(rows, 'S x D')} of S x D, t = "
            f"{interaction['t']:.1f} (paper {interaction['printed_t']:.1f}), R2 "
            f"{_beside(rows, 'R2')}. Lowest mean rho of the average "
            f"{_beside(rows, 'lowest rho of the average')}, with a standard error of "
            f"{_beside(rows, 'standard error of the lowest')}; of IRT "
            f"{_beside(rows, 'lowest rho of IRT')}; mean error of the average from S = 0.4 on "
            f"{_beside(rows, 'mean error from S = 0.4 on')}."
        )
        better = rows.loc["least squares power law R2", "value"] > rows.loc["R2", "value"]
        yield (
            f"A power of S x D through logs, as in the paper: exponent "
            f"{_beside(rows, 'power law exponent')}, R2 {_beside(rows, 'power law R2')}. By least "
            f"squares of the error itself: exponent "
            f"{_beside(rows, 'least squares power law exponent')}, R2 "
            f"{_beside(rows, 'least squares power law R2')}, "
            + ("better than the interaction." if better else "no better than the interaction.")
        )


def _on_size(domains: pd.DataFrame, surface: pd.DataFrame) -> Iterator[str]:
    value = surface[surface["mask"] == "biased"].set_index("quantity")["value"]
    sparse = domains[domains["S"] > 0]
    law = "least squares power law"
    expected = value[f"{law} scale"] * (sparse["S"] * sparse["D"]) ** value[f"{law} exponent"]
    found = 1 - sparse["rho_average"]
    yield (
        f"At S x D of the sparse domains, which have 6 items, this surface of 10 x 10 suites "
        f"expects an error of {expected.min():.2f} to {expected.max():.2f}, and "
        f"{found.min():.2f} to {found.max():.2f} were found: it holds for suites of its own size."
    )


def _beside(rows: pd.DataFrame, quantity: str) -> str:
    value, printed = rows.loc[quantity, ["value", "printed"]]
    return f"{value:.3f}" + ("" if np.isnan(printed) else f" (paper {printed:.3f})")


def _on_warning(replications: pd.DataFrame, warning: pd.DataFrame) -> Iterator[str]:
    drawn = replications[replications["subjects"].notna()]
    if not len(drawn):
        yield "No posterior was drawn."
        return
    n_seeds = drawn.loc[drawn["name"].isin(MASKS), "seed"].nunique()
    yield (
        f"The posterior was drawn for {len(drawn):,} of {len(replications):,} suites: all of the "
        f"domains and {n_seeds} of each cell of the grid. Effective draws of the ability with "
        f"fewest: {drawn['ess'].median():.0f} in the median suite, below "
        f"{drawn['ess'].quantile(0.05):.0f} in one of twenty, {drawn['ess'].min():.0f} at worst."
    )
    fails = drawn[1 - drawn["rho_average"] > ERROR_BOUNDS[0]]
    if len(fails):
        covered = fails["ranks_covered"].sum() / fails["subjects"].sum()
        exposed = fails["exposed"].sum() / fails["misplaced"].sum()
        yield (
            f"Where the average fails (error above {ERROR_BOUNDS[0]}, {len(fails):,} suites), "
            f"{LEVEL:.0%} intervals of rank hold {covered:.1%} of the true ranks and expose "
            f"{exposed:.0%} of the subjects that the average misplaces."
        )
    for row in warning.itertuples():
        yield (
            f"{_DESIGNS[row.design]}, error of the average {row.average_error} ({row.suites:,} "
            f"suites): it misplaces {row.misplaced:.0%} of the subjects; intervals of rank expose "
            f"{_share(row.exposed)} of these, and {_share(row.false_alarms)} of the others by "
            f"mistake. {LEVEL:.0%} intervals cover {row.rank_coverage:.1%} of the ranks (mean "
            f"width {row.rank_width:.1f}), {row.ability_coverage:.1%} of the abilities, and rho "
            f"of the average in {row.average_rho_coverage:.0%} of the suites."
        )


def _share(value: float) -> str:
    return "none" if np.isnan(value) else f"{value:.0%}"
