"""Tables of the adaptive-testing study."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayesirt.studies.cat_tests import METHODS

_TYPICAL = 0.5
"""Share of the subjects that have stopped at the typical number of answers."""


def length_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return error, width and coverage by model, method and number of answers.

    Standard errors are over subjects; that these share a calibration is left out.
    """
    rows = []
    for place, own in _groups(replications, "answers"):
        n, mean = own["subjects"].sum(), np.average(own["squared_error"], weights=own["subjects"])
        spread = np.sqrt(np.average(own["squared_error_sd"] ** 2, weights=own["subjects"]) / n)
        coverage = np.average(own["covered"], weights=own["subjects"])
        rows.append(
            place
            | {
                "subjects": int(n),
                "rmse": np.sqrt(mean),
                "rmse_se": spread / (2 * np.sqrt(mean)),
                "width": np.average(own["width"], weights=own["subjects"]),
                "coverage": coverage,
                "coverage_se": np.sqrt(coverage * (1 - coverage) / n),
            }
        )
    return pd.DataFrame(rows)


def stop_table(replications: pd.DataFrame, stops: tuple[float, ...]) -> pd.DataFrame:
    """Return how many answers it takes until the interval is short enough.

    `answers` is the median over all subjects, NaN where fewer than half stopped; `mean_answers`
    counts those who never stopped with the whole test.
    """
    rows = []
    for place, own in _groups(replications):
        for width in stops:
            stopped, held = (
                own.groupby("answers")[f"{name}_{width:g}"].mean() for name in ("stopped", "held")
            )
            enough = stopped.index[stopped >= _TYPICAL]
            share = float(stopped.iloc[-1])
            rows.append(
                place
                | {
                    "stop_width": width,
                    "share": share,
                    "answers": float(enough[0]) if len(enough) else np.nan,
                    "mean_answers": float((1 - stopped.iloc[:-1]).sum()),
                    "coverage": float(held.iloc[-1]) / share if share else np.nan,
                }
            )
    return pd.DataFrame(rows)


def _groups(
    replications: pd.DataFrame, *more: str
) -> Iterator[tuple[dict[str, object], pd.DataFrame]]:
    """Yield the rows of each model and method, in the study's order, and what they share."""
    by = ["model", "method", *more]
    place = replications["method"].map({name: k for k, name in enumerate(METHODS)})
    ordered = replications.assign(place=place).sort_values(["model", "place"], kind="stable")
    for values, own in ordered.groupby(by, sort=False):
        yield dict(zip(by, values, strict=True)), own
