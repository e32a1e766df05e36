"""The graded model against girth's marginal maximum likelihood."""

import json
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt import Responses, RunOptions, Scale, sample_posterior
from bayesirt.estimators.marginal import fit_marginal
from bayesirt.likelihood.graded import offsets

GIRTH = json.loads((Path(__file__).parent / "girth_graded.json").read_text())
Y = np.array([list(map(int, row)) for row in GIRTH["grades"]])
N_GRADES = 5


SCALE = Scale("graded", tuple(map(str, range(N_GRADES))))
RESPONSES = replace(Responses.from_arrays(Y, np.full(Y.shape, SCALE.steps)), scale=SCALE)


def test_girth_finds_the_same_estimates():
    """Both use marginal EM; bayesirt also has priors on items."""
    point = fit_marginal(RESPONSES)
    assert point.converged
    names = ("theta", "a", "d", "gap_2", "gap_3", "gap_4")
    compare(*(point[name][None] for name in names))


@pytest.mark.reference
def test_girth_finds_the_same_abilities_slopes_and_thresholds():
    """Posterior means agree with maximum likelihood estimates, 400 x 12 grades from 0 to 4."""
    posterior = sample_posterior(
        RESPONSES, key=jax.random.key(0), options=RunOptions(num_warmup=250, num_samples=500)
    )
    assert posterior.verdict.sound
    compare(*(posterior.draws(name) for name in ("theta", "a", "d", *posterior.further)))


def compare(theta, a, d, *gaps):
    """Compare draws of all parameters with girth's estimates."""
    thresholds = [-(d + np.asarray(o)) / a for o in offsets(*map(jnp.asarray, gaps))]
    pairs = {
        "theta": (theta.mean(0), GIRTH["theta"]),
        "a": (a.mean(0), GIRTH["a"]),
        "b": (np.median(thresholds, axis=1).T.ravel(), np.ravel(GIRTH["b"])),
    }
    for name, (own, other) in pairs.items():
        assert np.corrcoef(own, other)[0, 1] > 0.99, name
    own, other = pairs["b"]
    assert np.abs(own - other).mean() < 0.1
