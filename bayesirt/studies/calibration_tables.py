"""What the replications of a calibration study say, as tables with a verdict in words."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm, t

from bayesirt.posterior import LEVEL
from bayesirt.studies.rank_ecdf import uniformity_p_value
from bayesirt.studies.replication import GROUPS, LEVELS, QUANTITIES
from bayesirt.studies.study_rows import groups_of

CELL = ["engine", "n_subjects", "n_items"]
CALIBRATED = "calibrated"
SLACK = 0.05
"""Intervals that cover less than they say by no more than this may be trusted."""

_CLEAR = 3.0
_SIDES = ("below", "in", "above")


def rank_table(replications: pd.DataFrame, kept: int, false_alarm: float) -> pd.DataFrame:
    """Return whether ranks are uniform, by engine, size and quantity.

    `dependent` replications have a smaller ESS than draws were kept; `shift` and `spread` are z
    scores, positive where the truth lies above the draws, and out in their tails.
    """
    names = [q for q in QUANTITIES if f"rank_{q}" in replications]
    rows = []
    for cell, runs in groups_of(replications, CELL):
        sound = runs[runs["failed"] == ""]
        for name in names if len(sound) else []:
            ranks = sound[f"rank_{name}"].to_numpy().astype(np.int64)
            shift, spread = _moments(ranks, kept)
            rows.append({
                **cell, "quantity": name, "replications": len(ranks),
                "failed": len(runs) - len(ranks),
                "dependent": int((sound[f"ess_{name}"] < kept).sum()),
                "ties": int(sound[f"ties_{name}"].sum()),
                "p_value": uniformity_p_value(ranks, kept), "shift": shift, "spread": spread,
            })  # fmt: skip
    table = pd.DataFrame(rows)
    if len(table):
        fails = table["p_value"] < false_alarm / len(table)
        table["verdict"] = [
            _direction(row.shift, row.spread) if fail else CALIBRATED
            for row, fail in zip(table.itertuples(), fails, strict=True)
        ]
    return table


def coverage_table(replications: pd.DataFrame, false_alarm: float) -> pd.DataFrame:
    """Return how often intervals cover the truth, by engine, size, group and level.

    Members of one replication share their data, so the standard error is that of a ratio of sums
    over replications; it is never below what independent members would have at the interval's
    level, which matters where few are. `skew` is the z score of truths above less those below.
    """
    rows = []
    for cell, runs in groups_of(replications, CELL):
        sound = runs[runs["failed"] == ""]
        for name in (g for g in GROUPS if f"members_{g}" in replications):
            members = sound[f"members_{name}"].to_numpy()
            if members.sum() == 0:
                continue
            for level in LEVELS:
                counts = [sound[f"{side}{level:.0%}_{name}"].to_numpy() for side in _SIDES]
                place = cell | {"group": name, "level": level}
                rows.append(place | _shares(counts, members, level))
    table = pd.DataFrame(rows)
    if len(table):
        limit = t.isf(false_alarm / len(table) / 2, table["replications"] - 1)
        z = (table["coverage"] - table["level"]) / table["se"]
        table["verdict"] = [_of_coverage(*row) for row in zip(z, limit, table["skew"], strict=True)]
    return table


def trust_table(coverage: pd.DataFrame) -> pd.DataFrame:
    """Return from which studied size on each engine's 90% intervals may be trusted.

    There, and at every larger size, the 95% interval of the coverage lies above 85%.
    """
    if not len(coverage):
        return pd.DataFrame(columns=["engine", "group", "n_subjects", "n_items"])
    rows = []
    for place, own in groups_of(coverage[coverage["level"] == LEVEL], ["engine", "group"]):
        by_size = own.assign(cells=own["n_subjects"] * own["n_items"]).sort_values("cells")
        holds = (by_size["low"] >= LEVEL - SLACK).to_numpy()
        first = len(holds) - int(np.logical_and.accumulate(holds[::-1]).sum())
        size = by_size[["n_subjects", "n_items"]].astype(float).shift(-first).iloc[0]
        rows.append(place | size.to_dict())
    return pd.DataFrame(rows)


def trusted_from(n_subjects: float, n_items: float) -> str:
    """Say from which size on intervals may be trusted."""
    if np.isnan(n_subjects):
        return "at none of the sizes"
    return f"from {n_subjects:.0f} x {n_items:.0f} on"


def _moments(ranks: NDArray[np.int64], kept: int) -> tuple[float, float]:
    """Return z scores of the mean and of the mean square of the ranks' normal scores."""
    scores = norm.ppf((np.arange(kept + 1) + 0.5) / (kept + 1))
    root = np.sqrt(len(ranks))
    squares = scores**2
    own = scores[ranks]
    shift = own.mean() / scores.std() * root
    centred = own**2 if abs(shift) < _CLEAR else (own - own.mean()) ** 2
    return float(shift), float((centred.mean() - squares.mean()) / squares.std() * root)


def _direction(shift: float, spread: float) -> str:
    """Say in which way ranks are not uniform; what is clear, or else what is clearer."""
    words = {
        "too narrow" if spread > 0 else "too wide": abs(spread),
        "biased low" if shift > 0 else "biased high": abs(shift),
    }
    clear = [word for word, size in words.items() if size >= _CLEAR]
    return " and ".join(clear) or max(words, key=lambda word: words[word])


def _of_coverage(z: float, limit: float, skew: float) -> str:
    """Say in which way intervals do not hold; misses on one side are a bias, on both narrowness."""
    if z > limit:
        return "too wide"
    if z >= -limit:
        return CALIBRATED
    if abs(skew) < _CLEAR:
        return "too narrow"
    return "biased low" if skew > 0 else "biased high"


def _shares(
    counts: Sequence[NDArray[np.floating]], members: NDArray[np.floating], level: float
) -> dict[str, float]:
    below, inside, above = counts
    total, held = members.sum(), int((members > 0).sum())
    covered, se = _ratio(inside, members)
    se = max(se, np.sqrt(level * (1 - level) / total))
    margin = t.ppf(0.975, held - 1) * se if held > 1 else np.inf
    surplus, surplus_se = _ratio(above - below, members)
    return {
        "replications": held, "members": int(total), "coverage": covered, "se": se,
        "low": max(0.0, covered - margin), "high": min(1.0, covered + margin),
        "below": below.sum() / total, "above": above.sum() / total,
        "skew": surplus / max(surplus_se, np.sqrt((1 - level) / total)),
    }  # fmt: skip


def _ratio(counts: NDArray[np.floating], members: NDArray[np.floating]) -> tuple[float, float]:
    """Return Σ counts / Σ members and its standard error, replications being independent."""
    share, held = counts.sum() / members.sum(), int((members > 0).sum())
    between = np.sum((counts - share * members) ** 2) * held / max(held - 1, 1)
    return float(share), float(np.sqrt(between) / members.sum())
