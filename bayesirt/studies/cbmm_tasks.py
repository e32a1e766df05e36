"""Simulations of the cBMM study (Qu et al., 2026, A.6), and its methods on one suite."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations_with_replacement, product
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array
from scipy.optimize import brentq
from scipy.special import expit

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES
from bayesirt.checks.item_review import review_items
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.estimators.joint_map import fit_joint_map
from bayesirt.estimators.marginal import fit_marginal
from bayesirt.inference.laplace import ApproximationWarning, sample_laplace
from bayesirt.inference.options import RunOptions
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import Priors, TwoPL
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.studies.engine import Part
from bayesirt.studies.measures import Floats, Mask, spearman
from bayesirt.studies.sparse_conditions import draw_mask, even_weights
from bayesirt.studies.tasks import PortableKey, Row, Task, quietly, timed

FACTORS = {
    "base": "the base",
    "items": "items J",
    "subjects": "subjects N",
    "temperature": "log10 of the temperature",
    "mcar": "missing completely at random",
    "mar": "missing at random, by place",
    "mnar": "items without their wrong answers",
    "sparsity": "items with a = 0",
    "spread": "CV of a (not in the paper)",
}
_LEAST_A, _MOST_A = 0.5, 1.0
_MEAN_A = (_LEAST_A + _MOST_A) / 2
_BASE_SPREAD = (_MOST_A - _LEAST_A) / np.sqrt(12) / _MEAN_A
_D_SD = np.sqrt(0.5)  # The paper writes N(0, 0.5), elsewhere with a variance in this place.
_MOST_TRIES = 1000
# β, the increase in the logit of missingness from the first row and column to the last.
_MAR_SLOPE = 2.0
_FARTHEST = 50.0


@dataclass(frozen=True)
class Condition:
    """One design."""

    factor: str  # One of `FACTORS`.
    # Value of the factor: J, N, log10 sigma, the missing share, the share of items that lose their
    # wrong answers, the share with a = 0, or the coefficient of variation of a.
    value: float
    n_subjects: int
    n_items: int

    @property
    def temperature(self) -> float:
        """σ in p = sigmoid(η/σ)."""
        return float(10**self.value) if self.factor == "temperature" else 1.0


class Suite(NamedTuple):
    """Responses whose parameters are known."""

    theta: Floats  # shape (subject,)
    a: Floats  # shape (item,)
    d: Floats  # shape (item,)
    temperature: float
    responses: Responses


def base_values(n_subjects: int, n_items: int) -> dict[str, float]:
    """Return the value of each factor in the base."""
    values = {"items": float(n_items), "subjects": float(n_subjects), "spread": _BASE_SPREAD}
    return dict.fromkeys(FACTORS, 0.0) | values


def draw_suite(condition: Condition, rng: np.random.Generator) -> Suite:
    """Draw parameters, responses and missing cells, as in Qu et al. (2026), A.6."""
    for _ in range(_MOST_TRIES):
        theta = rng.normal(size=condition.n_subjects)
        a = _draw_slopes(condition, rng)
        d = _D_SD * rng.normal(size=condition.n_items)
        p = expit((theta[:, None] * a + d) / condition.temperature)
        right = rng.uniform(size=p.shape) < p
        seen = observed(condition, right, rng)
        if seen.any(0).all() and seen.any(1).all():
            responses = Responses.from_arrays((right & seen).astype(int), seen.astype(int))
            return Suite(theta, a, d, condition.temperature, responses)
    raise ValueError(f"every draw of {condition} leaves a subject or item without a response")


def _draw_slopes(condition: Condition, rng: np.random.Generator) -> Floats:
    """Draw a: uniform, or log-normal with the same mean if its spread is the factor."""
    n, value = condition.n_items, condition.value
    if condition.factor == "spread":
        variance = np.log1p(value**2)
        return _MEAN_A * np.exp(np.sqrt(variance) * rng.normal(size=n) - variance / 2)
    a = rng.uniform(_LEAST_A, _MOST_A, n)
    if condition.factor == "sparsity":
        a[rng.permutation(n)[: round(value * n)]] = 0
    return a


def missing_by_place(n_subjects: int, n_items: int, rate: float) -> Floats:
    """Return the probability of each cell to be missing, by its row and column (A.6.3)."""
    row, column = np.linspace(0, 1, n_subjects), np.linspace(0, 1, n_items)
    offset = _MAR_SLOPE * (row[:, None] + column) / 2
    alpha = brentq(lambda x: expit(x + offset).mean() - rate, -_FARTHEST, _FARTHEST, xtol=1e-13)
    return expit(alpha + offset)


def observed(condition: Condition, right: Mask, rng: np.random.Generator) -> Mask:
    """Draw which cells are observed; under MNAR some items lose all wrong answers (A.6.3)."""
    (n, j), value = right.shape, condition.value
    if condition.factor == "mcar":
        return draw_mask(even_weights(n, j), round((1 - value) * n * j), rng)
    if condition.factor == "mar":
        return rng.uniform(size=(n, j)) >= missing_by_place(n, j, value)
    if condition.factor == "mnar":
        gated = rng.uniform(size=j) < value
        return np.logical_or(right, ~gated)
    return np.ones_like(right)


POINT_METHODS = {
    "mm": "cBMM, MM steps (the paper's)",
    "newton": "cBMM, Newton steps",
    "joint_map": "joint MAP",
    "mml": "MML",
}
MOST_ITEMS_OF_MML = 2000  # The standard errors of MML need the inverse of a matrix of 2 J rows.
POSTERIORS = ("laplace positive", "laplace free", "blocked positive", "blocked free")
"""Engine and kind of slopes."""

Step = Literal["mm", "newton"]
STEPS: tuple[Step, ...] = ("mm", "newton")
PARAMETERS = ("theta", "a", "d")
STARTS = Part(
    ("method", "replication", "variance_one", "variance_two"),
    (*(f"rho_{name}" for name in PARAMETERS), "iterations", "converged"),
    STEPS,
)
TOP_SHARE = 0.2
BOUNDS = (0.05, 0.1, 0.2)  # q: bounds on the share of items wrongly called redundant.
_FIT = (
    "seconds", "converged", "iterations", "log_likelihood", "rho_theta", "rho_a", "rmse_d",
    "eta_error", "hellinger", "cv_a", "rho_average", "rho_average_top", "average_rho_theta",
)  # fmt: skip
_NIL = ("items", "nil", "zeros", "zeros_right", "small", "small_right")
_REVIEW = (f"{what}_{q:g}" for q in BOUNDS for what in ("listed", "listed_right"))
SUITES = Part(
    ("condition", "replication", "method"), (*_FIT, *_NIL, *_REVIEW), (*POINT_METHODS, *POSTERIORS)
)


class Fit(NamedTuple):
    """A point estimate on the paper's scale."""

    theta: Floats  # shape (subject,), Mean 0, standard deviation 1.
    a: Floats  # shape (item,), In units of η.
    d: Floats  # shape (item,), In units of η.
    seconds: float  # Excluding compilation.
    point: PointEstimate


def methods_for(n_items: int, slow: bool) -> list[str]:
    """Return the point estimators to use for a size."""
    with_mml = slow and n_items <= MOST_ITEMS_OF_MML
    return [name for name in POINT_METHODS if name != "mml" or with_mml]


def fit_timed(name: str, responses: Responses, *, key: Array, temperature: float = 1.0) -> Fit:
    """Fit by one of `POINT_METHODS`; compile first, then measure the time."""
    fit = _fitters(key, temperature)[name]
    _compile(name, responses.cells.shape)
    point, seconds = timed(fit, responses)
    unit = 1.0 if name in ("mm", "newton") else temperature
    parts = (point["theta"], unit * point["a"], unit * point["d"])
    return Fit(*on_sample_scale(*parts), seconds, point)


@cache
def _compile(name: str, shape: tuple[int, int]) -> None:
    """Fit responses of a shape once in this process, so that later fits do not compile."""
    answers = np.random.default_rng(0).integers(0, 2, shape)
    fit = _fitters(jax.random.key(0), 1.0)[name]
    quietly(fit, Responses.from_arrays(answers), max_iterations=1)


def _fitters(key: Array, temperature: float) -> dict[str, Callable[..., PointEstimate]]:
    return {
        "mm": partial(fit_cbmm, step="mm", key=key, temperature=temperature),
        "newton": partial(fit_cbmm, temperature=temperature),
        "joint_map": fit_joint_map,
        "mml": partial(fit_marginal, model="2pl", shrink=False, errors="own"),
    }


def on_sample_scale(theta: Floats, a: Floats, d: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the same η with abilities of mean 0 and standard deviation 1."""
    mean, sd = theta.mean(), theta.std()
    return (theta - mean) / sd, a * sd, d + a * mean


def sample_review(name: str, responses: Responses, *, key: Array) -> Posterior:
    """Draw from one of `POSTERIORS`, with enough draws for P(|a| < a_min)."""
    engine, slopes = name.split()
    priors = Priors(slopes="free" if slopes == "free" else "positive")
    if engine == "laplace":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ApproximationWarning)  # the study measures its error
            return sample_laplace(responses, key=key, model=TwoPL(priors))
    options = RunOptions(num_chains=2, num_warmup=200, num_samples=250, thinning=1)
    return sample_blocked(responses, key=key, model=TwoPL(priors), options=options)


def random_start(
    responses: Responses, variance: float, key: Array
) -> tuple[Floats, Floats, Floats]:
    """Draw a start: θ ~ N(0, 1), log a and d ~ N(0, variance) (Qu et al., 2026, A.7)."""
    keys, j, sd = jax.random.split(key, 3), responses.n_items, np.sqrt(variance)
    theta = np.asarray(jax.random.normal(keys[0], (responses.n_subjects,)))
    a, d = (np.asarray(sd * jax.random.normal(k, (j,))) for k in keys[1:])
    return theta, np.exp(a), d


def suite_rows(
    condition: Condition, place: tuple[int, int], methods: Sequence[str], key: PortableKey
) -> list[Row]:
    """Return the results of each method on one suite; keys depend on the work, not the order."""
    suite = draw_suite(condition, key.rng(*place))
    return [_measured(name, suite, key.folded(*place, name)) for name in methods]


def _measured(name: str, suite: Suite, key: Array) -> Row:
    if name in POINT_METHODS:
        fit = fit_timed(name, suite.responses, key=key, temperature=suite.temperature)
        return measure_fit(suite, fit)
    try:
        return measure_review(suite, sample_review(name, suite.responses, key=key))
    except ResponseError:
        return {"items": len(suite.a)}  # no curvature for Laplace


def start_task(
    replication: int, responses: Responses, variances: tuple[float, ...], key: PortableKey
) -> Task:
    """Return the task of fitting one matrix from random starts of every variance."""
    ways = product(STEPS, combinations_with_replacement(variances, 2))
    places = [("stability", (step, replication, *pair)) for step, pair in ways]
    return Task(places, partial(start_rows, replication, responses, variances, key))


def start_rows(
    replication: int, responses: Responses, variances: tuple[float, ...], key: PortableKey
) -> list[Row]:
    """Return the agreement of two fits, for each step and pair of variances."""
    rows: list[Row] = []
    n = len(variances)
    for step in STEPS:
        starts = [
            random_start(responses, variance, key.folded("starts", replication, number))
            for number, variance in enumerate(variances * 2)
        ]
        fits = [quietly(fit_cbmm, responses, step=step, start=start) for start in starts]
        for i, j in combinations_with_replacement(range(n), 2):
            one, other = fits[i], fits[j if j != i else n + i]
            rows.append({
                **{f"rho_{name}": float(spearman(one[name], other[name])) for name in PARAMETERS},
                "iterations": (one.iterations + other.iterations) / 2,
                "converged": float(one.converged and other.converged),
            })  # fmt: skip
    return rows


def measure_fit(suite: Suite, fit: Fit) -> Row:
    """Compare an estimate with the truth, both with abilities of mean 0 and sd 1."""
    theta, a, d = on_sample_scale(suite.theta, suite.a, suite.d)
    true, fitted = theta[:, None] * a + d, fit.theta[:, None] * fit.a + fit.d
    accuracy = accuracy_of(suite.responses)
    every, top = agreement(fit.theta, accuracy)
    nil = suite.a == 0
    zeros, small = fit.a == 0, np.abs(fit.a) < HARDLY_DISCRIMINATES
    return {
        "seconds": fit.seconds,
        "converged": float(fit.point.converged),
        "iterations": fit.point.iterations,
        "log_likelihood": fit.point.log_likelihood,
        "rho_theta": float(spearman(theta, fit.theta)),
        "rho_a": float(spearman(a, fit.a)),
        "rmse_d": float(np.sqrt(np.mean((fit.d - d) ** 2))),
        "eta_error": relative_error(true, fitted),
        "hellinger": hellinger(expit(true / suite.temperature), expit(fitted / suite.temperature)),
        "cv_a": variation(fit.a),
        "rho_average": every,
        "rho_average_top": top,
        "average_rho_theta": float(spearman(theta, accuracy)),
        "items": len(nil),
        "nil": float(nil.sum()),
        "zeros": float(zeros.sum()),
        "zeros_right": float((zeros & nil).sum()),
        "small": float(small.sum()),
        "small_right": float((small & nil).sum()),
    }


def measure_review(suite: Suite, posterior: Posterior) -> Row:
    """Count the items that `review_items` lists as redundant under each bound, and those right."""
    nil = dict(zip(suite.responses.items, suite.a == 0, strict=True))
    row: Row = {"items": len(nil), "nil": float(sum(nil.values()))}
    for q in BOUNDS:
        listed = review_items(posterior, q=q).redundant
        row |= {f"listed_{q:g}": len(listed)}
        row |= {f"listed_right_{q:g}": float(sum(nil[item] for item in listed))}
    return row


def relative_error(true: Floats, estimate: Floats) -> float:
    """Return ‖X - X̂‖² / ‖X‖², squared as Qu et al. (2026), A.6, prints it."""
    return float(((true - estimate) ** 2).sum() / (true**2).sum())


def hellinger(one: Floats, other: Floats) -> float:
    """Return the mean of (√p - √q)² + (√(1-p) - √(1-q))², as Qu et al. (2026), A.6, prints it."""
    right = (np.sqrt(one) - np.sqrt(other)) ** 2
    return float((right + (np.sqrt(1 - one) - np.sqrt(1 - other)) ** 2).mean())


def variation(a: Floats) -> float:
    """Return the coefficient of variation of a (Qu et al., 2026, 4.4)."""
    return float(a.std() / a.mean())


def accuracy_of(responses: Responses) -> Floats:
    """Return each subject's proportion correct."""
    successes, trials, _ = responses.cells.totals(1)
    return np.asarray(successes / trials)


def agreement(theta: Floats, accuracy: Floats) -> tuple[float, float]:
    """Return ρ of ability and accuracy, of all and of the top 20% by accuracy (4.4, Figure 4)."""
    n_top = max(2, round(TOP_SHARE * len(accuracy)))
    top = np.argsort(-accuracy, kind="stable")[:n_top]
    return float(spearman(accuracy, theta)), float(spearman(accuracy[top], theta[top]))
