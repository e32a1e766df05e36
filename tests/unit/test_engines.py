"""The choice of an engine, and the contract of every engine's posterior."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from bayesirt import Responses, RunOptions, choose_engine, sample_posterior
from bayesirt.inference import engines
from bayesirt.inference.engines import MOST_FOR_BLOCKED
from bayesirt.inference.enough_draws import converged, within
from bayesirt.ranking.run import rank_responses
from bayesirt.ranking.settings import Settings


@pytest.mark.parametrize(
    ("size", "engine"), [((10, 10), "blocked"), ((300, 200), "blocked"), ((1100, 5000), "laplace")]
)
def test_engine_goes_by_the_number_of_responses(size, engine):
    responses = Responses.from_arrays(np.indices(size).sum(0) % 2)
    chosen, reason = choose_engine(responses)
    assert chosen == engine
    assert f"{responses.n_observed:,} responses" in reason
    assert 60_000 < MOST_FOR_BLOCKED < 5_500_000


def test_exact_draws_of_more_responses_on_a_gpu(monkeypatch):
    responses = Responses.from_arrays(np.indices((1100, 5000)).sum(0) % 2)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert choose_engine(responses)[0] == "blocked"


def test_few_subjects_get_an_exact_engine_however_many_items():
    responses = Responses.from_arrays(np.indices((19, 270_000)).sum(0) % 2)
    assert responses.n_observed > MOST_FOR_BLOCKED
    chosen, reason = choose_engine(responses)
    assert (chosen, reason) == (
        "blocked",
        "exact, as an approximation needs 20 subjects and 20 items",
    )


def test_auto_says_which_engine_and_why(small, monkeypatch):
    told, drawn = [], replace(engines.ENGINES["blocked"], sample=lambda *_, **__: "drawn")
    monkeypatch.setitem(engines.ENGINES, "blocked", drawn)
    options = RunOptions(announce=told.append)
    assert sample_posterior(small, key=jax.random.key(0), options=options) == "drawn"
    assert told[0] == "engine blocked, exact and faster than nuts for 600 responses"


def test_budget_ends_chains_when_abilities_have_converged():
    """Abilities are judged on the reported scale, so their level may drift."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(4, 500, 30))
    level = np.cumsum(rng.normal(size=(4, 500, 1)), axis=1)
    assert converged({"theta": theta + level})
    many = rng.normal(size=(4, 500, 1000))
    assert converged({"theta": many})
    assert not converged({"theta": many, "d": many + (np.arange(1000) == 7) * level})
    apart = theta + np.where(np.arange(4) == 0, 1, 0)[:, None, None] * (np.arange(30) == 0)
    assert not converged({"theta": apart})
    assert not within(60.0, 4, dict)({"theta": apart}, 4)
    assert within(1e-9, 4, dict)({"theta": apart}, 4)
    assert within(60.0, 4, dict)({"theta": apart[:, :20]}, 4)  # too few draws to judge
    slope = {"theta": theta, "mu_a": level[..., 0]}
    assert within(1e-9, 4, dict)(slope, 4)
    assert not within(1e-9, 4, dict)(slope, 2)


def test_one_of_many_abilities_that_chains_disagree_on_is_found_among_slower_ones():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(4, 1000, 1000))
    for step in range(1, 1000):
        theta[:, step] += 0.5 * theta[:, step - 1]
    assert converged({"theta": theta})
    theta[..., 7] = rng.normal(size=(4, 1000)) + 0.5 * (np.arange(4) == 0)[:, None]
    assert not converged({"theta": theta})


def test_budget_heeds_each_of_several_abilities():
    theta = np.random.default_rng(0).normal(size=(4, 500, 30, 2))
    assert converged({"theta": theta})
    assert not converged({"theta": theta + np.linspace(0, 4, 4)[:, None, None, None] * [0, 1]})
    assert within(1e-9, 4, dict)({"theta": theta}, 1)


def test_run_by_an_approximation_says_so(small):
    run = rank_responses(small, Settings(engine="laplace", draws=250))
    text = run.posterior.verdict.to_text()
    assert text.startswith("Laplace approximation, not exact")
    assert ("Sampling", "Laplace approximation, 1,000 independent draws") in run.record.made_by()
    assert len(run.ranking.summary) == 30
