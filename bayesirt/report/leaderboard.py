"""The leaderboard: one row per subject, with intervals drawn on a common axis."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup, escape
from matplotlib.ticker import MaxNLocator

from bayesirt.names import brief, one_line, percent_in_table
from bayesirt.ranking.subject_ranking import SCORE_RANK, Ranking

_WIDTH, _HEIGHT, _MARGIN = 220.0, 16.0, 8.0
TICK_LOCATOR = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
"""Ticks whose steps divide 100%, so that none lies beyond it."""
_NAME = 120


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and the number that it is sorted by."""

    shown: str
    value: float | None = None


@dataclass(frozen=True)
class LeaderboardColumn:
    """A column: its title, cells, CSS classes (`kind`) and what is shown below the title."""

    title: str
    cells: list[Cell]
    kind: str = ""
    below: str = ""


@dataclass(frozen=True)
class Leaderboard:
    """Columns, and which rows are shaded: those of every other tier."""

    columns: list[LeaderboardColumn]
    bands: list[bool]

    @property
    def rows(self) -> Iterable[tuple[bool, list[tuple[str, Cell]]]]:
        """Each row: whether it is shaded, and its cells with their CSS classes."""
        kinds = [column.kind for column in self.columns]
        for band, *cells in zip(
            self.bands, *(column.cells for column in self.columns), strict=True
        ):
            yield band, list(zip(kinds, cells, strict=True))


def leaderboard(ranking: Ranking, n_items: int, rows: int | None = None) -> Leaderboard:
    """Return the leaderboard of a ranking on `n_items` items, or only its first `rows`."""
    ranking = replace(ranking, summary=ranking.summary.head(rows)) if rows else ranking
    table, by_score = ranking.summary, ranking.by_score
    observed = all_observed(ranking, n_items)
    rank_names = SCORE_RANK if by_score else ("rank", "rank_low", "rank_high")
    other = ("rank", "rank_low", "rank_high") if by_score else ("rank_by_accuracy",)
    columns = [
        _ranks("Rank", table, rank_names),
        LeaderboardColumn("Subject", [_name(name) for name in table["subject"]], "name"),
        *([_clusters(table)] if "cluster" in table else []),
        *(_by_score(ranking, observed) if by_score else _by_ability(ranking, observed)),
        *[_prices(table, price) for price in ("length", "cost") if price in table],
        *([] if by_score else [_chances(table), _plain("Tier", table["tier"])]),
        _ranks("Rank by ability" if by_score else f"Rank by {ranking.score}", table, other, "more"),
    ]
    if not observed:
        columns.append(_plain("Items run", table["n_items"], "more"))
    if (table["flag"] != "").any():
        columns.append(
            LeaderboardColumn("Note", [Cell(escape(x)) for x in table["flag"]], "name note more")
        )
    bands = [False] * len(table) if by_score else [bool(tier % 2 == 0) for tier in table["tier"]]
    return Leaderboard(columns, bands)


def all_observed(ranking: Ranking, n_items: int) -> bool:
    """Return whether every subject answered every item, so that no score is predicted."""
    return bool((ranking.summary["n_items"] == n_items).all())


def gain_column(gains: pd.DataFrame) -> LeaderboardColumn:
    """Return abilities in a topic minus those in the others, blank where a topic is missing."""
    cells = []
    for x, low, high in _three(gains, "gain"):
        shown = _with_interval(f"{x:+.2f}", f"{low:+.2f}", f"{high:+.2f}") if x == x else ""
        cells.append(Cell(shown, x if x == x else None))
    return LeaderboardColumn("Against other topics", cells, "more")


def _by_ability(ranking: Ranking, observed: bool) -> list[LeaderboardColumn]:
    table = ranking.summary
    if "scale" in table:
        bars = _bars("Scale", table, "scale", "{:.0f}".format)
    else:
        bars = _bars("Ability", table, "ability", "{:+.2f}".format)
    expected = [] if observed else [_scores(ranking, "expected_score", "Expected score")]
    return [bars, _means(ranking), *expected, *_like_these(ranking)]


def _by_score(ranking: Ranking, observed: bool) -> list[LeaderboardColumn]:
    table = ranking.summary
    cells = [
        Cell(_with_interval(f"{x:+.2f}", f"{low:+.2f}", f"{high:+.2f}"), x)
        for x, low, high in _three(table, "ability")
    ]
    title = ranking.score.capitalize() if observed else "Expected score"
    bars = _bars(title, table, "expected_score", ranking.shown)
    means = [] if observed else [_means(ranking)]
    return [bars, *means, *_like_these(ranking), LeaderboardColumn("Ability", cells, "more")]


def _three(table: pd.DataFrame, name: str) -> Iterable[tuple[float, float, float]]:
    return zip(*(table[f"{name}{end}"].astype(float) for end in ("", "_low", "_high")), strict=True)


def _name(name: object) -> Cell:
    return Cell(Markup("<bdi>{}</bdi>").format(one_line(str(name), _NAME)))


def _clusters(table: pd.DataFrame) -> LeaderboardColumn:
    return LeaderboardColumn("Cluster", [_name(name) for name in table["cluster"]], "name more")


def _plain(title: str, values: Iterable[Any], kind: str = "") -> LeaderboardColumn:
    return LeaderboardColumn(title, [Cell(f"{x:,}", float(x)) for x in values], kind)


def _prices(table: pd.DataFrame, price: str) -> LeaderboardColumn:
    return LeaderboardColumn(price.capitalize(), [Cell(brief(x), float(x)) for x in table[price]])


def _ranks(
    title: str, table: pd.DataFrame, names: tuple[str, ...], kind: str = ""
) -> LeaderboardColumn:
    cells = [
        Cell(_with_interval(*map(str, row)), float(row[0]))
        for row in table[list(names)].itertuples(index=False)
    ]
    return LeaderboardColumn(title, cells, kind)


def _with_interval(shown: str, *ends: str) -> str:
    if not ends:
        return escape(shown)
    return Markup('{} <span class="interval">({} to {})</span>').format(shown, *ends)


def _chances(table: pd.DataFrame) -> LeaderboardColumn:
    """Return P(best) in whole percents, never as 0% or 100%."""
    cells = [Cell(escape(percent_in_table(p)), float(p)) for p in table["p_best"]]
    return LeaderboardColumn("P(best)", cells)


def _means(ranking: Ranking) -> LeaderboardColumn:
    cells = [Cell(escape(ranking.shown(x)), float(x)) for x in ranking.summary["accuracy"]]
    return LeaderboardColumn(ranking.score.capitalize(), cells)


def _scores(ranking: Ranking, name: str, title: str) -> LeaderboardColumn:
    """Return scores, with intervals where they were predicted."""
    cells = []
    for x, low, high in _three(ranking.summary, name):
        ends = [ranking.shown(end).replace("%", "") for end in (low, high)]
        observed = Markup('{} <span class="interval">(observed)</span>').format(ranking.shown(x))
        cells.append(Cell(_with_interval(ranking.shown(x), *ends) if low < high else observed, x))
    return LeaderboardColumn(title, cells, "more")


def _like_these(ranking: Ranking) -> list[LeaderboardColumn]:
    if "population_score" not in ranking.summary:
        return []
    return [_scores(ranking, "population_score", "Items like these")]


def _bars(
    title: str, table: pd.DataFrame, name: str, shown: Callable[[float], str]
) -> LeaderboardColumn:
    """Return values with their intervals, drawn on a common axis."""
    low, high = float(table[f"{name}_low"].min()), float(table[f"{name}_high"].max())
    ticks = TICK_LOCATOR.tick_values(low, high) if high > low else np.array([low])
    first, last = min(low, ticks[0]), max(high, ticks[-1])
    span = last - first or 1.0

    def place(x: float) -> float:
        return round(_MARGIN + (_WIDTH - 2 * _MARGIN) * (x - first) / span, 1)

    lines = "".join(f"M{place(x):g} 0v{_HEIGHT:g}" for x in ticks)
    middle = _HEIGHT / 2
    cells = [
        Cell(
            Markup(
                '<svg class="bar" viewBox="0 0 {} {}" role="img" aria-label="{} to {}">'
                '<title>{} ({} to {})</title><path class="grid" d="{}"/>'
                '<path class="range" d="M{} {}H{}"/><circle cx="{}" cy="{}" r="3.2"{}/></svg> {}'
            ).format(
                f"{_WIDTH:g}", f"{_HEIGHT:g}", shown(a), shown(b), shown(x), shown(a), shown(b),
                lines, place(a), middle, place(b), place(x), middle,
                Markup(' class="prior"') if flag else "", shown(x),
            ),
            x,
        )
        for (x, a, b), flag in zip(_three(table, name), table["flag"], strict=True)
    ]  # fmt: skip
    marks = "".join(
        Markup('<text x="{}" y="10">{}</text>').format(place(x), _brief(shown(x))) for x in ticks
    )
    axis = Markup('<svg class="bar" viewBox="0 0 {} 12" aria-hidden="true">{}</svg>').format(
        f"{_WIDTH:g}", Markup(marks)
    )
    return LeaderboardColumn(title, cells, "drawn", axis)


def _brief(mark: str) -> str:
    """Return a tick's label without trailing zeros."""
    number = mark.removesuffix("%")
    short = number.rstrip("0").rstrip(".") if "." in number else number
    return short.replace("+0", "0") if short in ("+0", "-0") else short + mark[len(number) :]
