"""Rankings and profiles of several abilities as the command line prints them."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from bayesirt.names import one_line
from bayesirt.profiles.exploration import Exploration
from bayesirt.profiles.profile_run import ProfileRun
from bayesirt.ranking.cluster_ranking import shares, shares_in_words
from bayesirt.report.exploration_html import as_profiles
from bayesirt.report.json_rows import rows_for_json
from bayesirt.report.terminal_parts import ALARM, MOST_ROWS, new_console, new_table, say_more

_MOST_PRINTED = 3
"""Abilities whose levels are printed in the ranking."""


def _say_verdict(console: Console, run: ProfileRun | Exploration) -> None:
    verdict = run.posterior.verdict
    console.print(Text(verdict.to_text(), style="" if verdict.sound else ALARM))
    if not run.point.converged:
        console.print(Text(f"The point estimate has not converged: {run.point.stop_reason}."))


def print_profiles(run: ProfileRun, folder: Path) -> None:
    """Print the verdict, each ability's reliability and best subject, and predictions."""
    console = new_console()
    verdict, profiles = run.posterior.verdict, run.profiles
    _say_verdict(console, run)
    table = new_table(
        "ability", "items", "reliability", "own", "standing", "best", "level", "rank",
        drop=("own", "rank", "items", "level", "reliability"),
    )  # fmt: skip
    for row in profiles.abilities.head(MOST_ROWS).itertuples():
        best = profiles.ranking(str(row.ability)).iloc[0]
        shown = (
            str(best["subject"]),
            f"{best['level']:+.1f} ({best['low']:+.1f} {best['high']:+.1f})",
            f"{best['rank_low']}-{best['rank_high']}",
        )
        table.add_row(
            one_line(str(row.ability), 30),
            f"{row.items:,}",
            f"{row.reliability:.2f}",
            f"{row.own:.2f}",
            row.standing,
            *(shown if row.ranked and verdict.sound else ()),
        )
    console.print(table)
    say_more(console, profiles.abilities)
    sentences = [profiles.to_text(), *(f"The Q-matrix: {note}." for note in run.notes)]
    if run.clusters is not None:
        sentences.append(shares_in_words(*shares(run.posterior)))
    if run.predictions is not None:
        sentences.append(run.predictions.to_text())
    for text in sentences:
        console.print(Text(text))
    console.print(Text(f"Report: {folder / 'report.html'}"), soft_wrap=True)


def profiles_as_json(run: ProfileRun) -> dict[str, Any]:
    """Return the verdict, abilities, pairs, profiles and predicted scores, ready for JSON."""
    verdict, profiles = run.posterior.verdict, run.profiles
    return {
        "verdict": {"sound": verdict.sound, "text": verdict.to_text()},
        "text": profiles.to_text(),
        "notes": list(run.notes),
        "abilities": rows_for_json(profiles.abilities),
        "pairs": rows_for_json(profiles.pairs),
        "clusters": None if run.clusters is None else rows_for_json(run.clusters),
        "profiles": rows_for_json(profiles.summary),
        "predicted_scores": run.predictions and rows_for_json(run.predictions.scores),
    }


def print_exploration(run: Exploration, folder: Path) -> None:
    """Print the verdict, the ranking by expected score with levels, and the abilities."""
    console = new_console()
    names = list(run.abilities["ability"])[:_MOST_PRINTED]
    _say_verdict(console, run)
    table = new_table(
        "rank", "90%", "subject", "expected", "90%", "correct", *names, "tier",
        drop=(*names[::-1], "correct"),
    )  # fmt: skip
    levels = as_profiles(run).levels()
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
    if run.clusters is not None:
        best = run.clusters.iloc[0]
        console.print(
            Text(
                f"Of {len(run.clusters)} clusters, {one_line(best['cluster'], 60)} is first, with "
                f"an expected score of {best['expected_score']:.1%} (rank {best['rank_low']} to "
                f"{best['rank_high']}). {shares_in_words(*shares(run.posterior))}"
            )
        )
    console.print(Text(f"Report: {folder / 'report.html'}"), soft_wrap=True)


def exploration_as_json(run: Exploration) -> dict[str, Any]:
    """Return the verdict, the ranking, abilities and levels, ready for JSON."""
    verdict = run.posterior.verdict
    return {
        "verdict": {"sound": verdict.sound, "text": verdict.to_text()},
        "text": run.to_text(),
        "ranking": rows_for_json(run.ranking),
        "abilities": rows_for_json(run.abilities),
        "levels": rows_for_json(run.levels),
        "clusters": None if run.clusters is None else rows_for_json(run.clusters),
    }
