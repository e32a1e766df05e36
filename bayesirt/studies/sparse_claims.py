"""Claims of the sparse study beside those of Kang (2026)."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayesirt.posterior import LEVEL
from bayesirt.studies.claims import Claim, at_least, beside
from bayesirt.studies.sparse_conditions import DOMAINS, MASKS
from bayesirt.studies.sparse_tables import ERROR_BOUNDS

NOTES = (
    "The domains' items, trials and coverage are the paper's. Abilities of all but the Fake and "
    "the True subject and the masks of the others are unpublished and drawn for each seed, so "
    "figures match in kind, not digit for digit. Appendix B gives the True subject four items, "
    "section 4.3 three; we take four.",
    "The biased mask matches ability to difficulty: abler subjects meet harder items. It is one "
    "kind of bias; if easy items went to able subjects, the average would exaggerate the order.",
    "IRT is joint MAP, as in the paper, but run until it converges: the authors' code stops after "
    "80 steps, fits the biased mask only, and sets rho to 1 where S = 0.",
    "Ranks are whole numbers, so their intervals cover more often than they say. On the grid, "
    "discriminations rise with difficulties, which the default prior does not expect, so intervals "
    "of abilities cover less often. The paper's prior (--priors fixed) is affected less.",
)
_DESIGNS = {"domains": "Domains"} | {mask: f"Grid, {words}" for mask, words in MASKS.items()}
_ROUNDING = 5e-4
_PAPERS_SEEDS = 20


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
    for row in warning.itertuples():
        title = f"{_DESIGNS[row.design]}, error of the average {row.average_error}"
        yield Claim(f"{title}, subjects misplaced", row.misplaced)
        yield Claim(f"{title}, of these exposed", row.exposed)
        yield Claim(f"{title}, others exposed by mistake", row.false_alarms)
        for of in ("rank", "ability"):
            cover, error = (getattr(row, f"{of}_coverage{end}") for end in ("", "_se"))
            text = f"{title}, coverage of {LEVEL:.0%} intervals of {of}"
            yield at_least(text, cover, error, LEVEL)
