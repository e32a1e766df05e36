"""Export of a ranking to Markdown, LaTeX, and JSON with a stable schema."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pandas as pd

from bayesirt.names import brief, in_percent, markdown_safe, one_line
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.subject_ranking import SCORE_RANK, Ranking
from bayesirt.report.json_rows import rows_for_json

SCHEMA = 1
"""Schema version of `ranking_as_json`; raised when a key is removed or changes its meaning."""
_LATEX = {letter: f"\\{letter}" for letter in "%&#_{}$"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_CAPTION = (
    "Rank, ability and expected score with 90% intervals. Subjects of one tier are statistically "
    "tied with its leader."
)


_SCORE_CAPTION = (
    "Rank by accuracy, expected score, ability and rank by ability, with 90% intervals."
)


def ranking_as_markdown(run: Run) -> str:
    """Return the ranking as a Markdown table with a sentence on how to read it."""
    table = (_by_score if run.ranking.by_score else _for_people)(run, markdown_safe)
    warnings = "".join(f"**{warning}**\n\n" for warning in map(markdown_safe, run.ranking.warnings))
    lines = [list(table.columns), ["---"] * table.shape[1], *table.to_numpy().tolist()]
    rows = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    verdict = f" {run.posterior.verdict.to_text()}" if run.ranking.sound else ""
    return f"{warnings}{rows}\n\n{_caption(run)}{verdict}\n"


def ranking_as_latex(run: Run) -> str:
    """Return the ranking as a LaTeX table; it needs the package booktabs."""
    table = (_by_score if run.ranking.by_score else _for_people)(run, lambda name: name)
    styled = table.style.hide(axis="index").format(escape="latex")
    styled = styled.format_index(escape="latex", axis="columns")
    caption = " ".join([*run.ranking.warnings, _caption(run)])
    caption = "".join(_LATEX.get(letter, letter) for letter in caption)
    return str(
        styled.to_latex(
            hrules=True, column_format="rl" + "r" * (table.shape[1] - 2), caption=caption
        )
    )


def ranking_as_json(run: Run) -> dict[str, Any]:
    """Return the verdict, the note on averages and the ranking, ready for JSON.

    docs/guide/rank.md, "JSON", documents it. Parts that a run lacks are left out, and unknown
    numbers are None.
    """
    verdict, diagnostics = run.posterior.verdict, run.record.diagnostics
    added = {
        "misfit": diagnostics.get("misfit"),
        "lengths": run.gain and run.gain.to_text(),
        "wrong_lengths": run.wrong and run.wrong.to_text(),
        "fit": diagnostics.get("fit"),
        "prediction": diagnostics.get("prediction"),
        "scale": diagnostics.get("scale"),
        "slopes": diagnostics.get("slopes"),
        "runs": diagnostics.get("runs"),
        "cut": diagnostics.get("cut"),
        "repeats": run.repeats and run.repeats.to_text(),
        "changes": diagnostics.get("changes"),
    }
    return {
        "schema": SCHEMA,
        "verdict": {"sound": verdict.sound, "text": verdict.to_text()},
        "average": run.ranking.average.to_text(),
        **{key: value for key, value in added.items() if value},
        **_clusters_as_json(run),
        **_explained_as_json(run),
        **_topics_as_json(run),
        "ranking": rows_for_json(run.ranking.table),
    }


def _topics_as_json(run: Run) -> dict[str, Any]:
    if run.topics is None:
        return {}
    rows = rows_for_json(run.topics.table)
    return {"topics": {"by": run.topics.by, "text": run.topics.to_text(), "ranking": rows}}


def _caption(run: Run) -> str:
    return _SCORE_CAPTION if run.ranking.by_score else _CAPTION


def _explained_as_json(run: Run) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if run.difficulty is not None:
        parts["difficulty"] = {
            "text": run.difficulty.to_text(), "sources": rows_for_json(run.difficulty.table)
        }  # fmt: skip
    if run.skills is not None:
        skills = run.skills
        parts["skills"] = {
            "text": skills.to_text(),
            "effects": rows_for_json(skills.effects),
            "combinations": rows_for_json(skills.combinations),
        }
    if run.effective_items is not None:
        fewer = run.effective_items
        parts["effective_items"] = {**asdict(fewer), "text": fewer.to_text()}
    return parts


def _clusters_as_json(run: Run) -> dict[str, Any]:
    clusters = run.clusters
    if clusters is None:
        return {}
    icc = {"icc": clusters.icc, "icc_low": clusters.icc_low, "icc_high": clusters.icc_high}
    rows = rows_for_json(clusters.summary)
    return {"clusters": {**icc, "text": clusters.to_text(), "ranking": rows}}


def _for_people(run: Run, named: Callable[[str], str]) -> pd.DataFrame:
    """Return a ranking by ability as a table of text for people."""
    rows = run.ranking.summary
    return pd.DataFrame(
        {
            "Rank": _ranks(rows, "rank"),
            "Subject": [named(one_line(str(name), 80)) for name in rows["subject"]],
            **_ability(rows),
            **_scores(run.ranking),
            "P(best)": [in_percent(p) for p in rows["p_best"]],
            "Tier": [str(tier) for tier in rows["tier"]],
            **_prices(rows),
        }
    )


def _by_score(run: Run, named: Callable[[str], str]) -> pd.DataFrame:
    """Return a ranking by score as a table of text for people."""
    rows = run.ranking.summary
    return pd.DataFrame(
        {
            "Rank": _ranks(rows, SCORE_RANK[0]),
            "Subject": [named(one_line(str(name), 80)) for name in rows["subject"]],
            **_averages(run.ranking),
            **_scores(run.ranking),
            **_ability(rows),
            "By ability": _ranks(rows, "rank"),
            **_prices(rows),
        }
    )


def _ranks(rows: pd.DataFrame, name: str) -> list[str]:
    columns = (rows[column] for column in (name, f"{name}_low", f"{name}_high"))
    return [f"{rank} ({low} to {high})" for rank, low, high in zip(*columns, strict=True)]


def _ability(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return abilities, or values on an anchored scale, with their intervals."""
    name, digits = ("scale", 0) if "scale" in rows else ("ability", 2)
    columns = (rows[column] for column in (name, f"{name}_low", f"{name}_high"))
    return {
        name.capitalize(): [
            f"{mid:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
            for mid, low, high in zip(*columns, strict=True)
        ]
    }


def _prices(rows: pd.DataFrame) -> dict[str, list[str]]:
    return {
        price.capitalize(): [brief(x) for x in rows[price]]
        for price in ("length", "cost")
        if price in rows
    }


def _averages(ranking: Ranking) -> dict[str, list[str]]:
    """Return mean scores."""
    title = ranking.score[:1].upper() + ranking.score[1:]
    return _in_one_unit(ranking, title, [ranking.summary["accuracy"]])


def _scores(ranking: Ranking) -> dict[str, list[str]]:
    """Return expected scores, and those over items like these if they were requested."""
    names = {"expected_score": "Expected score", "population_score": "Score over items like these"}
    texts: dict[str, list[str]] = {}
    for name, title in names.items():
        if name in ranking.summary:
            columns = [ranking.summary[f"{name}{end}"] for end in ("", "_low", "_high")]
            texts |= _in_one_unit(ranking, title, columns)
    return texts


def _in_one_unit(ranking: Ranking, title: str, columns: list[pd.Series]) -> dict[str, list[str]]:
    """Return scores as text, with intervals where they were predicted."""
    texts = []
    for middle, *ends in zip(*columns, strict=True):
        interval = " to ".join(map(ranking.shown, ends)) if len({*ends}) > 1 else "observed"
        texts.append(ranking.shown(middle) + (f" ({interval})" if ends else ""))
    if ranking.shown(0).endswith("%"):
        return {f"{title} (%)": [text.replace("%", "") for text in texts]}
    return {title: texts}
