"""Closed-form intervals of abilities at a point estimate of LaRT or plain IRT."""

from typing import Literal

import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from scipy.stats import norm

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.likelihood.cell_sums import Layout, layout_of
from bayesirt.likelihood.families import family_named
from bayesirt.likelihood.latencies import latencies_of
from bayesirt.point_estimate import PointEstimate

IntervalKind = Literal["asymptotic", "finite"]
KINDS: tuple[IntervalKind, ...] = ("asymptotic", "finite")


def ability_intervals(
    point: PointEstimate,
    responses: Responses,
    *,
    kind: IntervalKind = "finite",
    level: float = 0.9,
) -> pd.DataFrame:
    """Return normal intervals of the abilities, with items treated as known.

    The precision is 1/(1 - ρ²) + I(θ) according to the paper's equation 10 ("asymptotic"), and
    1/σ² + I(θ) for a finite number of lengths ("finite"). Here 1/σ² = 1 + ρ²/(1 - ρ² + 1/P),
    P = Σ φ²/λ over the observed lengths, and I is the Fisher information of the answers at the
    estimate. Without lengths ρ = 0 and both are 1 + I. The finite interval is never the narrower.

    Xu et al. (2026), Theorem 2 and equation 10.
    """
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(KINDS)}, got {kind!r}")
    if not 0 < level < 1:
        raise ValueError(f"`level` must be between 0 and 1, got {level}")
    names = (("subject", responses.subjects), ("item", responses.items))
    if any(list(point.parameters[dim].values) != list(labels) for dim, labels in names):
        raise ResponseError("the estimate and the responses have different subjects or items")
    layout, theta = layout_of(responses), point["theta"]
    of_answers = np.asarray(fisher_information(layout, point), np.float64)
    sd = 1 / np.sqrt(_before_answers(point, responses, layout, kind) + of_answers)
    reach = norm.ppf((1 + level) / 2) * sd
    columns = {"theta": theta, "sd": sd, "low": theta - reach, "high": theta + reach}
    return pd.DataFrame({"subject": responses.subjects, **columns})


def fisher_information(layout: Layout, point: PointEstimate) -> Float[Array, " subject"]:
    """Return the expected information of the observed answers about each ability."""
    family = family_named(str(point.settings["link"]))
    theta, a, d = (jnp.asarray(point[name]) for name in ("theta", "a", "d"))
    expected = family.expected_information(layout.predictor(theta, a, d), layout.trials)
    return layout.over_items(expected, a**2)


def _before_answers(
    point: PointEstimate, responses: Responses, layout: Layout, kind: IntervalKind
) -> np.ndarray:
    """Return the precision of each ability, given the lengths alone."""
    if "rho" not in point.parameters:
        return np.ones(responses.n_subjects)
    rho = jnp.asarray(point["rho"])
    if kind == "asymptotic":
        return np.full(responses.n_subjects, float(1 / (1 - rho**2)))
    phi, omega, lam = (jnp.asarray(point[name]) for name in ("phi", "omega", "lam"))
    evidence = latencies_of(responses, layout).speed_evidence(phi, omega, lam)
    return 1 / np.asarray(evidence.ability(rho)[1], np.float64)
