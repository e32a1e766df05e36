"""The report of a ranking by several abilities, and what the command line prints of it."""

from pathlib import Path
from typing import Any

import pandas as pd
from rich.text import Text

from bayesirt.names import one_line
from bayesirt.profiles.ability_profiles import PRIOR, AbilityProfiles
from bayesirt.profiles.exploration import Exploration
from bayesirt.report.page import render_page, svg
from bayesirt.report.profile_marks import MOST_SUBJECTS
from bayesirt.report.profile_plots import plot_heat_map
from bayesirt.report.terminal_parts import ALARM, MOST_ROWS, new_console, new_table, say_more

_MOST_SHOWN = 2000
_MOST_PRINTED = 3


def render_exploration(run: Exploration) -> str:
    """Return the report as a whole HTML document."""
    profiles = _profiles(run)
    subjects = list(run.ranking["subject"])
    cells = [profiles.levels(name).to_dict("index") for name in ("level", "low", "high")]
    rows: list[dict[str, Any]] = run.ranking.head(_MOST_SHOWN).to_dict("records")
    for row in rows:
        of_each = [table[row["subject"]].values() for table in cells]
        row["levels"] = list(zip(*of_each, strict=True))
    several = len(run.abilities) > 1
    picture = svg(plot_heat_map(profiles, subjects), "Levels of all abilities") if several else ""
    return render_page(
        "exploration.html.j2",
        run=run,
        verdict=run.posterior.verdict,
        n_subjects=len(subjects),
        n_drawn=min(len(subjects), MOST_SUBJECTS),
        rows=rows,
        abilities=run.abilities.to_dict("records"),
        heat_map=picture,
    )


def _profiles(run: Exploration) -> AbilityProfiles:
    """Return levels as pictures of profiles take them."""
    abilities = run.abilities.assign(ranked=run.abilities["standing"] != PRIOR)
    return AbilityProfiles(run.levels, abilities, pd.DataFrame())


def print_exploration(run: Exploration, folder: Path) -> None:
    """Print the verdict, the ranking by expected score with levels, and what abilities are."""
    console = new_console()
    verdict, names = run.posterior.verdict, list(run.abilities["ability"])[:_MOST_PRINTED]
    console.print(Text(verdict.to_text(), style="" if verdict.sound else ALARM))
    if not run.point.converged:
        console.print(Text(f"The point estimate has not converged: {run.point.stop_reason}."))
    table = new_table(
        "rank", "90%", "subject", "expected", "90%", "correct", *names, "tier",
        drop=(*names[::-1], "correct"),
    )  # fmt: skip
    levels = _profiles(run).levels()
    for row in run.ranking.head(MOST_ROWS).itertuples():
        low, high = row.expected_score_low, row.expected_score_high
        table.add_row(
            str(row.rank),
            f"{row.rank_low}-{row.rank_high}",
            str(row.subject),
            f"{row.expected_score:.1%}",
            f"{100 * low:.0f}-{high:.0%}",
            f"{row.accuracy:.1%}",
            *(f"{levels.loc[row.subject, name]:+.1f}" for name in names),
            str(row.tier),
        )
    console.print(table)
    say_more(console, run.ranking)
    of_abilities = new_table(
        "ability", "share", "reliability", "standing", "helps with", "hinders with",
        drop=("hinders with", "helps with", "reliability"),
    )  # fmt: skip
    for row in run.abilities.itertuples():
        shown = (one_line(str(x), 40) for x in (row.helps, row.hinders))
        of_abilities.add_row(
            one_line(str(row.ability), 30),
            f"{row.share:.0%}",
            f"{row.reliability:.2f}",
            str(row.standing),
            *shown,
        )
    console.print(of_abilities)
    console.print(Text(run.to_text()))
    console.print(Text(f"Report: {folder / 'report.html'}"), soft_wrap=True)


def exploration_as_json(run: Exploration) -> dict[str, Any]:
    """Return the verdict, the ranking, abilities and levels, ready for JSON."""
    verdict = run.posterior.verdict
    return {
        "verdict": {"sound": verdict.sound, "text": verdict.to_text()},
        "text": run.to_text(),
        "ranking": run.ranking.to_dict("records"),
        "abilities": run.abilities.to_dict("records"),
        "levels": run.levels.to_dict("records"),
    }
