"""Ability profiles made from given draws, without sampling."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.models.q_mirt import DIMS, Structure
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import LEVEL, Posterior
from bayesirt.profiles.ability_profiles import profile_abilities
from bayesirt.profiles.item_prediction import ItemPredictions
from bayesirt.profiles.profile_run import ProfileRun, ProfileSettings, notes_on
from bayesirt.ranking.record import Record, facts_of, versions

HOSTILE = (r"a$\bad$", "cost $5 vs $6_{", "<script>alert(1)</script>", "&amp;", "二进制\u202eevil")
CHAINS, DRAWS = 2, 300


def fake_profile_run(
    n_subjects: int = 12,
    n_abilities: int = 5,
    n_items: int = 60,
    *,
    subjects: tuple[str, ...] = (),
    abilities: tuple[str, ...] = (),
    structure: Structure = "correlated",
    n_new: int = 0,
    best: float = 0.95,
    worst: float = 0.3,
    seed: int = 0,
) -> ProfileRun:
    """Return profiles of made-up draws.

    The first ability is needed by most items and known best; the last rests on the prior as long
    as `worst` is below half. Names given replace the first ones.
    """
    rng = np.random.default_rng(seed)
    names = _named("ability", n_abilities, abilities)
    q = _q_matrix(rng, n_items, names)
    answers = rng.integers(0, 2, (n_subjects, n_items))
    responses = Responses.from_arrays(answers, subjects=_named("subject", n_subjects, subjects))
    posterior = _posterior(rng, responses, q, structure, np.linspace(best, worst, n_abilities))
    settings = ProfileSettings(chains=CHAINS, warmup=100, draws=DRAWS, structure=structure)
    diagnostics: dict[str, Any] = asdict(posterior.verdict) | {
        "engine": "blocked",
        "point_estimator": "EM",
        "point_converged": True,
    }
    data = facts_of(responses, None)
    record = Record(settings, data, versions(), {"posterior": 1.5}, diagnostics)
    point = PointEstimate(xr.Dataset(), -1.0, 1, True, "made up", np.zeros(2), {"estimator": "EM"})
    predictions = _predictions(rng, responses, n_new) if n_new else None
    profiles = profile_abilities(posterior, q)
    return ProfileRun(q, point, posterior, profiles, predictions, notes_on(q, q), record)


def _named(kind: str, n: int, first: tuple[str, ...]) -> list[str]:
    return [*first[:n], *(f"{kind} {k + 1}" for k in range(len(first), n))]


def _q_matrix(rng: np.random.Generator, n_items: int, abilities: list[str]) -> QMatrix:
    """Return a matrix where many items need the first abilities, and few the last."""
    n = len(abilities)
    needs = rng.uniform(size=(n_items, n)) < 0.5 * np.linspace(1, 0, n) ** 3
    needs[needs.sum(1) == 0, 0] = True
    needs[np.arange(n) % n_items, np.arange(n)] = True
    return QMatrix.from_arrays(needs.astype(int), abilities=abilities)


def _posterior(
    rng: np.random.Generator,
    responses: Responses,
    q: QMatrix,
    structure: Structure,
    reliability: np.ndarray,
) -> Posterior:
    n, k = responses.n_subjects, q.n_abilities
    shared = 0.0 if structure == "independent" else rng.uniform(0.2, 0.9, k)
    general, own = rng.normal(size=(n, 1)), rng.normal(size=(n, k))
    mean = (general * shared + own * np.sqrt(1 - shared**2)) * np.sqrt(reliability)
    shape = (CHAINS, DRAWS)
    samples = {
        "theta": mean + np.sqrt(1 - reliability) * rng.normal(size=(*shape, n, k)),
        "a": rng.lognormal(0, 0.3, (*shape, q.n_loadings)),
        "d": rng.normal(size=(*shape, q.n_items)),
        "beta": rng.normal(size=(*shape, k)),
        "mu_b": rng.normal(size=(*shape, k)),
        "mu_a": 0.1 * rng.normal(size=shape),
    }
    if structure != "independent" and k > 1:
        loading = np.clip(shared + 0.05 * rng.normal(size=(*shape, k)), -1, 1)
        correlation = loading[..., :, None] * loading[..., None, :]
        correlation[..., np.arange(k), np.arange(k)] = 1
        samples["correlation"] = correlation
    coords = {name: q.coords()[name] for name in ("ability", "ability_other", "loading")}
    attrs = {"model": "Q-matrix 2PL", "engine": "blocked", "structure": structure}
    return Posterior.from_samples(samples, {}, responses, attrs, coords=coords, dims=DIMS)


def _predictions(rng: np.random.Generator, responses: Responses, n_new: int) -> ItemPredictions:
    p = rng.uniform(0.1, 0.9, (responses.n_subjects, n_new))
    half = (1 - p) * p * LEVEL
    scores = pd.DataFrame({"subject": list(responses.subjects), "score": p.mean(1)})
    scores["low"], scores["high"] = scores["score"] - 0.1, scores["score"] + 0.1
    scores = scores.sort_values("score", ascending=False, ignore_index=True)
    new = tuple(f"new {j + 1}" for j in range(n_new))
    return ItemPredictions(tuple(responses.subjects), new, p, p - half, p + half, scores)
