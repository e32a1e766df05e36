"""Simulated suites of the LaRT study, methods and tables (Xu et al., 2026, section 5)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray
from scipy.stats import norm

from bayesirt.data.responses import Responses
from bayesirt.estimators.lart_em import fit_lart
from bayesirt.estimators.lart_intervals import KINDS, ability_intervals
from bayesirt.estimators.saem import fit_saem
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import LaRT
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import TAILS, Posterior
from bayesirt.simulate import Simulation
from bayesirt.studies.engine import Part
from bayesirt.studies.measures import groups_of, n_covered
from bayesirt.studies.tasks import PortableKey, Row, quietly, timed, two_chains

PLACE = ["n_subjects", "n_items", "rho"]

ANSWERS = ("theta", "a", "d")
LENGTHS = ("phi", "omega", "lam", "rho")
_MEASURES = (
    "seconds", "converged", "loss", *(f"rmse_{name}" for name in (*ANSWERS, *LENGTHS)),
    *(f"{what}_{kind}" for kind in (*KINDS, "given_items", "posterior")
      for what in ("cover", "width")),
)  # fmt: skip
EM_METHODS = {"lart": "LaRT", "irt": "probit IRT"}
SAEM_METHODS = {
    "saem spectral": "SAEM, spectral start, 1/t",
    "saem burn-in": "SAEM, random start, burn-in of 20",
}
DRAWN = "lart posterior"
SUITES = Part(
    ("condition", "replication", "method"), _MEASURES, (*EM_METHODS, *SAEM_METHODS, DRAWN)
)
INTERVALS = {
    ("lart", "asymptotic"): "LaRT, equation 10",
    ("lart", "finite"): "LaRT, finite length",
    ("lart", "given_items"): "LaRT, posterior sd given items",
    ("irt", "asymptotic"): "IRT, closed form",
    (DRAWN, "posterior"): "LaRT, full posterior",
}
_SAEM_OPTIONS: dict[str, dict[str, Any]] = {
    "saem spectral": {},
    "saem burn-in": {"start": "random", "burn_in": 20},
}
_D_SD = np.sqrt(0.5)  # The paper writes N(0, 0.5), elsewhere with a variance in this place.
_REACH = float(norm.ppf(TAILS[1]))  # Half-width of an interval, in standard deviations.


@dataclass(frozen=True)
class Condition:
    """One design."""

    n_subjects: int
    n_items: int
    rho: float  # Correlation of ability and speed.


def draw_suite(condition: Condition, rng: np.random.Generator) -> Simulation:
    """Draw parameters, answers and lengths as in Xu et al. (2026), section 5."""
    n, j, rho = condition.n_subjects, condition.n_items, condition.rho
    theta, speed_noise = rng.normal(size=(2, n))
    tau = rho * theta + np.sqrt(1 - rho**2) * speed_noise
    a, d = rng.uniform(0.5, 1, j), _D_SD * rng.normal(size=j)
    phi, omega, lam = rng.uniform(0.5, 1.5, j), rng.normal(size=j), rng.uniform(0.5, 2, j)
    noise, residual = rng.normal(size=(2, n, j))
    right = theta[:, None] * a + d + noise > 0
    x = omega - tau[:, None] * phi + np.sqrt(lam) * residual
    responses = replace(Responses.from_arrays(right.astype(int)), latency=np.exp(x).ravel())
    truth = {"theta": theta, "tau": tau, "a": a, "d": d, "phi": phi, "omega": omega, "lam": lam}
    return Simulation({**truth, "rho": np.asarray(rho)}, responses)


def suite_rows(
    condition: Condition,
    places: Sequence[tuple[int, int]],
    method: str,
    iterations: int,
    draws: int,
    key: PortableKey,
) -> list[Row]:
    """Return the errors of a method in each suite; suites depend on the place alone."""
    rows = []
    for place in places:
        suite, fit_key = draw_suite(condition, key.rng(*place)), key.folded(method, *place)
        if method == DRAWN:
            rows.append(measure_posterior(suite, *draw_model(suite.responses, draws, fit_key)))
        elif method in SAEM_METHODS:
            options = {"key": fit_key, "iterations": iterations, **_SAEM_OPTIONS[method]}
            rows.append(measure_point(suite, *timed(fit_saem, suite.responses, **options)))
        else:
            rows.append(measure_point(suite, *timed(fit_model, method, suite.responses)))
    return rows


def fit_model(name: str, responses: Responses) -> PointEstimate:
    """Fit LaRT or the same IRT model without lengths, by EM."""
    return quietly(fit_lart, responses, lengths=name == "lart")


def draw_model(responses: Responses, draws: int, key: Array) -> tuple[Posterior, float]:
    """Draw from LaRT's posterior, and return the seconds it took."""
    options = two_chains(draws, thinning=1)
    return timed(sample_blocked, responses, key=key, model=LaRT(), options=options)


def measure_point(suite: Simulation, point: PointEstimate, seconds: float) -> Row:
    """Compare an estimate with the truth; for ρ by the absolute error."""
    row = {"seconds": seconds, "converged": float(point.converged), "loss": float(point.trace[-1])}
    for name in (*ANSWERS, *LENGTHS):
        if name in point.parameters:
            row[f"rmse_{name}"] = rmse(suite.parameters[name], point[name])
    theta = suite.parameters["theta"]
    for kind in KINDS:
        interval = ability_intervals(point, suite.responses, kind=kind)
        row |= _of_interval(theta, interval["low"], interval["high"], kind)
    reach = _REACH * point["theta_se"]
    return row | _of_interval(theta, point["theta"] - reach, point["theta"] + reach, "given_items")


def measure_posterior(suite: Simulation, posterior: Posterior, seconds: float) -> Row:
    """Compare a posterior's means and intervals with the truth."""
    row = {"seconds": seconds}
    for name in (*ANSWERS, *LENGTHS):
        row[f"rmse_{name}"] = rmse(suite.parameters[name], posterior.draws(name).mean(0))
    low, high = np.quantile(posterior.theta, TAILS, axis=0)
    return row | _of_interval(suite.parameters["theta"], low, high, "posterior")


def rmse(true: NDArray[np.floating], estimate: NDArray[np.floating]) -> float:
    """Return √ mean (found - true)²."""
    return float(np.sqrt(np.mean((estimate - true) ** 2)))


def _of_interval(theta: NDArray[np.floating], low: Any, high: Any, kind: str) -> Row:
    covered = n_covered(theta, low, high) / len(theta)
    return {f"cover_{kind}": covered, f"width_{kind}": float((high - low).mean())}


def recovery_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of LaRT and IRT by EM; `gain` is IRT's error minus LaRT's."""
    rows = []
    for labels, group in groups_of(replications, PLACE):
        for parameter in (*ANSWERS, *LENGTHS):
            errors = group.pivot(index="replication", columns="method", values=f"rmse_{parameter}")
            lart, irt = errors["lart"], errors["irt"]
            wins = (lart < irt).mean() if irt.notna().all() else np.nan
            rows.append({
                **labels, "parameter": parameter, "replications": len(errors),
                "lart": lart.mean(), "lart_sd": lart.std(), "irt": irt.mean(), "irt_sd": irt.std(),
                "lart_wins": wins, "gain": (irt - lart).mean(), "gain_se": (irt - lart).sem(),
            })  # fmt: skip
    return pd.DataFrame(rows)


def time_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the median seconds of each method, and how often it converges."""
    groups = replications.groupby([*PLACE, "method"], sort=False)
    return groups.agg(
        replications=("seconds", "size"), seconds=("seconds", "median"),
        converged=("converged", "mean"),
    ).reset_index()  # fmt: skip


def saem_suites(replications: pd.DataFrame) -> pd.DataFrame:
    """Return rows of EM and SAEM in SAEM's suites, with `gap`, by how much they fall below EM."""
    keys = [*PLACE, "replication"]
    rows = replications[replications["method"].isin(["lart", *SAEM_METHODS])]
    places = pd.MultiIndex.from_frame(rows[keys])
    rows = rows[places.isin(places[rows["method"] != "lart"])]
    em = rows[rows["method"] == "lart"].set_index(keys)["loss"]
    return rows.assign(gap=rows["loss"].to_numpy() - em.reindex(rows.set_index(keys).index).array)


def saem_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return how SAEM compares with EM in its suites (Xu et al., 2026, Appendix D)."""
    groups = saem_suites(replications).groupby([*PLACE, "method"], sort=False)
    errors = {f"rmse_{name}": (f"rmse_{name}", "mean") for name in (*ANSWERS, *LENGTHS)}
    return groups.agg(
        replications=("gap", "size"), **errors, worst_a=("rmse_a", "max"), gap=("gap", "median"),
        largest_gap=("gap", "max"), converged=("converged", "mean"),
    ).reset_index()  # fmt: skip


def coverage_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return coverage and width of abilities' 90% intervals; for IRT all forms are equal."""
    rows = []
    for labels, group in groups_of(replications, PLACE):
        for method, kind in INTERVALS:
            part = group[group["method"] == method]
            if len(part):
                cover, width = part[f"cover_{kind}"], part[f"width_{kind}"]
                rows.append({
                    **labels, "method": method, "interval": kind, "replications": len(part),
                    "coverage": cover.mean(), "coverage_se": cover.sem(), "width": width.mean(),
                })  # fmt: skip
    return pd.DataFrame(rows)
