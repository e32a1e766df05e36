"""Sorting a ranking by accuracy, and by ability again."""

from dataclasses import replace

import numpy as np
import pandas as pd

from bayesirt.ranking.subject_ranking import SCORE_RANK, Ranking


def led_by_score(ranking: Ranking, warning: str) -> Ranking:
    """Return a ranking sorted by accuracy, for answers that one ability does not explain."""
    table = ranking.summary
    order = np.lexsort((-table["expected_score"], table[SCORE_RANK[0]]))
    return replace(
        ranking,
        summary=table.iloc[order].reset_index(drop=True),
        pairwise=ranking.pairwise.iloc[order, order],
        rank_probabilities=ranking.rank_probabilities[order],
        average=replace(ranking.average, one_ability=False),
        warnings=(*ranking.warnings, warning),
        by_score=True,
    )


def by_ability(summary: pd.DataFrame) -> pd.DataFrame:
    """Return a ranking's rows sorted by ability, whatever their order is."""
    return summary.sort_values(["rank", "ability"], ascending=[True, False], kind="stable")
