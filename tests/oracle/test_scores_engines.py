"""NUTS and blocked draws of grades and of scores agree."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt import (
    Continuous,
    Graded,
    Responses,
    RunOptions,
    Scale,
    sample_posterior,
)
from bayesirt.models import ResponseModel

N, J = 24, 8


def simulated(model: ResponseModel, scale: Scale) -> Responses:
    rng = np.random.default_rng(4)
    eta = rng.normal(size=(N, 1)) * np.exp(0.4 * rng.normal(size=J)) + rng.normal(size=J)
    further = [np.exp(0.4 + 0.4 * rng.normal(size=J)) for _ in model.family.further]
    trials = scale.steps * (rng.uniform(size=(N, J)) < 0.9)
    family = model.family.given(further)
    drawn = family.draw(jax.random.key(0), jnp.asarray(eta), jnp.asarray(trials))
    return replace(Responses.from_arrays(drawn, trials), scale=scale)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("model", "scale"),
    [
        (Graded(n=3), Scale("graded", ("0", "1", "2", "3"))),
        (Continuous(), Scale("continuous")),
    ],
    ids=["graded", "continuous"],
)
def test_nuts_agrees(model: ResponseModel, scale: Scale):
    responses = simulated(model, scale)
    # Short steps, because a few of the usual length diverge in the tails of the precision.
    options = RunOptions(num_chains=2, num_warmup=500, num_samples=1000, target_accept=0.99)
    nuts, blocked = (
        sample_posterior(
            responses, key=jax.random.key(3), model=model, engine=engine, options=options
        )
        for engine in ("nuts", "blocked")
    )
    assert nuts.verdict.sound
    assert blocked.verdict.sound
    one, other = (x.summary.drop(index="b", level=0) for x in (nuts, blocked))
    error = np.hypot(*(x["sd"] / np.sqrt(x["ess_bulk"]) for x in (one, other)))
    z = (one["mean"] - other["mean"]) / error
    assert len(z) > N + 2 * J
    assert z.abs().max() < 4.5
    ratio = (one["sd"] / other["sd"]).loc["theta"]
    assert ratio.between(0.85, 1.18).all()
