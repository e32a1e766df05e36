"""What cBMM says of one matrix: ranking against accuracy, difficulty against human level."""

from collections.abc import Mapping

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from scipy.stats import rankdata

from bayesirt.data.responses import Responses
from bayesirt.studies.cbmm_tasks import (
    STEPS,
    TOP_SHARE,
    Fit,
    accuracy_of,
    agreement,
    fit_timed,
    variation,
)
from bayesirt.studies.measures import TAILS, Floats, groups_of, spearman

MEASURES = {"minus_d": "-d", "b": "b = -d/a", "wrong": "the share wrong"}
"""Of an item's difficulty."""
_RESAMPLES = 1000


def look_at(responses: Responses, *, key: Array) -> dict[str, pd.DataFrame]:
    """Fit a matrix by both steps: tables, some empty where items carry no numeric level."""
    fit_key, bootstrap_key = jax.random.split(key)
    fits = {str(step): fit_timed(step, responses, key=fit_key) for step in STEPS}
    items = _item_table(responses, fits)
    seed = np.asarray(jax.random.key_data(bootstrap_key)).tolist()
    return {
        "agreement": _agreement_table(responses, fits),
        "ranks": pd.concat([_rank_table(responses, name, fit) for name, fit in fits.items()]),
        "items": items,
        "levels": level_table(items),
        "level_rho": level_correlations(items, np.random.default_rng(seed)),
    }


def levels_of(responses: Responses) -> Floats | None:
    """Return the items' human level, where they carry a numeric column of that name."""
    names = [c for c in responses.item_metadata.columns if str(c).strip().lower() == "level"]
    if not names:
        return None
    level = pd.to_numeric(responses.item_metadata[names[0]], errors="coerce").to_numpy(float)
    return level if np.isfinite(level).all() and np.ptp(level) > 0 else None


def level_table(items: pd.DataFrame) -> pd.DataFrame:
    """Return by method and level the share wrong and the quartiles of -d and b."""
    rows = []
    for place, own in groups_of(items, ["method", "level"]) if len(items) else ():
        row = place | {"items": len(own), "wrong": own["wrong"].mean()}
        for name in ("minus_d", "b"):
            quartiles = own[name].dropna().quantile([0.25, 0.5, 0.75])
            row |= dict(zip((f"{name}_low", name, f"{name}_high"), quartiles, strict=True))
        rows.append(row)
    table = pd.DataFrame(rows)
    return table.sort_values(["method", "level"], ignore_index=True) if rows else table


def level_correlations(items: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return Spearman's ρ of difficulty and level, with intervals from items drawn again."""
    rows = []
    for method, own in items.groupby("method", sort=False) if len(items) else ():
        for name in MEASURES:
            pairs = own[["level", name]].dropna().to_numpy()
            drawn = pairs[rng.integers(0, len(pairs), (_RESAMPLES, len(pairs)))]
            spread = np.array([float(spearman(*sample.T)) for sample in drawn])
            told = spread[np.isfinite(spread)]
            low, high = np.quantile(told, TAILS) if len(told) else (np.nan, np.nan)
            rho = float(spearman(*pairs.T))
            rows.append((method, name, len(pairs), rho, float(low), float(high)))
    return pd.DataFrame(rows, columns=["method", "measure", "items", "rho", "low", "high"])


def _agreement_table(responses: Responses, fits: Mapping[str, Fit]) -> pd.DataFrame:
    accuracy = accuracy_of(responses)
    rows = []
    for name, fit in fits.items():
        every, top = agreement(fit.theta, accuracy)
        for scope, rho, share in (("all", every, 1.0), ("top 20%", top, TOP_SHARE)):
            rows.append({
                "method": name, "scope": scope,
                "subjects": max(2, round(share * len(accuracy))), "cv_a": variation(fit.a),
                "rho": rho, "iterations": fit.point.iterations, "converged": fit.point.converged,
                "log_likelihood": fit.point.log_likelihood, "seconds": fit.seconds,
            })  # fmt: skip
    return pd.DataFrame(rows)


def _rank_table(responses: Responses, name: str, fit: Fit) -> pd.DataFrame:
    accuracy = accuracy_of(responses)
    table = pd.DataFrame({
        "method": name, "subject": responses.subjects, "accuracy": accuracy, "theta": fit.theta,
        "rank_accuracy": rankdata(-accuracy, method="min"),
        "rank_theta": rankdata(-fit.theta, method="min"),
    })  # fmt: skip
    return table.sort_values("rank_theta", kind="stable", ignore_index=True)


def _item_table(responses: Responses, fits: Mapping[str, Fit]) -> pd.DataFrame:
    level = levels_of(responses)
    if level is None:
        return pd.DataFrame()
    successes, trials, _ = responses.cells.totals(0)
    parts = []
    for name, fit in fits.items():
        b = np.divide(-fit.d, fit.a, out=np.full_like(fit.d, np.nan), where=fit.a > 0)
        parts.append(pd.DataFrame({
            "method": name, "item": responses.items, "level": level,
            "wrong": 1 - successes / trials, "minus_d": -fit.d, "b": b,
        }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)
