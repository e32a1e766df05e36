"""Rankings by topic as a file, for runs that are opened again."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.scales import stored_scale
from bayesirt.ranking.simple_averages import AverageCheck
from bayesirt.ranking.subject_ranking import Ranking
from bayesirt.ranking.topic_rankings import TopicRankings

_TOLD, _GAINS, _PAIRS, _RANKS = "told", "gains", "pairwise", "rank_probabilities"
_Arrays = Mapping[str, NDArray[Any]]


def save_topics(topics: TopicRankings, path: Path) -> None:
    """Write a NumPy archive that `load_topics` reads: hundreds of small tables in one file."""
    arrays = _arrays_of(_GAINS, topics.gains)
    for k, ranking in enumerate(topics.rankings.values()):
        arrays |= _arrays_of(str(k), ranking.summary)
        arrays[f"{_PAIRS}/{k}"] = ranking.pairwise.to_numpy()
        arrays[f"{_RANKS}/{k}"] = ranking.rank_probabilities
    facts = {
        "by": topics.by,
        "notes": topics.notes,
        "rankings": [
            {
                "topic": topic,
                "n_items": topics.n_items[topic],
                "average": asdict(ranking.average),
                "warnings": ranking.warnings,
                "sound": ranking.sound,
                "answers": json.dumps(asdict(ranking.answers)) if ranking.answers else "",
            }
            for topic, ranking in topics.rankings.items()
        ],
    }
    arrays[_TOLD] = np.array(json.dumps(facts))
    np.savez_compressed(path, **arrays)


def load_topics(path: Path) -> TopicRankings:
    """Read what `save_topics` wrote."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    facts = json.loads(str(arrays[_TOLD]))
    return TopicRankings(
        facts["by"],
        {row["topic"]: _ranking_of(k, arrays, row) for k, row in enumerate(facts["rankings"])},
        {row["topic"]: row["n_items"] for row in facts["rankings"]},
        _table_of(_GAINS, arrays),
        tuple(facts["notes"]),
    )


def _ranking_of(k: int, arrays: _Arrays, record: Mapping[str, Any]) -> Ranking:
    summary = _table_of(str(k), arrays)
    names = summary["subject"].to_numpy()
    return Ranking(
        summary,
        pd.DataFrame(arrays[f"{_PAIRS}/{k}"], index=names, columns=names),
        arrays[f"{_RANKS}/{k}"],
        AverageCheck(**record["average"]),
        tuple(record["warnings"]),
        record["sound"],
        answers=stored_scale(record["answers"]),
    )


def _arrays_of(name: str, table: pd.DataFrame) -> dict[str, Any]:
    """Return a table's columns, those of objects as text."""
    columns = ((column, values.to_numpy()) for column, values in table.items())
    return {f"{name}/{c}": x.astype(str) if x.dtype == object else x for c, x in columns}


def _table_of(name: str, arrays: _Arrays) -> pd.DataFrame:
    raw = {
        key.removeprefix(f"{name}/"): x for key, x in arrays.items() if key.startswith(f"{name}/")
    }
    return pd.DataFrame({c: x.astype(object) if x.dtype.kind == "U" else x for c, x in raw.items()})
