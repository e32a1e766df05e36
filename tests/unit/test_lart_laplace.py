"""LaRT by Laplace's approximation: what it refuses, stores and reports."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lart_data import simulate_lart, with_lengths
from small_data import as_sparse

from bayesirt import (
    PointEstimate,
    Posterior,
    ResponseError,
    Responses,
    RunOptions,
    rank_subjects,
    sample_posterior,
)
from bayesirt.checks.item_table import item_table
from bayesirt.data.clusters import Clusters
from bayesirt.estimators.lart_em import fit_lart
from bayesirt.inference import engines
from bayesirt.inference.engines import plan_engine
from bayesirt.inference.laplace import ApproximationWarning
from bayesirt.inference.lart_laplace import abilities_from_lengths, sample_lart_laplace
from bayesirt.inference.lart_moves import WithLengths
from bayesirt.inference.memory import bytes_needed
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.likelihood.cell_sums import layout_of
from bayesirt.likelihood.latencies import latencies_of
from bayesirt.models import LaRT, TwoPL

KEY = jax.random.key(0)
RESPONSES, TRUTH = simulate_lart(24, 22, rho=-0.6)
RUN = RunOptions(num_chains=4, num_samples=1000)


@cache
def estimate() -> PointEstimate:
    return fit_lart(RESPONSES)


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return sample_posterior(
        RESPONSES,
        key=KEY,
        engine="laplace",
        init=estimate(),
        model="lart",
        options=RunOptions(num_samples=100),
    )


@pytest.mark.slow
def test_posterior_holds_the_models_sites_and_says_how_it_was_made(posterior, tmp_path):
    populations = {"phi", "omega", "lam"}
    sites = {"theta", "tau", "a", "d", "b", "rho", "mu_a", "mu_d", "mu_b", "mu_tau"} | populations
    sites |= {f"{kind}_{name}" for kind in ("mu", "sigma") for name in populations}
    assert set(map(str, posterior.dataset.data_vars)) == sites
    assert posterior["tau"].shape == (4, 100, 24)
    assert posterior["lam"].shape == (4, 100, 22)
    attrs = posterior.tree.attrs
    assert (attrs["model"], attrs["engine"], attrs["link"]) == ("LaRT", "laplace", "probit")
    assert (attrs["approximate"], attrs["few"], attrs["converged"]) == (1, 0, 1)
    assert attrs["information"] == "observed"
    assert {"sigma_a", "sigma_d"} <= set(attrs)
    assert "held fixed" in attrs["hyperparameters"]
    assert "point estimate" in attrs["lengths"]
    assert posterior.verdict.sound
    posterior.save(tmp_path / "posterior.nc")
    again = Posterior.load(tmp_path / "posterior.nc")
    np.testing.assert_array_equal(again.draws("tau"), posterior.draws("tau"))
    assert {"speed_low", "speed_high"} <= set(rank_subjects(again).summary)
    assert {"phi_low", "lam_high"} <= set(item_table(again))


@pytest.mark.slow
def test_every_draw_is_a_place_that_the_model_allows(posterior):
    assert (posterior.draws("a").sum(1) > 0).all()
    assert (posterior.draws("phi").sum(1) > 0).all()
    assert (np.abs(posterior.draws("rho")) < 1).all()
    assert (posterior.draws("lam") > 0).all()
    a, d, b = (posterior.draws(name) for name in "adb")
    np.testing.assert_allclose(b, -d / a)
    assert all(np.isfinite(posterior[str(name)]).all() for name in posterior.dataset.data_vars)


@pytest.mark.slow
def test_same_key_gives_the_same_draws(posterior):
    one, other = (
        sample_posterior(
            RESPONSES,
            key=jax.random.key(k),
            engine="laplace",
            init=estimate(),
            model="lart",
            options=RunOptions(num_samples=100),
        ).draws("tau")
        for k in (0, 1)
    )
    np.testing.assert_array_equal(one, posterior.draws("tau"))
    assert np.abs(one - other).max() > 0.1


def with_holes(responses: Responses) -> Responses:
    """Return the responses with a tenth of them missing, and another tenth of the lengths."""
    gone = np.random.default_rng(0).uniform(size=responses.cells.shape)
    answers = np.where(gone < 0.1, np.nan, responses.cells.matrices()[0])
    x = np.log(responses.latency).reshape(answers.shape)
    return with_lengths(Responses.from_arrays(answers), np.where(gone < 0.2, np.nan, x))


@pytest.mark.slow
def test_layout_of_the_responses_does_not_matter():
    responses = with_holes(RESPONSES)
    point = fit_lart(responses)
    one, other = (
        sample_lart_laplace(r, key=KEY, init=point, options=RunOptions(num_samples=10))
        for r in (responses, as_sparse(responses))
    )
    for name in ("theta", "tau", "a", "phi", "omega", "lam", "rho"):
        np.testing.assert_allclose(one.draws(name), other.draws(name), rtol=1e-5, atol=1e-7)


def test_answers_alone_move_abilities_where_lengths_say_nothing_of_them():
    """At ρ = 0 each ability's prior is standard normal, and speeds depend on lengths alone."""
    latencies = latencies_of(RESPONSES, layout_of(RESPONSES))
    point = {name: estimate()[name] for name in ("phi", "omega", "lam")} | {"rho": 0.0}
    mean, precision, *_ = abilities_from_lengths(latencies, point)
    np.testing.assert_allclose(mean, 0, atol=1e-12)
    np.testing.assert_allclose(precision, 1, rtol=1e-12)


def test_speeds_are_drawn_as_the_lengths_and_the_ability_say():
    """Compare means and variances of 24 speeds in 4,000 draws, at 5 standard errors."""
    latencies = latencies_of(RESPONSES, layout_of(RESPONSES))
    way, n = WithLengths(LaRT()), 4000
    sites = {k: jnp.asarray(v) for k, v in way.start(estimate(), latencies)[0].items()}

    @jax.jit
    @jax.vmap
    def draw(key):
        return way.after_subjects(RandomNumbers(key), sites, latencies)["tau"]

    tau = np.asarray(draw(jax.random.split(KEY, n)))
    values = way.terms(sites).values
    p = (values["phi"] ** 2 / values["lam"]).sum()
    logs = np.log(RESPONSES.latency).reshape(24, 22)
    pull = -((logs - values["omega"]) * values["phi"] / values["lam"]).sum(1)
    rho = values["rho"]
    variance = 1 / (1 / (1 - rho**2) + p)
    mean = variance * (rho * values["theta"] / (1 - rho**2) + pull)
    assert np.abs((tau.mean(0) - mean) / np.sqrt(variance / n)).max() < 5
    assert np.abs(tau.var(0) / variance - 1).max() < 5 * np.sqrt(2 / n)


def test_auto_takes_it_beyond_what_exact_draws_can_do(monkeypatch):
    assert plan_engine("auto", RESPONSES, model="lart", options=RUN) == ("blocked", "")
    monkeypatch.setattr(engines, "MOST_FOR_BLOCKED", 100)
    method, reason = plan_engine("auto", RESPONSES, model="lart", options=RUN)
    assert method == "laplace"
    assert "an approximation, as exact draws from 528 responses" in reason
    clusters = Clusters.of([str(k // 2) for k in range(RESPONSES.n_subjects)])
    exact = [
        ("lengths of wrong answers", RESPONSES, LaRT(wrong_lengths=True)),
        ("clusters in LaRT", replace(RESPONSES, clusters=clusters), LaRT()),
    ]
    for part, responses, model in exact:
        reason = f"exact, as there is no approximation for {part}: 528 responses take hours"
        assert plan_engine("auto", responses, model=model) == ("blocked", reason)
    few = simulate_lart(19, 30)[0]
    assert plan_engine("auto", few, model="lart", options=RUN)[0] == "blocked"


def test_what_it_cannot_do_is_refused_in_a_sentence():
    settings = {"key": KEY, "engine": "laplace"}
    with pytest.raises(ResponseError, match="does not support different lengths for wrong answers"):
        sample_posterior(RESPONSES, **settings, model=LaRT(wrong_lengths=True))
    with pytest.raises(ResponseError, match="LaRT needs the length or time of responses"):
        sample_lart_laplace(replace(RESPONSES, latency=None), key=KEY)


@pytest.mark.slow
def test_few_subjects_are_approximated_with_a_warning():
    responses = simulate_lart(19, 25)[0]
    with pytest.warns(ApproximationWarning, match="rough for 19 subjects x 25 items"):
        found = sample_lart_laplace(responses, key=KEY, options=RunOptions(num_samples=10))
    assert not found.verdict.sound


def test_lengths_take_memory_too():
    large = Responses.from_arrays(np.tri(200, 3000, 100))
    for method in ("blocked", "laplace"):
        needed = bytes_needed(method, large, LaRT(), RUN)
        assert needed > bytes_needed(method, large, TwoPL(), RUN)
    few = RunOptions(num_chains=4, num_samples=100)
    needed = bytes_needed("laplace", large, LaRT(), RUN)
    assert needed > bytes_needed("laplace", large, LaRT(), few)
