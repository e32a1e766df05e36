"""LaRT's approximate posterior, and refusals; `cli/test_lart.py` tests a whole run."""

import jax
import numpy as np
import pytest
from lart_data import simulate_lart

from bayesirt.errors import ResponseError
from bayesirt.estimators.registry import fit_point
from bayesirt.inference.laplace import sample_laplace
from bayesirt.inference.options import RunOptions
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import Priors, TwoPL
from bayesirt.ranking.run import rank_responses
from bayesirt.ranking.settings import Settings

RESPONSES = simulate_lart(60, 20)[0]


@pytest.mark.slow
def test_run_by_an_approximation_says_so():
    settings = Settings(model="lart", engine="laplace", warmup=20, draws=25)
    run = rank_responses(RESPONSES, settings)
    assert run.posterior.verdict.to_text().startswith("Laplace approximation, not exact")
    assert ("Sampling", "Laplace approximation, 100 independent draws") in run.record.made_by()
    assert "cover 85% to 93% of the truth with 100 x 20" in run.posterior.verdict.to_text()
    table, tau = run.ranking.summary, run.posterior.draws("tau")
    assert table["speed"].mean() == pytest.approx(0, abs=1e-9)
    apart = tau[:, 0] / tau.std(1) - tau[:, 1] / tau.std(1)
    rows = table.set_index("subject")["speed"][list(run.posterior.subjects[:2])]
    assert rows.iloc[0] - rows.iloc[1] == pytest.approx(apart.mean())
    assert (table["speed_low"] < table["speed_high"]).all()
    assert run.gain is not None
    assert (run.gain.summary["sd_without"] > 0).all()


@pytest.mark.slow
@pytest.mark.statistical
def test_approximations_without_lengths_have_the_probit_too():
    """Means may differ by Monte Carlo error and by that of the normal approximation."""
    settings = {"model": TwoPL(Priors(slopes="free"), link="probit"), "key": jax.random.key(1)}
    near = sample_laplace(RESPONSES, **settings, options=RunOptions(num_samples=500))
    exact = sample_blocked(
        RESPONSES, **settings, options=RunOptions(num_warmup=500, num_samples=500, thinning=4)
    )
    assert near.link == exact.link == "probit"
    apart = near.theta.mean(0) - exact.theta.mean(0)
    assert np.sqrt(np.mean((apart / exact.theta.std(0)) ** 2)) < 0.2
    np.testing.assert_allclose(near.theta.std(0).mean(), exact.theta.std(0).mean(), rtol=0.1)


def test_estimators_of_the_other_model_are_refused():
    with pytest.raises(
        ResponseError, match="cbmm is not an estimator of lart; use auto, em and saem"
    ):
        fit_point(RESPONSES, "cbmm", model="lart")
    with pytest.raises(ResponseError, match="saem is not an estimator of 2pl; use auto, cbmm"):
        fit_point(RESPONSES, "saem")
    with pytest.raises(ValueError, match="saem needs key"):
        fit_point(RESPONSES, "saem", model="lart")
