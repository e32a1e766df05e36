"""What the tables of the abilities study say, in words: simulations, criteria, consistency."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayesirt.posterior import LEVEL
from bayesirt.studies.abilities_consistency import ESTIMATES, MORE_THAN
from bayesirt.studies.abilities_coverage import QUANTITIES
from bayesirt.studies.abilities_matrix import CORRELATION, AbilityMatrix
from bayesirt.studies.study_rows import read_printed

MODELS = ("q-mirt", "neural")

_MOST_FINDINGS = 3


def printed(table: str, quantity: str, place: str) -> float:
    """Return a figure that Zhang et al. (2026) print."""
    rows = read_printed("abilities_printed").set_index(["table", "quantity", "place"])["value"]
    return float(rows[table, quantity, place])


def on_matrix(matrix: AbilityMatrix) -> str:
    """Return what is looked at, in a sentence."""
    counts = matrix.q.needs.sum(0)
    most = counts.max() / matrix.q.n_items
    size = (
        f"{matrix.responses.n_subjects:,} subjects x {matrix.responses.n_items:,} items that need "
        f"{matrix.q.n_abilities} abilities, {int((counts > MORE_THAN).sum())} of them needed by "
        f"more than {MORE_THAN} items and one by {most:.0%} of the items"
    )
    if matrix.truth is None:
        return f"The given matrix: {size}."
    return (
        f"A simulated matrix: {size}, with the paper's shares of items (Table 3, MMLU-MATH). Each "
        f"pair of abilities correlates by {CORRELATION}; what an ability adds to an item's "
        f"intercept has a standard deviation of {float(matrix.truth['sigma_beta']):.1f} logits, "
        f"what is the item's own {float(matrix.truth['sigma_d']):.1f}."
    )


def on_findings(matrix: AbilityMatrix) -> Iterator[str]:
    """Yield what keeps abilities from being told apart, the first few findings."""
    findings = matrix.q.findings()
    for finding in findings[:_MOST_FINDINGS]:
        yield f"The Q-matrix: {finding}."
    if len(findings) > _MOST_FINDINGS:
        yield f"The Q-matrix: {len(findings) - _MOST_FINDINGS} more findings of this kind."


def on_coverage(coverage: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence for each size of simulated suites."""
    if coverage.empty:
        return
    for size, own in coverage.groupby(["n_subjects", "n_items", "n_abilities"], sort=False):
        rows = own.set_index("quantity")
        shares = ", ".join(
            f"{rows.loc[name, 'coverage']:.1%} ({rows.loc[name, 'low']:.1%} to "
            f"{rows.loc[name, 'high']:.1%}) of {words}"
            for name, words in QUANTITIES.items()
            if name in rows.index
        )
        off = own[(own["low"] > LEVEL) | (own["high"] < LEVEL)]["quantity"]
        verdict = (
            "All bounds hold 90%" if off.empty
            else f"The bounds for {' and '.join(QUANTITIES[name] for name in off)} miss 90%"
        )  # fmt: skip
        first = own.iloc[0]
        yield (
            f"{first['suites']:.0f} suites of {size[0]:.0f} x {size[1]:.0f} with {size[2]:.0f} "
            f"abilities, drawn from the model itself: {LEVEL:.0%} intervals cover {shares}, with "
            f"95% bounds between suites. {verdict}. Posterior means of abilities correlate "
            f"by {first['rho_theta']:.2f} with the truth; {first['r_hat_above']:.1%} of the R-hats "
            f"are above 1.01, the highest is {first['r_hat_highest']:.3f}."
        )


def on_criterion(criterion: pd.DataFrame) -> Iterator[str]:
    """Yield what abilities have to do with accuracy, and with the truth."""
    if criterion.empty:
        yield f"No ability is needed by more than {MORE_THAN} items: no criterion is counted."
        return
    rows = criterion.set_index(["criterion", "method"])
    for name in MODELS:
        found = rows.loc["the same items", name]
        yield (
            f"Criterion of the paper, accuracy on the same items, {ESTIMATES[name]}: of "
            f"{_abilities(found)} with more than {MORE_THAN} items {found['strong']:.0f} are "
            f"strong (rho > .7), {found['moderate']:.0f} moderate, {found['weak']:.0f} weak and "
            f"{found['none']:.0f} none of these; median rho {found['median_rho']:.2f}."
        )
    shares = ", ".join(
        f"{printed('criterion', 'moderate at least', place):.0f} of "
        f"{printed('criterion', 'abilities', place):.0f} moderate at least in {place}"
        for place in ("chemistry", "physics", "computer science")
    )
    everything = rows.loc["the same items", "overall"]
    strong = printed("criterion", "strong in two benchmarks at least", "mathematics")
    n = printed("criterion", "abilities", "mathematics")
    yield (
        f"The paper: {strong:.0f} of {n:.0f} strong in two of three benchmarks, {shares}. This "
        f"criterion is circular: the same answers make the ability and the accuracy. And it does "
        f"not need the ability: the subject's accuracy on all items has a median rho of "
        f"{everything['median_rho']:.2f} and is strong for {everything['strong']:.0f} of "
        f"{everything['abilities']:.0f}."
    )
    yield from _on_held_out(rows)


def _on_held_out(rows: pd.DataFrame) -> Iterator[str]:
    names = {
        "held-out items": "On held-out items, from half of the items to the other half",
        "true ability": "With the true ability",
    }
    for what, words in names.items():
        known = [name for name in ESTIMATES if (what, name) in rows.index]
        if known:
            medians = ", ".join(
                f"{rows.loc[(what, name), 'median_rho']:.2f} by {ESTIMATES[name]}" for name in known
            )
            n = _abilities(rows.loc[(what, known[0])])
            yield f"{words}, median rho over {n}: {medians}."


def on_consistency(consistency: pd.DataFrame) -> Iterator[str]:
    """Yield how well abilities from different items agree."""
    if consistency.empty:
        yield f"No ability has more than {MORE_THAN} items on both sides to be consistent in."
        return
    for pair, own in consistency.groupby("items", sort=False):
        rows = own.set_index("method")
        said = ", ".join(
            f"{rows.loc[name, 'median_rho']:.2f} and {rows.loc[name, 'share_moderate']:.0%} by "
            f"{ESTIMATES[name]}"
            for name in ("q-mirt", "neural", "shares")
            if name in rows.index
        )
        first = rows.iloc[0]
        yield (
            f"Consistency, {pair}, {_abilities(first)} with more than {MORE_THAN} "
            f"items on both sides: median rho and share above .5 are {said} (paper "
            f"{printed('consistency', 'median rho', 'benchmark pairs'):.2f} and "
            f"{printed('consistency', 'share above 0.5', 'benchmark pairs'):.0%})."
        )
        if "q-mirt" in rows.index and np.isfinite(rows.loc["q-mirt", "median_rho_others"]):
            yield _on_others(rows.loc["q-mirt"], rows.loc["overall", "median_rho"])


def _abilities(row: pd.Series) -> str:
    return "1 ability" if row["abilities"] == 1 else f"{row['abilities']:.0f} abilities"


def _on_others(row: pd.Series, overall: float) -> str:
    gap = row["median_rho"] - row["median_rho_others"]
    return (
        f"But by Q-mIRT an ability has a median rho of {row['median_rho_others']:.2f} with the "
        f"other abilities of the other side, {abs(gap):.2f} {'less' if gap >= 0 else 'more'} than "
        f"with itself, and accuracy on all items one of {overall:.2f} with itself: what is "
        f"consistent is {'mostly' if gap < row['median_rho'] / 2 else 'only partly'} what "
        f"abilities have in common."
    )
