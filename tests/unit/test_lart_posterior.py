"""LaRT's posterior: chains, what they refuse, and what lengths add to a ranking."""

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
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.length_gain import LengthGain
from bayesirt.ranking.run import rank_responses
from bayesirt.ranking.settings import Settings

RESPONSES, TRUTH = simulate_lart(60, 20)


@pytest.fixture(scope="module")
def run() -> Run:
    return rank_responses(RESPONSES, Settings(model="lart", warmup=100, draws=200))


@pytest.mark.slow
@pytest.mark.statistical
def test_truth_lies_in_the_intervals(run):
    """90% intervals of 20 to 60 quantities: each kind misses at most what 1 in 10,000 would."""
    for name, least in {"theta": 0.73, "tau": 0.73, "a": 0.6, "d": 0.6, "phi": 0.6}.items():
        low, high = np.quantile(run.posterior.draws(name), [0.05, 0.95], axis=0)
        assert np.mean((low <= TRUTH[name]) & (TRUTH[name] <= high)) > least, name
    assert run.posterior.verdict.r_hat < 1.05


@pytest.mark.slow
def test_run_names_its_model(run):
    attrs = run.posterior.tree.attrs
    assert (attrs["model"], attrs["engine"], attrs["link"]) == ("LaRT", "blocked", "probit")
    assert dict(run.record.made_by())["Model"].startswith("LaRT: probit")
    assert {"speed", "speed_low", "speed_high"} <= set(run.ranking.summary)
    assert {"phi_low", "omega", "lam_high"} <= set(run.items)
    assert (run.ranking.summary["speed_low"] < run.ranking.summary["speed_high"]).all()


@pytest.mark.slow
def test_lengths_narrow_the_intervals(run):
    gain = run.gain
    assert gain.narrower > 0.02
    assert list(gain.summary["subject"]) == list(run.ranking.summary["subject"])
    low, _, high = gain.rho
    assert low < TRUTH["rho"] < high
    assert "the abler take longer" in gain.to_text()
    assert "narrower, and" in gain.to_text()


@pytest.mark.slow
def test_gain_in_words_follows_the_numbers(run):
    table = run.gain.summary.assign(sd_without=lambda t: t["sd"], rank_without=lambda t: t["rank"])
    text = LengthGain(table, (-0.1, 0.0, 0.1)).to_text()
    assert "which way is not sure" in text
    assert text.endswith("hardly narrower, and 0 of 60 ranks move.")
    assert "the abler are quicker" in LengthGain(table, (0.1, 0.2, 0.3)).to_text()


@pytest.mark.slow
def test_run_by_an_approximation_says_so():
    settings = Settings(model="lart", engine="laplace", warmup=20, draws=25)
    run = rank_responses(RESPONSES, settings)
    assert run.posterior.verdict.to_text().startswith("Laplace approximation, not exact")
    assert ("Sampling", "Laplace approximation, 100 independent draws") in run.record.made_by()
    assert "cover 85% to 93% of the truth with 100 x 20" in run.posterior.verdict.to_text()
    assert {"speed_low", "speed_high"} <= set(run.ranking.summary)
    assert run.gain is not None
    assert (run.gain.summary["sd_without"] > 0).all()


@pytest.mark.slow
@pytest.mark.statistical
def test_approximations_without_lengths_have_the_probit_too():
    """Means as far apart as errors of 2 x 2000 draws and a normal approximation make them."""
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
        ResponseError, match="cbmm is not an estimator of lart; take auto, em and saem"
    ):
        fit_point(RESPONSES, "cbmm", model="lart")
    with pytest.raises(ResponseError, match="saem is not an estimator of 2pl; take auto, cbmm"):
        fit_point(RESPONSES, "saem")
    with pytest.raises(ValueError, match="saem needs key"):
        fit_point(RESPONSES, "saem", model="lart")
