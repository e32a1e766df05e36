"""What Qu et al. (2026) print in words, beside the same figures here."""

import numpy as np
import pandas as pd

from bayesirt.studies.study_rows import read_printed

_SIZES = "from {:.0f} to {:.0f} items"


def claim_table(recovery: pd.DataFrame, redundancy: pd.DataFrame) -> pd.DataFrame:
    """Return the paper's printed figures beside ours; of times, only ratios.

    One row a figure: the paper's, ours (NaN where nothing here answers to it), and what ours is.
    """
    table = read_printed("cbmm_printed")
    here = {"growth": _growth(recovery, "mm"), "recall": _lowest_recall(redundancy)}
    for claim, factors in (("speedup_simulated", None), ("speedup_mcar", ["mcar"])):
        here[claim] = _largest_ratio(recovery, factors)
    ours = [here.get(claim, (np.nan, "not run here")) for claim in table["claim"]]
    table = table.assign(here=[x for x, _ in ours], here_is=[words for _, words in ours])
    newton = _growth(recovery, "newton")
    table.loc[len(table)] = {
        "claim": "growth_newton", "quantity": "time's growth with items by Newton", "source": "",
        "here": newton[0], "here_is": newton[1],
    }  # fmt: skip
    return table


def _growth(recovery: pd.DataFrame, method: str) -> tuple[float, str]:
    wide = recovery[recovery["factor"].isin(["items", "base"]) & (recovery["method"] == method)]
    if wide["n_items"].nunique() < 2:
        return np.nan, "not run here"
    few, many = wide.loc[wide["n_items"].idxmin()], wide.loc[wide["n_items"].idxmax()]
    words = f"{_SIZES.format(few['n_items'], many['n_items'])}, {few['n_subjects']:.0f} subjects"
    return float(many["seconds"] / few["seconds"]), words


def _lowest_recall(redundancy: pd.DataFrame) -> tuple[float, str]:
    if not len(redundancy):
        return np.nan, "not run here"
    rows = redundancy[redundancy["rule"] == "mm: a = 0"]
    return float(rows["paper_recall"].min()), "lowest over sparsities, MM"


def _largest_ratio(recovery: pd.DataFrame, factors: list[str] | None) -> tuple[float, str]:
    rows = recovery if factors is None else recovery[recovery["factor"].isin(factors)]
    rows = rows[~rows["method"].isin(["mm", "newton"])]
    if not len(rows):
        return np.nan, "not run here"
    most = rows.loc[rows["time_ratio"].idxmax()]
    return float(most["time_ratio"]), f"{most['method']} over mm, errors of the items included"
