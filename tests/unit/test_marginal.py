"""Marginal EM of every model of one ability, against sums over a fine grid of abilities."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt import (
    Continuous,
    Graded,
    Normal,
    PointEstimate,
    Priors,
    Repeats,
    Responses,
    Scale,
    ThreePL,
    TwoPL,
)
from bayesirt.estimators.choice import fit_point
from bayesirt.estimators.marginal import fit_marginal
from bayesirt.estimators.mml import fit_mml
from bayesirt.models import ResponseModel

N, J, RUNS = 150, 10, 3
MODELS: dict[str, tuple[ResponseModel, Scale | None]] = {
    "2pl": (TwoPL(), None),
    "3pl": (ThreePL(), None),
    "3pl guessing": (ThreePL(Priors(guessing=0.2)), None),
    "repeats": (Repeats(), None),
    "graded": (Graded(n=4), Scale("graded", ("1", "2", "3", "4", "5"))),
    "continuous": (Continuous(), Scale("continuous")),
    "normal": (Normal(), Scale("unbounded", low=-1.0)),
}


@cache
def simulated(name: str) -> tuple[Responses, dict[str, np.ndarray]]:
    """Return answers of a model, a tenth of them missing, and the truth."""
    model, scale = MODELS[name]
    rng = np.random.default_rng(4)
    truth = {"theta": rng.normal(size=N), "a": np.exp(0.4 * rng.normal(size=J))}
    truth["d"] = rng.normal(size=J)
    for further in model.family.further:
        truth[further] = np.full(J, 0.2) if further == "c" else np.exp(0.4 * rng.normal(size=J))
    family = model.family.given([truth[further] for further in model.family.further])
    eta = truth["theta"][:, None] * truth["a"] + truth["d"]
    trials = (RUNS if scale is None else scale.steps) * (rng.uniform(size=(N, J)) < 0.9)
    drawn = family.draw(jax.random.key(0), jnp.asarray(eta), jnp.asarray(trials))
    responses = Responses.from_arrays(np.clip(drawn, 0, trials), trials)
    return replace(responses, scale=scale), truth


@cache
def fitted(name: str) -> PointEstimate:
    return fit_marginal(simulated(name)[0], model=MODELS[name][0])


@pytest.mark.parametrize("name", MODELS)
def test_abilities_are_integrated_out_as_a_fine_grid_does(name):
    model, _ = MODELS[name]
    responses, point = simulated(name)[0], fitted(name)
    assert point.converged
    grid = np.linspace(-7, 7, 281)

    @jax.jit
    def log_likelihoods(y, n, a, d, *further):
        family = model.family.given([x[:, None] for x in further])
        return family.terms(a[:, None] * grid + d[:, None], y, n).log_likelihood.sum(1)

    y, n = (x.astype(float)[:, :, None] for x in responses.cells.matrices())
    columns = (point[x] for x in ("a", "d", *model.family.further))
    log_joint = np.asarray(log_likelihoods(y, n, *columns)) - grid**2 / 2
    density = np.exp(log_joint - log_joint.max(1, keepdims=True))
    whole = density.sum(1)
    log_likelihood = np.log(whole * (grid[1] - grid[0]) / np.sqrt(2 * np.pi)) + log_joint.max(1)
    assert point.log_likelihood == pytest.approx(log_likelihood.sum(), rel=1e-6)
    mean = density @ grid / whole
    np.testing.assert_allclose(point["theta"], mean, atol=2e-3)
    sd = np.sqrt(density @ grid**2 / whole - mean**2)
    np.testing.assert_allclose(point["theta_se"], sd, rtol=0.02)


@pytest.mark.parametrize("name", [name for name in MODELS if "guessing" not in name])
def test_the_truth_lies_within_the_errors(name):
    """Errors of items are bounds from below, so a few more than a tenth lie beyond 90%."""
    (_, truth), point = simulated(name), fitted(name)
    theta = np.abs(point["theta"] - truth["theta"]) / point["theta_se"]
    assert (theta < 1.645).mean() > 0.8
    assert np.abs(point["d"] - truth["d"]).mean() < 0.35
    for further in MODELS[name][0].family.further:
        away = np.abs(np.log(point[further] / truth[further]))
        assert away.mean() < 0.6, further
    assert np.isfinite(point.summary.to_numpy()).all()


def test_the_2pl_comes_out_as_by_mml():
    one, other = fitted("2pl"), fit_mml(simulated("2pl")[0])
    for name, most in (("theta", 0.1), ("a", 0.25), ("d", 0.1)):
        assert np.abs(one[name] - other[name]).max() < most


def test_guessing_that_is_given_stays_there():
    np.testing.assert_allclose(fitted("3pl guessing")["c"], 0.2, atol=1e-3)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "2pl"])
def test_it_is_what_such_models_start_from(name):
    responses, _ = simulated(name)
    model, _ = MODELS[name]
    point = fit_point(responses, model=model)
    assert point.settings["estimator"] == "em"
    assert {*model.family.further} <= {*point.parameters}
