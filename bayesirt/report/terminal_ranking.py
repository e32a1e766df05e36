"""The ranking as the command line prints it."""

from typing import Any

import pandas as pd

from bayesirt.names import brief, percent_in_table
from bayesirt.ranking.subject_ranking import SCORE_RANK, Ranking
from bayesirt.ranking.topic_rankings import GAINS, LOSES, TopicRankings
from bayesirt.report.terminal_parts import MOST_ROWS, PlainTable, new_table


def ranking_table(ranking: Ranking, rows: pd.DataFrame) -> PlainTable:
    """Return the table of a ranking by ability."""
    prices = [price for price in ("length", "cost") if price in rows]
    like_these = ("like these", "90%") if "population_score" in rows else ()
    by_it = "by acc." if ranking.answers is None else "by it"
    name, digits, ends = ("scale", ".0f", ".0f") if "scale" in rows else ("ability", "+.2f", "+.1f")
    table = new_table(
        "rank", "90%", "subject", name, "90%", ranking.score, by_it, "expected", "90%",
        *like_these, "P(best)", *prices, "tier",
        drop=("like these", "expected", by_it, *prices[::-1], "P(best)", ranking.score),
    )  # fmt: skip
    for row in rows.itertuples():
        table.add_row(
            str(row.rank),
            f"{row.rank_low}-{row.rank_high}",
            str(row.subject) + (" *" if row.flag else ""),
            format(getattr(row, name), digits),
            " ".join(format(getattr(row, f"{name}_{end}"), ends) for end in ("low", "high")),
            ranking.shown(row.accuracy),
            str(row.rank_by_accuracy),
            ranking.shown(row.expected_score),
            _interval(ranking, row.expected_score_low, row.expected_score_high)
            if row.expected_score_low < row.expected_score_high
            else "observed",
            *_like_these(ranking, row),
            percent_in_table(row.p_best),
            *(brief(getattr(row, price)) for price in prices),
            str(row.tier),
        )
    return table


def score_table(ranking: Ranking, rows: pd.DataFrame) -> PlainTable:
    """Return the table of a ranking by score."""
    table = new_table(
        "rank", "90%", "subject", ranking.score, "ability", "90%", "by ability", "90%",
        drop=("by ability 90%", "ability 90%", "ability"),
    )  # fmt: skip
    for row in rows.itertuples():
        rank, low, high = (getattr(row, name) for name in SCORE_RANK)
        table.add_row(
            str(rank),
            f"{low}-{high}",
            str(row.subject) + (" *" if row.flag else ""),
            ranking.shown(row.accuracy),
            f"{row.ability:+.2f}",
            f"{row.ability_low:+.1f} {row.ability_high:+.1f}",
            str(row.rank),
            f"{row.rank_low}-{row.rank_high}",
        )
    return table


def _interval(ranking: Ranking, low: float, high: float) -> str:
    if ranking.answers is None:
        return f"{100 * low:.0f}-{high:.0%}"
    return f"{ranking.shown(low)}-{ranking.shown(high)}"


def _like_these(ranking: Ranking, row: Any) -> tuple[str, ...]:
    """Return the score over items like these with its interval, if it was requested."""
    if not hasattr(row, "population_score"):
        return ()
    low, high = row.population_score_low, row.population_score_high
    return ranking.shown(row.population_score), _interval(ranking, low, high)


def topics_table(topics: TopicRankings, *, wide: bool) -> PlainTable:
    """Return a table of topics: the best subjects, and those that gain or lose."""
    best = ("best", "second", "third") if wide else ("best",)
    table = new_table("topic", "items", *best, GAINS, LOSES, drop=("items", "third", "second"))
    for topic, ranking in list(topics.rankings.items())[:MOST_ROWS]:
        named = [str(name) for name in ranking.summary["subject"].head(len(best))]
        named = named if ranking.sound else ["not sound"]
        table.add_row(
            topic,
            f"{topics.n_items[topic]:,}",
            *(*named, *[""] * (len(best) - len(named))),
            *(_first(topics.named(topic, certain)) for certain in (GAINS, LOSES)),
        )
    return table


def _first(names: list[str]) -> str:
    """Return the first name and the number of the others."""
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)
