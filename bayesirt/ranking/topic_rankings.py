"""A ranking by each topic of the items, and who gains or loses by topic."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.names import counted, first_few, one_line
from bayesirt.posterior import LEVEL, TAILS, mean_and_ends, standardised
from bayesirt.ranking.subject_ranking import Ranking, ranks_of_draws

_MOST_DRAWS = 1000
_MOST_NAMED = 5
_TINY = 1e-12
GAINS, LOSES = "gains", "loses"
_GAIN_COLUMNS = (
    "topic", "subject", "gain", "gain_low", "gain_high", "rank_there", "rank_there_low",
    "rank_there_high", "rank_elsewhere", "rank_elsewhere_low", "rank_elsewhere_high", "certain",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class TopicRankings:
    """A ranking by each topic of the items."""

    by: str  # The column of topics.
    rankings: dict[str, Ranking]  # By topic, each from a fit to the answers to its items alone.
    n_items: dict[str, int]
    # One row per topic and subject, of subjects that answered items of every topic with sound
    # draws: `gain`, the ability in the topic minus the mean of the abilities in the others, in
    # standard deviations of these subjects, with its 90% interval; `rank_there` and
    # `rank_elsewhere`, the median ranks among them in the topic and by that mean, with 90%
    # intervals; `certain`, "gains" or "loses" if the gain is not zero (simultaneous 90% over
    # all topics and subjects), else empty.
    gains: pd.DataFrame
    notes: tuple[str, ...] = ()  # Why topics or items are left out, one sentence each.

    def __repr__(self) -> str:
        return f"<TopicRankings by {self.by}: {len(self.rankings)} topics>"

    @property
    def table(self) -> pd.DataFrame:
        """One row per topic and subject, best first in each: `Ranking.table` and the gain."""
        parts = [
            ranking.table.assign(topic=topic, n_topic_items=self.n_items[topic])
            for topic, ranking in self.rankings.items()
        ]
        whole = pd.concat(parts, ignore_index=True)
        whole = whole.merge(self.gains, "left", on=["topic", "subject"])
        first = ["topic", "subject"]
        return whole[[*first, *(name for name in whole if name not in first)]]

    def named(self, topic: str, certain: str) -> list[str]:
        """Return who certainly gains, or loses, in a topic, most first."""
        rows = self.gains[(self.gains["topic"] == topic) & (self.gains["certain"] == certain)]
        order = rows["gain"].abs().sort_values(ascending=False, kind="stable").index
        return [str(name) for name in rows.loc[order, "subject"]]

    def to_text(self) -> str:
        """Return who gains or loses by topic, and what was left out."""
        return " ".join([self._gains_in_words(), *self._undecided(), *self.notes])

    def _gains_in_words(self) -> str:
        sure = self.gains[self.gains["certain"] != ""]
        if not len(sure):
            if self.gains.empty:
                return "Gains and losses by topic are not known."
            return "No subject certainly gains or loses by topic."
        if self.gains["topic"].nunique() == 2:  # a loss in one is a gain in the other
            sure = sure[sure["certain"] == GAINS]
        order = sure["gain"].abs().sort_values(ascending=False, kind="stable").index
        clauses = [_in_words(row) for row in sure.loc[order[:_MOST_NAMED]].to_dict("records")]
        more = len(sure) - len(clauses)
        rest = f"; and {more:,} more" if more else ""
        return f"Certain (simultaneous 90% over topics and subjects): {'; '.join(clauses)}{rest}."

    def _undecided(self) -> list[str]:
        """Return a sentence for topics whose items tell nobody apart."""
        flat = [t for t, r in self.rankings.items() if r.sound and r.summary["tier"].max() == 1]
        if not flat:
            return []
        named = [f"{one_line(x, 40)} ({counted(self.n_items[x], 'item')})" for x in flat]
        topics = first_few(named, _MOST_NAMED)
        return [f"Too few items to tell anybody from the leader: {topics}."]


def _in_words(row: Mapping[str, object]) -> str:
    ranks = [
        f"{row[name]} ({row[f'{name}_low']} to {row[f'{name}_high']})"
        for name in ("rank_there", "rank_elsewhere")
    ]
    return (
        f"{one_line(str(row['subject']), 60)} {row['certain']} in {one_line(str(row['topic']), 40)}"
        f": rank {ranks[0]}, elsewhere {ranks[1]}"
    )


def gains_by_topic(
    theta: Mapping[str, NDArray[np.floating]], subjects: Mapping[str, list[str]]
) -> pd.DataFrame:
    """Compare each subject's ability in a topic with the mean of its others.

    `theta` has draws of abilities by topic, shape (sample, subject), from fits to answers that no
    two topics share: given the subjects' abilities these are independent, and so are the draws,
    each standardised among the subjects that all topics have. A subject's ability in a topic is
    assumed to be unrelated to its others, so intervals are rather wide if abilities are correlated.
    All topics and subjects are judged at once: with c the 90% quantile over draws of
    max |δ - mean δ| / sd δ, a gain δ is certain if its mean is more than c sd from 0.
    """
    common = sorted(set.intersection(*map(set, subjects.values()))) if len(subjects) > 1 else []
    if len(common) < 2:
        return pd.DataFrame(columns=list(_GAIN_COLUMNS))
    n_draws = min(_MOST_DRAWS, *(len(draws) for draws in theta.values()))
    abilities = {}
    for topic, draws in theta.items():
        positions = {name: k for k, name in enumerate(subjects[topic])}
        rows = np.linspace(0, len(draws) - 1, n_draws).astype(int)
        chosen = draws[rows][:, [positions[name] for name in common]]
        abilities[topic] = standardised({"theta": chosen})["theta"]
    total, others = sum(abilities.values()), len(abilities) - 1
    tables, farthest = [], np.zeros(n_draws)
    for topic, ability in abilities.items():
        elsewhere = (total - ability) / others
        gain = ability - elsewhere
        mean, sd = gain.mean(0), np.maximum(gain.std(0, ddof=1), _TINY)
        farthest = np.maximum(farthest, np.abs((gain - mean) / sd).max(1))
        columns = {
            "topic": topic, "subject": common, **mean_and_ends("gain", gain),
            **_ranks("rank_there", ability), **_ranks("rank_elsewhere", elsewhere),
            "certain": np.abs(mean / sd),
        }  # fmt: skip
        tables.append(pd.DataFrame(columns))
    table = pd.concat(tables, ignore_index=True)
    sure = table["certain"] > np.quantile(farthest, LEVEL)
    labels = np.where(table["gain"] > 0, GAINS, LOSES)
    return table.assign(certain=np.where(sure, labels, ""))


def _ranks(name: str, theta: NDArray[np.floating]) -> dict[str, NDArray[np.int64]]:
    ranks = np.quantile(ranks_of_draws(theta), [0.5, *TAILS], axis=0, method="inverted_cdf").astype(
        int
    )
    return dict(zip((name, f"{name}_low", f"{name}_high"), ranks, strict=True))
