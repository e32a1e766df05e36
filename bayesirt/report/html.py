"""The report of a ranking."""

from math import isfinite, isnan
from typing import Any

from bayesirt.names import rounded
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.separation import separate_neighbours
from bayesirt.report.in_short import in_short
from bayesirt.report.item_part import MOST_LISTED, items_to_look_at
from bayesirt.report.leaderboard import all_observed, leaderboard
from bayesirt.report.methods import methods_of
from bayesirt.report.page import render_page
from bayesirt.report.pictures import in_report
from bayesirt.report.point_part import trust_in_point
from bayesirt.report.topic_part import topic_part

_MOST_PAIRS = 50
_MOST_COMBINATIONS = 60
_MOST_NEIGHBOURS = 200
_DOUBT = "The draws are not sound: do not quote these figures."


def render_report(run: Run) -> str:
    """Render the report of a run as a complete HTML document."""
    ranking, items, posterior, comparison = run.ranking, run.items, run.posterior, run.comparison
    flagged, review = items[items["flag"] != ""], items_to_look_at(run)
    return render_page(
        "report.html.j2",
        run=run,
        ranking=ranking,
        verdict=posterior.verdict,
        warnings=ranking.warnings,
        doubt="" if ranking.sound else _DOUBT,
        short=[sentence for sentence in in_short(run) if sentence not in ranking.warnings],
        notes=[*filter(None, [review["note"]]), *_notes(run)],
        board=leaderboard(ranking, len(items)),
        n_subjects=len(ranking.summary),
        all_observed=all_observed(ranking, len(items)),
        population="population_score" in ranking.summary,
        clusters=_clusters(run),
        difficulty=run.difficulty
        and {"text": run.difficulty.to_text(), "picture": in_report(run, "difficulty")},
        skills=run.skills
        and {
            "text": run.skills.to_text(),
            "rows": run.skills.effects.to_dict("records"),
            "combinations": run.skills.combinations.head(_MOST_COMBINATIONS).to_dict("records"),
            "factors": run.skills.factors,
        },
        topics=run.topics and topic_part(run.topics),
        repeats=run.repeats
        and {"text": run.repeats.to_text(), "picture": in_report(run, "repeats")},
        neighbours=_neighbours(run),
        flagged=flagged.head(MOST_LISTED).to_dict("records"),
        n_flagged=len(flagged),
        review=review,
        probabilities=in_report(run, "ranks"),
        pairwise=in_report(run, "pairs"),
        flow=in_report(run, "flow"),
        prices={name: plot for name in ("length", "cost") if (plot := in_report(run, name))},
        speeds=in_report(run, "speeds"),
        item_map=in_report(run, "items"),
        information=in_report(run, "information"),
        fit=_fit(run),
        trust=trust_in_point(run, comparison),
        methods=methods_of(run),
        comparison=in_report(run, "estimates"),
    )


def _fit(run: Run) -> dict[str, Any] | None:
    """Return the report's section on fit, or None if the fit was not checked."""
    if run.fit is None:
        return None
    from bayesirt.checks.fit.categories import misfitting

    misfits = [
        table[table["misfits"]].sort_values("p") for table in (run.fit.items, run.fit.subjects)
    ]
    rows = [
        {"what": kind, "name": row[kind], "z": row["z"], "p": row["p"]}
        for kind, table in zip(("item", "subject"), misfits, strict=True)
        for row in table.to_dict("records")
    ]
    grades = run.fit.categories
    return {
        "grades": [] if grades is None else misfitting(grades).head(_MOST_PAIRS).to_dict("records"),
        "models": run.fit.summary.to_dict("records"),
        "misfits": rows,
        "pairs": run.fit.pairs[run.fit.pairs["dependent"]].head(_MOST_PAIRS).to_dict("records"),
        **{name: in_report(run, name) for name in ("calibration", "totals", "levels")},
    }


def _clusters(run: Run) -> dict[str, Any] | None:
    """Return the report's section on clusters, or None if subjects have none."""
    if run.clusters is None:
        return None
    return {
        "rows": run.clusters.summary.to_dict("records"),
        "text": run.clusters.to_text(),
        "picture": in_report(run, "clusters"),
    }


def _notes(run: Run) -> list[str]:
    """Return further notes for the summary at the top."""
    diagnostics = run.record.diagnostics
    changes = diagnostics.get("changes")
    results = (run.clusters, run.effective_items, run.difficulty, run.skills)
    notes = [result.to_text() for result in results if result is not None]
    fit_note = diagnostics.get("fit") if run.fit is None else run.fit.in_short()
    notes += [fit_note] if fit_note and not run.ranking.by_score else []
    notes += [f"{changes['text']} {changes['moves']}"] if changes else []
    return notes + [
        diagnostics[name]
        for name in ("slopes", "runs", "cut", "prediction", "scale")
        if name in diagnostics
    ]


def _neighbours(run: Run) -> list[dict[str, Any]]:
    table = separate_neighbours(run.posterior, run.ranking).head(_MOST_NEIGHBOURS)
    rows: list[dict[str, Any]] = table.to_dict("records")
    for row in rows:
        more = row["more_items"]
        row["more"] = "?" if isnan(more) else "over a million"
        if isfinite(more):
            row["more"] = f"{rounded(more):,}"
    return rows
