"""The report of ability profiles."""

from typing import Any

from matplotlib.figure import Figure

from bayesirt.profiles.ability_profiles import BORROWED, AbilityProfiles
from bayesirt.profiles.profile_run import ProfileRun
from bayesirt.report.exploration_html import clusters_shown
from bayesirt.report.page import render_page, svg
from bayesirt.report.profile_marks import MOST_PANELS, MOST_SUBJECTS
from bayesirt.report.profile_plots import (
    plot_ability,
    plot_correlations,
    plot_heat_map,
    plot_profiles,
    plot_reliability,
    subjects_by_level,
)

_MOST_LEVELS = 15_000
"""Most cells in the table of all levels; a browser handles that many easily."""
_MOST_RANKED = 50
_MOST_SCORES = 500


def render_profile_report(run: ProfileRun) -> str:
    """Render the report of ability profiles as a complete HTML document."""
    profiles = run.profiles
    subjects = subjects_by_level(profiles)
    several = len(profiles.abilities) > 1
    independent = several and run.record.settings.structure == "independent"
    return render_page(
        "profile.html.j2",
        run=run,
        verdict=run.posterior.verdict,
        n_subjects=len(subjects),
        abilities=profiles.abilities.to_dict("records"),
        reliability=svg(plot_reliability(profiles), "Reliability of each ability"),
        heat_map=svg(plot_heat_map(profiles), "Levels of all abilities") if several else "",
        panels=svg(_panels(profiles, subjects), "Profiles side by side"),
        n_drawn=min(len(subjects), MOST_SUBJECTS),
        n_ranked=min(len(subjects), _MOST_RANKED),
        n_panels=min(len(subjects), MOST_PANELS),
        levels=_levels(profiles, subjects),
        rankings=_rankings(profiles),
        clusters=clusters_shown(run),
        independent=independent,
        correlations=svg(plot_correlations(profiles), "Correlations of abilities")
        if several and not independent
        else "",
        scores=[] if run.predictions is None else _scores(run),
    )


def _panels(profiles: AbilityProfiles, subjects: list[str]) -> Figure:
    """Draw profiles side by side, or, of a single ability, all subjects in one panel."""
    abilities = profiles.abilities["ability"]
    if len(abilities) == 1:
        return plot_ability(profiles, abilities[0])
    return plot_profiles(profiles, subjects[:MOST_PANELS])


def _levels(profiles: AbilityProfiles, subjects: list[str]) -> list[dict[str, Any]]:
    """Return the rows of the table of levels, limited to what a browser handles easily."""
    shown = subjects[: max(1, _MOST_LEVELS // len(profiles.abilities))]
    tables = [profiles.levels(c).loc[shown].to_numpy().tolist() for c in ("level", "low", "high")]
    return [
        {"subject": subject, "cells": list(zip(*row, strict=True))}
        for subject, *row in zip(shown, *tables, strict=True)
    ]


def _rankings(profiles: AbilityProfiles) -> list[dict[str, Any]]:
    """Return the first subjects by each ability that is ranked."""
    ranked = profiles.abilities[profiles.abilities["ranked"]]
    return [
        {
            "ability": ability,
            "borrowed": standing == BORROWED,
            "rows": profiles.ranking(ability).head(_MOST_RANKED).to_dict("records"),
        }
        for ability, standing in zip(ranked["ability"], ranked["standing"], strict=True)
    ]


def _scores(run: ProfileRun) -> list[dict[str, Any]]:
    assert run.predictions is not None
    return list(run.predictions.scores.head(_MOST_SCORES).to_dict("records"))
