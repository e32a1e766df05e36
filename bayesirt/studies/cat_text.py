"""What the adaptive-testing study says in words."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayesirt.posterior import LEVEL
from bayesirt.studies.cat_banks import BANKS

METHOD_NAMES = {
    "information": "most information",
    "variance": "least variance",
    "fixed": "the same items for all",
    "random": "random items",
}
_ADAPTIVE = ("information", "variance")
NOTES = (
    "The same items for all are those that are best before any answer, so they are a short form "
    "that was chosen with care, and no adversary made of straw.",
    "Subjects of one bank share its calibration, which the standard errors leave out.",
)


def study_in_words(lengths: pd.DataFrame, stops: pd.DataFrame) -> list[str]:
    """Return the verdict, a few sentences a line."""
    lines = []
    for model, title in BANKS.items():
        own, ends = lengths[lengths["model"] == model], stops[stops["model"] == model]
        if len(own):
            lines += [*_on_lengths(title, own), *_on_stops(title, ends), _on_coverage(title, own)]
    return [*lines, *(f"Note: {note}" for note in NOTES)]


def _on_lengths(title: str, own: pd.DataFrame) -> Iterator[str]:
    last = int(own["answers"].max())
    half = own[own["answers"] == last // 2].set_index("method")
    errors = ", ".join(
        f"{METHOD_NAMES[str(method)]} {row['rmse']:.3f} ± {row['rmse_se']:.3f}"
        for method, row in half.iterrows()
    )
    yield f"{title}, {last // 2} answers: error (RMSE) of ability by {errors}."
    width = half.loc[list(_ADAPTIVE), "width"].min()
    needed = []
    for method in ("fixed", "random"):
        reached = own[(own["method"] == method) & (own["width"] <= width)]["answers"]
        count = f"{int(reached.min())}" if len(reached) else f"more than {last}"
        needed.append(f"{METHOD_NAMES[method]}, {count}")
    yield (
        f"{title}: the mean width of {width:.2f} that an adaptive test reaches with {last // 2} "
        f"answers takes, with {' answers; with '.join(needed)} answers."
    )


def _on_stops(title: str, ends: pd.DataFrame) -> Iterator[str]:
    for width, own in ends.groupby("stop_width", sort=False):
        rows = own.set_index("method")
        if not rows["share"].max():
            continue
        counts = ", ".join(
            f"{METHOD_NAMES[str(method)]} {_median(row)}" for method, row in rows.iterrows()
        )
        held = rows.loc[list(_ADAPTIVE), "coverage"].mean()
        yield (
            f"{title}, until the interval is shorter than {width:g}: answers of the median subject "
            f"by {counts}. Where the adaptive tests stopped, {held:.0%} of the intervals held the "
            f"truth."
        )


def _median(row: pd.Series) -> str:
    if np.isnan(row["answers"]):
        return f"not reached (by {row['share']:.0%})"
    return f"{row['answers']:.0f}"


def _on_coverage(title: str, own: pd.DataFrame) -> str:
    begun = own[own["answers"] > 0]
    mean = begun["coverage"].mean()
    adaptive = begun[begun["method"].isin(_ADAPTIVE)]["coverage"]
    off = (begun["coverage"] - LEVEL).abs() > 3 * begun["coverage_se"]
    verdict = (
        "Adaptive tests save answers, and on average their intervals hold within three of these"
        if abs(adaptive.mean() - LEVEL) <= 3 * begun["coverage_se"].mean()
        else "The intervals of adaptive tests do not hold as often as they say"
    )
    return (
        f"{title}: {LEVEL:.0%} intervals cover {mean:.1%} of the abilities on average over methods "
        f"and lengths, {adaptive.mean():.1%} in adaptive tests (from {adaptive.min():.1%} to "
        f"{adaptive.max():.1%}, each with a standard error of about "
        f"{begun['coverage_se'].mean():.1%}); {off.sum()} of {len(off)} are off by more than three "
        f"standard errors. {verdict}."
    )
