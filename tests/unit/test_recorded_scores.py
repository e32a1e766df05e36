"""Scores recorded in hundredths, so that densities and probability masses are comparable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt import Continuous, Normal, Responses, RunOptions, Scale
from bayesirt.checks.predictive_gain import compare_models
from bayesirt.data.scales import PARTS
from bayesirt.inference.engines import sample_posterior

HUNDREDTHS = jnp.arange(101) * (PARTS // 100)


@pytest.mark.parametrize(
    ("model", "further"),
    [(Normal(), (1.2,)), (Normal(), (0.1,)), (Continuous(), (3.0, 9.0, 0.4))],
    ids=["wide", "narrow", "ordered beta"],
)
@pytest.mark.parametrize("eta", [-1.5, 0.2, 3.7])
def test_hundredths_have_a_probability_of_one(model, further, eta):
    if isinstance(model, Continuous):
        eta = np.clip(eta, -1, 1)  # otherwise the beta density is unbounded at an end
    law = model.family.law
    at = jnp.full(101, eta), HUNDREDTHS, jnp.full(101, PARTS), *map(jnp.asarray, further)
    assert float(jnp.exp(law.recorded(*at)).sum()) == pytest.approx(1, abs=0.02)
    assert (law.recorded(*at) <= 0).all()


def test_ends_have_their_masses():
    eta, end = jnp.array([0.3]), jnp.array([0, PARTS])
    further = (jnp.array(x) for x in (2.0, 5.0, 0.5))  # gap, φ and shift
    nothing, whole = Continuous().family.law.recorded(eta, end, PARTS + 0 * end, *further)
    assert float(nothing) == pytest.approx(float(jax.nn.log_sigmoid(-1.8)), rel=1e-5)
    assert float(whole) == pytest.approx(float(jax.nn.log_sigmoid(-0.2)), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("truth", ["normal", "continuous"])
def test_the_model_that_answers_came_from_is_not_said_to_predict_worse(truth):
    rng = np.random.default_rng(5)
    eta = rng.normal(size=(40, 1)) + 0.6 * rng.normal(size=20)
    score = np.clip(0.5 + 0.09 * eta + 0.1 * rng.normal(size=eta.shape), 0, 1)
    if truth == "continuous":
        mu, u = 1 / (1 + np.exp(-eta)), rng.logistic(size=eta.shape)
        inside = np.round(rng.beta(6 * mu, 6 * (1 - mu)), 2).clip(0.01, 0.99)
        score = np.where(u < eta - 2, 1, np.where(u < eta + 2, inside, 0))
    answers = Responses.from_arrays(score.round(2), scale=Scale("continuous"))
    options = RunOptions(num_warmup=150, num_samples=100)
    own, other = (
        sample_posterior(
            answers, key=jax.random.key(2), model=model, engine="blocked", options=options
        )
        for model in (Continuous(), Normal())
    )
    said = compare_models(answers, own, other).surely
    assert said == 1 if truth == "continuous" else said < 1
