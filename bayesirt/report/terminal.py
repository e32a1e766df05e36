"""Output of the command line. Names are printed as text, never as markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.text import Text

from bayesirt.data.scales import shown_score
from bayesirt.names import one_line, percent_in_table, rounded
from bayesirt.report.terminal_parts import (
    ALARM,
    CAUTION,
    MOST_ROWS,
    PlainTable,
    new_console,
    new_table,
    say_first,
    say_more,
)
from bayesirt.report.terminal_ranking import ranking_table, score_table, topics_table

if TYPE_CHECKING:
    from rich.console import Console

    from bayesirt.bank.adaptive import Estimate, NextItems
    from bayesirt.checks.fit.fit_check import FitCheck
    from bayesirt.checks.item_review import ItemReview
    from bayesirt.checks.point_comparison import Comparison
    from bayesirt.data.responses import Responses
    from bayesirt.ranking.finished_run import Run
    from bayesirt.ranking.horizon import Horizons
    from bayesirt.ranking.kept_items import KeptItems
    from bayesirt.ranking.separation import Detectable
    from bayesirt.ranking.simple_averages import AverageRule
    from bayesirt.ranking.subject_ranking import Ranking
    from bayesirt.verdict import Verdict

_WIDE = 100
_MOST_MISFITS = 10


def print_run(run: Run, folder: Path) -> None:
    """Print warnings, the verdict, the ranking, notes and the path of the report."""
    console = new_console()
    ranking = run.ranking
    say_first(console, ranking.warnings, sound=ranking.sound)
    if ranking.sound:
        console.print(Text(run.posterior.verdict.to_text()))
    if not run.point.converged:
        console.print(Text(f"The point estimate has not converged: {run.point.stop_reason}."))
    summary = ranking.summary
    table = score_table if ranking.by_score else ranking_table
    console.print(table(ranking, summary.head(MOST_ROWS)))
    say_more(console, summary)
    if ranking.by_score or "scale" not in summary:
        console.print(Text(run.posterior.scale_in_words))
    flagged = summary[summary["flag"] != ""]
    if len(flagged):
        first = flagged.iloc[0]
        console.print(
            Text(
                f"* rests on the prior: {len(flagged)} of {len(summary)}, the first "
                f"{one_line(first['subject'])} ({first['flag']})"
            )
        )
    if ranking.sound:
        console.print(Text(ranking.average.to_text()))
    if run.clusters is not None:
        console.print(_clusters_table(run.clusters.summary.head(MOST_ROWS)))
        say_more(console, run.clusters.summary)
        console.print(Text(run.clusters.to_text()))
    if run.topics is not None:
        console.print(topics_table(run.topics, wide=console.width >= _WIDE))
        console.print(Text(run.topics.to_text()))
    for note in _notes(run):
        console.print(Text(note))
    console.print(Text(f"Report: {folder / 'report.html'}"), soft_wrap=True)


def _notes(run: Run) -> list[str]:
    """Return further notes on a run, one paragraph each, without what `say_first` says."""
    diagnostics = run.record.diagnostics
    if run.fit is not None and run.fit.warning:
        diagnostics = {**diagnostics, "fit": run.fit.details()}
    names = ("slopes", "runs", "cut", "fit", "prediction", "scale")
    notes = [diagnostics[name] for name in names if diagnostics.get(name)]
    if changes := diagnostics.get("changes"):
        notes.append(f"{changes['text']} {changes['moves']}")
    results = (run.gain, run.wrong, run.repeats, run.effective_items, run.difficulty, run.skills)
    return notes + [result.to_text() for result in results if result is not None]


def _clusters_table(rows: pd.DataFrame) -> PlainTable:
    table = new_table(
        "rank", "90%", "cluster", "subjects", "ability", "90%", "P(best)", "tier",
        drop=("subjects", "P(best)", "ability 90%"),
    )  # fmt: skip
    for row in rows.itertuples():
        table.add_row(
            str(row.rank),
            f"{row.rank_low}-{row.rank_high}",
            str(row.cluster),
            str(row.n_subjects),
            f"{row.ability:+.2f}",
            f"{row.ability_low:+.1f} {row.ability_high:+.1f}",
            percent_in_table(row.p_best),
            str(row.tier),
        )
    return table


def print_horizons(horizons: Horizons, ranking: Ranking) -> None:
    """Print each subject's time horizons, and how much task length explains."""
    from bayesirt.ranking.horizon import in_time

    console = new_console()
    say_first(console, ranking.warnings, sound=ranking.sound)
    table = new_table(
        "subject", "50%", "90%", "80%", "90%", "80% of all tasks", "90%",
        drop=("80% of all tasks 90%", "80% 90%", "80% of all tasks", "50% 90%"),
    )  # fmt: skip
    for row in horizons.summary.head(MOST_ROWS).itertuples():
        cells = []
        for name in ("horizon_50", "horizon_80", "marginal_80"):
            low, high = (in_time(getattr(row, f"{name}_{end}")) for end in ("low", "high"))
            cells += [in_time(getattr(row, name)), f"{low} to {high}"]
        table.add_row(str(row.subject), *cells)
    console.print(table)
    say_more(console, horizons.summary)
    console.print(Text(horizons.to_text()))


def print_kept(kept_items: KeptItems, ranking: Ranking) -> None:
    """Print which items to keep, and what is lost."""
    console = new_console()
    say_first(console, ranking.warnings, sound=ranking.sound)
    table = new_table("", "item", "sd of abilities", "pairs told apart", drop=("sd of abilities",))
    for k, row in enumerate(kept_items.summary.head(min(kept_items.n, MOST_ROWS)).itertuples(), 1):
        apart = "-" if isnan(row.pairs) else f"{row.pairs:.0%}"
        table.add_row(str(k), str(row.item), f"{row.sd:.2f}", apart)
    console.print(table)
    if kept_items.n > MOST_ROWS:
        console.print(f"... and {kept_items.n - MOST_ROWS:,} more; --out writes them all")
    console.print(Text(kept_items.to_text()))


def print_separation(
    neighbours: pd.DataFrame,
    detectable: Detectable | None,
    warnings: Sequence[str],
    *,
    sound: bool,
) -> None:
    """Print what would tell neighbours apart, and the least detectable difference."""
    console = new_console()
    say_first(console, warnings, sound=sound)
    named = {"more_items": "extra questions", "more_subjects": "or extra subjects"}
    more = {name: title for name, title in named.items() if name in neighbours}
    table = new_table("above", "below", "P(above)", "difference", "90%", *more.values(),
                      drop=("or extra subjects", "difference 90%", "difference"))  # fmt: skip
    for row in neighbours.head(MOST_ROWS).itertuples():
        counts = [getattr(row, name) for name in more]
        table.add_row(
            str(row.first),
            str(row.second),
            f"{row.p_above:.2f}",
            f"{row.difference:.2f}",
            f"{row.low:+.1f} {row.high:+.1f}",
            *(_amount(n) for n in counts),
        )
    console.print(table)
    say_more(console, neighbours)
    if detectable is not None and sound:
        console.print(Text(detectable.to_text()))


def _amount(n: float) -> str:
    """Format a number of extra questions or subjects."""
    if isnan(n):
        return "?"
    return "too many" if isinf(n) else f"{rounded(n):,}"


def print_check(responses: Responses, rule: AverageRule | None, facets: Sequence[str] = ()) -> None:
    """Print a summary of the responses, whether they can be ranked, and the averages rule."""
    from bayesirt.data.connections import told_groups

    console = new_console()
    table = new_table("", "value")
    scale, shares = responses.scale, ("coverage", "scores of ")
    percent = scale is None or scale.ends in (None, (0, 1))
    for name, value in responses.summary["value"].items():
        shown = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
        if isinstance(value, float) and (percent or str(name).startswith(shares)):
            shown = f"{value:.1%}"
        table.add_row(str(name), shown)
    console.print(table)
    groups = told_groups(responses, facets)
    if len(groups) == 1:
        console.print("Every subject is connected with every other: this can be ranked.")
        if rule is not None:
            console.print(Text(rule.to_text()))
        return
    console.print(
        f"{len(groups)} groups have no response in common, so their abilities cannot be "
        f"compared; rank each by itself with --per-component:"
    )
    for group in groups[:10]:
        console.print(Text(f"  {group}"))


def check_as_json(responses: Responses, rule: AverageRule | None) -> dict[str, Any]:
    """Return the summary of the responses and the averages rule for JSON."""
    facts: dict[str, Any] = responses.summary["value"].to_dict()
    if rule is None:
        return facts
    gap = None if np.isnan(rule.difficulty_gap) else rule.difficulty_gap
    expected = {"difficulty gap": gap, "expected ranking error": rule.expected_error}
    return facts | expected | {"average": rule.to_text()}


def print_comparison(comparison: Comparison, warnings: Sequence[str], *, sound: bool) -> None:
    """Print the subjects, the items that disagree, and the conclusion."""
    console = new_console()
    say_first(console, warnings, sound=sound)
    table = new_table(
        "subject", "estimate", "posterior", "sd", "shrinkage", "rank", "posterior rank", "why",
        drop=("sd", "rank", "posterior rank", "estimate", "why"),
    )  # fmt: skip
    ordered = comparison.subjects.sort_values("rank_posterior", kind="stable")
    for row in ordered.head(MOST_ROWS).itertuples():
        table.add_row(
            str(row.subject),
            f"{row.estimate:+.2f}",
            f"{row.posterior_mean:+.2f}",
            f"{row.posterior_sd:.2f}",
            f"{row.shrinkage:+.1f}{' !' if row.disagrees else ''}",
            str(row.rank_point),
            str(row.rank_posterior),
            row.reason,
        )
    console.print(table)
    say_more(console, ordered)
    outliers = comparison.items[comparison.items["disagrees"]]
    if len(outliers):
        worst = outliers[["a_shrinkage", "d_shrinkage"]].abs().max(axis=1).sort_values()[::-1].index
        table = new_table("item", "a", "posterior a", "d", "posterior d", "why", drop=("why",))
        for row in outliers.loc[worst].head(15).itertuples():
            table.add_row(
                str(row.item),
                f"{row.a_estimate:.2f}",
                f"{row.a_posterior_mean:.2f}",
                f"{row.d_estimate:+.2f}",
                f"{row.d_posterior_mean:+.2f}",
                row.reason,
            )
        console.print(table)
        say_more(console, outliers, 15)
    console.print(Text(comparison.to_text()))


def print_review(review: ItemReview) -> None:
    """Print the listed items with reasons and evidence, and the conclusion."""
    console = new_console()
    listed = review.listed
    for row in listed.head(MOST_ROWS).itertuples():
        console.print(Text(f"{one_line(str(row.item), 60)} ({row.reasons}): {row.evidence}"))
    say_more(console, listed)
    console.print(Text(review.to_text()))


def print_fit(fit: FitCheck) -> None:
    """Print the compared models, misfitting items and subjects, and the conclusion."""
    from bayesirt.checks.fit.categories import misfitting

    console = new_console()
    table = new_table("model", "log score of an answer", "ahead", "error")
    for row in fit.summary.itertuples():
        ahead = ("", "") if np.isnan(row.ahead) else (f"{row.ahead:+.4f}", f"{row.se:.4f}")
        table.add_row(str(row.model), f"{row.log_score:.4f}", *ahead)
    console.print(table)
    for kind, rows in (("item", fit.items), ("subject", fit.subjects)):
        misfits = rows[rows["misfits"]].sort_values("p", kind="stable")
        if len(misfits):
            table = new_table(kind, "z", "p")
            for row in misfits.head(_MOST_MISFITS).to_dict("records"):
                table.add_row(str(row[kind]), f"{row['z']:+.1f}", f"{row['p']:.2g}")
            console.print(table)
            say_more(console, misfits, _MOST_MISFITS)
    if fit.categories is not None:
        _print_categories(console, misfitting(fit.categories))
    console.print(Text(fit.to_text()))


def _print_categories(console: Console, misfits: pd.DataFrame) -> None:
    """Print the grades whose frequency misfits, clearest first."""
    if misfits.empty:
        return
    table = new_table("item", "grade", "observed", "expected", "p")
    for row in misfits.head(_MOST_MISFITS).itertuples():
        shares = (f"{row.observed:.1%}", f"{row.expected:.1%}")
        table.add_row(str(row.item), str(row.grade), *shares, f"{row.p:.2g}")
    console.print(table)
    say_more(console, misfits, _MOST_MISFITS)


def print_next_items(
    suggestions: Mapping[str, NextItems], verdict: Verdict, n: int, stop_width: float | None
) -> None:
    """Print each subject's estimate, its next items, and whether to stop."""
    console = new_console()
    if not verdict.sound or verdict.unconverged:
        style = CAUTION if verdict.sound else ALARM
        console.print(Text(f"The run's items: {verdict.to_text()}", style=style))
    for name, next_items in suggestions.items():
        text = next_items.so_far.to_text(stop_width)
        console.print(Text(f"{one_line(name)}: {text}"))
        timed = bool((next_items.summary["of_length"] > 0).any())
        more = ("by its length",) if timed else ()
        scale = next_items.scale
        chance = "P(right)" if scale is None else f"expected {scale.called}"
        table = new_table("item", chance, "information", *more, "sd after", drop=more)
        for row in next_items.summary.head(n).itertuples():
            table.add_row(
                str(row.item),
                f"{row.p_right:.0%}" if scale is None else shown_score(scale, row.expected),
                f"{row.information:.3f}",
                *([f"{row.of_length:.3f}"] if timed else []),
                f"{row.sd:.3f}",
            )
        console.print(table)
        console.print(Text(next_items.to_text(stop_width)))


def next_items_as_json(
    suggestions: Mapping[str, NextItems], verdict: Verdict, n: int, stop_width: float | None
) -> dict[str, Any]:
    """Return each subject's estimate and next items for JSON."""
    subjects = []
    for name, next_items in suggestions.items():
        so_far = next_items.so_far
        stop = (
            None if stop_width is None else {"width": stop_width, "met": so_far.stops(stop_width)}
        )
        subjects.append(
            {
                "subject": name,
                "answers": so_far.n_answers,
                "lengths": so_far.n_lengths,
                "ability": _estimate_as_json(so_far.ability),
                "speed": so_far.speed and _estimate_as_json(so_far.speed),
                "stop": stop,
                "text": f"{so_far.to_text(stop_width)} {next_items.to_text(stop_width)}".strip(),
                "next": next_items.best(n).to_dict("records"),
            }
        )
    return {
        "verdict": {"sound": verdict.sound, "text": verdict.to_text()},
        "criterion": next(iter(suggestions.values())).criterion,
        "subjects": subjects,
    }


def _estimate_as_json(estimate: Estimate) -> dict[str, float]:
    return {**estimate._asdict(), "width": estimate.width}
