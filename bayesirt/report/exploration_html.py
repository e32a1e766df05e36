"""The report of a ranking by several abilities."""

from typing import Any

import pandas as pd

from bayesirt.profiles.ability_profiles import PRIOR, AbilityProfiles
from bayesirt.profiles.exploration import Exploration
from bayesirt.profiles.profile_run import ProfileRun
from bayesirt.ranking.cluster_ranking import shares, shares_in_words
from bayesirt.report.page import render_page, svg
from bayesirt.report.profile_marks import MOST_SUBJECTS
from bayesirt.report.profile_plots import plot_heat_map

_MOST_SHOWN = 2000


def render_exploration(run: Exploration) -> str:
    """Render the report as a complete HTML document."""
    profiles = as_profiles(run)
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
        clusters=clusters_shown(run),
    )


def clusters_shown(run: Exploration | ProfileRun) -> dict[str, Any] | None:
    """Return the report's section on clusters, or None if subjects have none."""
    if run.clusters is None:
        return None
    return {
        "text": shares_in_words(*shares(run.posterior)),
        "rows": run.clusters.head(_MOST_SHOWN).to_dict("records"),
        "n": len(run.clusters),
        "ranked": "rank" in run.clusters,
    }


def as_profiles(run: Exploration) -> AbilityProfiles:
    """Return the levels as profiles, as pictures need them."""
    abilities = run.abilities.assign(ranked=run.abilities["standing"] != PRIOR)
    return AbilityProfiles(run.levels, abilities, pd.DataFrame())
