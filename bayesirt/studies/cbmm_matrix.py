"""What cBMM says of one matrix: ranking against accuracy, difficulty against human level."""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray
from scipy.stats import rankdata

from bayesirt.data.responses import Responses
from bayesirt.studies.cbmm_conditions import Condition, draw_suite
from bayesirt.studies.cbmm_methods import Fit, fit_timed
from bayesirt.studies.cbmm_tasks import STEPS, TOP_SHARE, accuracy_of, agreement, variation
from bayesirt.studies.measures import TAILS, spearman

SIMULATED_SIZE = (140, 500)
"""Of the paper's MATH-500."""

_RESAMPLES = 1000


@dataclass(frozen=True)
class MatrixLook:
    """A matrix by both steps of cBMM."""

    size: tuple[int, int]
    simulated: bool  # Whether the matrix is drawn from the paper's design, for want of a real one.
    # One row a method and scope (all, or the top 20% by accuracy): subjects, coefficient of
    # variation of a, rho of ability and accuracy, iterations, convergence, log likelihood.
    agreement: pd.DataFrame
    subjects: pd.DataFrame  # One row a method and subject: accuracy, theta and the rank by each.
    # One row a method and level: items, share wrong, and quartiles of -d and of b. Empty where the
    # items carry no numeric ``level``.
    levels: pd.DataFrame
    # One row a method and measure of difficulty: items, rho with the level and its 90% interval.
    level_rho: pd.DataFrame
    items: pd.DataFrame  # One row a method and item: level, share wrong, -d and b.


def simulated_matrix(rng: np.random.Generator, size: tuple[int, int]) -> Responses:
    """Draw a matrix from the paper's design."""
    return draw_suite(Condition("base", 0.0, *size), rng).responses


def look_at(responses: Responses, *, key: Array, simulated: bool = False) -> MatrixLook:
    """Fit a matrix by both steps, and hold the fits against accuracy and level."""
    fit_key, bootstrap_key = jax.random.split(key)
    fits: dict[str, Fit] = {step: fit_timed(step, responses, key=fit_key) for step in STEPS}
    level = levels_of(responses)
    items = pd.DataFrame() if level is None else _item_rows(responses, fits, level)
    seed = np.asarray(jax.random.key_data(bootstrap_key)).tolist()
    return MatrixLook(
        responses.cells.shape,
        simulated,
        pd.DataFrame(_agreement_rows(responses, fits)),
        pd.concat([_subject_rows(responses, name, fit) for name, fit in fits.items()]),
        level_table(items),
        level_correlations(items, np.random.default_rng(seed)),
        items,
    )


def levels_of(responses: Responses) -> NDArray[np.float64] | None:
    """Return the items' human level, where they carry a numeric column of that name."""
    names = [c for c in responses.item_metadata.columns if str(c).strip().lower() == "level"]
    if not names:
        return None
    level = pd.to_numeric(responses.item_metadata[names[0]], errors="coerce").to_numpy(float)
    return level if np.isfinite(level).all() and np.ptp(level) > 0 else None


def level_table(items: pd.DataFrame) -> pd.DataFrame:
    """Return by method and level the share wrong and the quartiles of -d and b."""
    rows = []
    for place, own in items.groupby(["method", "level"], sort=False) if len(items) else ():
        row = {"method": place[0], "level": place[1], "items": len(own)}
        row["wrong"] = own["wrong"].mean()
        for name in ("minus_d", "b"):
            quartiles = own[name].dropna().quantile([0.25, 0.5, 0.75])
            row |= dict(zip((f"{name}_low", name, f"{name}_high"), quartiles, strict=True))
        rows.append(row)
    table = pd.DataFrame(rows)
    return table.sort_values(["method", "level"], ignore_index=True) if rows else table


def level_correlations(items: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return Spearman's ρ of measures of difficulty with the level; without a b where a = 0.

    Intervals are percentiles over items drawn again with replacement.
    """
    rows = []
    for method, own in items.groupby("method", sort=False) if len(items) else ():
        for name in ("minus_d", "b", "wrong"):
            pairs = own[["level", name]].dropna().to_numpy()
            drawn = pairs[rng.integers(0, len(pairs), (_RESAMPLES, len(pairs)))]
            spread = [float(spearman(sample[:, 0], sample[:, 1])) for sample in drawn]
            told = [x for x in spread if np.isfinite(x)]
            low, high = np.quantile(told, TAILS) if told else (np.nan, np.nan)
            rho = float(spearman(pairs[:, 0], pairs[:, 1]))
            rows.append((method, name, len(pairs), rho, float(low), float(high)))
    return pd.DataFrame(rows, columns=["method", "measure", "items", "rho", "low", "high"])


def _agreement_rows(responses: Responses, fits: dict[str, Fit]) -> Iterator[dict[str, object]]:
    accuracy = accuracy_of(responses)
    for name, fit in fits.items():
        every, top = agreement(fit.theta, accuracy)
        for scope, rho, share in (("all", every, 1.0), ("top 20%", top, TOP_SHARE)):
            yield {
                "method": name,
                "scope": scope,
                "subjects": max(2, round(share * len(accuracy))),
                "cv_a": variation(fit.a),
                "rho": rho,
                "iterations": fit.point.iterations,
                "converged": fit.point.converged,
                "log_likelihood": fit.point.log_likelihood,
                "seconds": fit.seconds,
            }


def _subject_rows(responses: Responses, name: str, fit: Fit) -> pd.DataFrame:
    accuracy = accuracy_of(responses)
    table = pd.DataFrame({
        "method": name,
        "subject": responses.subjects,
        "accuracy": accuracy,
        "theta": fit.theta,
        "rank_accuracy": rankdata(-accuracy, method="min"),
        "rank_theta": rankdata(-fit.theta, method="min"),
    })  # fmt: skip
    return table.sort_values("rank_theta", kind="stable", ignore_index=True)


def _item_rows(
    responses: Responses, fits: dict[str, Fit], level: NDArray[np.float64]
) -> pd.DataFrame:
    successes, trials, _ = responses.cells.totals(0)
    parts = []
    for name, fit in fits.items():
        b = np.divide(-fit.d, fit.a, out=np.full_like(fit.d, np.nan), where=fit.a > 0)
        parts.append(pd.DataFrame({
            "method": name, "item": responses.items, "level": level,
            "wrong": 1 - successes / trials, "minus_d": -fit.d, "b": b,
        }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)
