"""The report's section on rankings by topic."""

from typing import Any

from bayesirt.ranking.subject_ranking import Ranking
from bayesirt.ranking.topic_rankings import GAINS, LOSES, TopicRankings
from bayesirt.report.leaderboard import Leaderboard, gain_column, leaderboard

_TOP = 3
_MOST_ROWS, _FEWEST_ROWS = 3000, 20
"""Rows shown over all topics, and the fewest shown of each."""


def topic_part(topics: TopicRankings) -> dict[str, Any]:
    """Return the section's sentences, a table of topics, and one ranking per topic."""
    rows = max(_FEWEST_ROWS, _MOST_ROWS // len(topics.rankings))
    overview, boards = [], []
    for topic, ranking in topics.rankings.items():
        entry = _told(topics, topic, ranking)
        overview.append(entry)
        boards.append(
            {
                **entry,
                "board": _board(topics, topic, ranking, rows),
                "n": len(ranking.summary),
                "shown": min(rows, len(ranking.summary)),
                "warning": " ".join(ranking.warnings),
            }
        )
    return {"by": topics.by, "text": topics.to_text(), "overview": overview, "boards": boards}


def _told(topics: TopicRankings, topic: str, ranking: Ranking) -> dict[str, Any]:
    best = ranking.summary["subject"].head(_TOP) if ranking.sound else []
    return {
        "topic": topic,
        "n_items": topics.n_items[topic],
        "best": [str(name) for name in best],
        "sound": ranking.sound,
        "gains": topics.named(topic, GAINS),
        "loses": topics.named(topic, LOSES),
    }


def _board(topics: TopicRankings, topic: str, ranking: Ranking, rows: int) -> Leaderboard:
    """Return a topic's leaderboard, with gains over the other topics where they are known."""
    gains = topics.gains[topics.gains["topic"] == topic].set_index("subject")
    board = leaderboard(ranking, topics.n_items[topic], rows)
    if gains.empty:
        return board
    subjects = list(ranking.summary["subject"].head(rows))
    columns = [*board.columns, gain_column(gains.reindex(subjects))]
    return Leaderboard(columns, board.bands)
