"""Rankings, checks and figures of grades and scores."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from bayesirt import (
    Continuous,
    Graded,
    Normal,
    Posterior,
    Responses,
    Scale,
    check_fit,
    rank_subjects,
)
from bayesirt.checks.cut_loss import cut_loss
from bayesirt.checks.fit import cell_residuals
from bayesirt.checks.fit.cell_residuals import Counts, Draw, residuals
from bayesirt.checks.fit.fit_check import predict_meanwhile
from bayesirt.checks.item_table import item_table
from bayesirt.data.scales import PARTS
from bayesirt.errors import ResponseError
from bayesirt.estimators.registry import fit_point
from bayesirt.likelihood.families import family_named
from bayesirt.models import ResponseModel, model_for
from bayesirt.ranking.gate import gate
from bayesirt.ranking.separation import subject_information
from bayesirt.report.fit_plots import _levels, plot_levels

N, J = 30, 12
KINDS: dict[str, tuple[ResponseModel, Scale]] = {
    "graded": (Graded(n=4), Scale("graded", ("1", "2", "3", "4", "5"))),
    "continuous": (Continuous(), Scale("continuous")),
    "normal": (Normal(), Scale("continuous")),
    "unbounded": (Normal(), Scale("unbounded", low=-3.0, full=5.0)),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def true_draws(kind: str, n_draws: int = 40) -> tuple[Posterior, Responses]:
    """Return a posterior near the truth, and answers drawn from it, some missing."""
    model, scale = KINDS[kind]
    rng = np.random.default_rng(1)
    truth = {"theta": rng.normal(size=N), "a": np.exp(0.3 * rng.normal(size=J))}
    truth["d"] = rng.normal(size=J)
    truth |= {name: np.exp(0.5 + 0.3 * rng.normal(size=J)) for name in model.family.further}
    eta = truth["theta"][:, None] * truth["a"] + truth["d"]
    trials = scale.steps * (rng.uniform(size=(N, J)) < 0.9)
    family = model.family.given([truth[name] for name in model.family.further])
    y = np.asarray(family.draw(jax.random.key(2), jnp.asarray(eta), jnp.asarray(trials)))
    y = np.clip(y, 0, trials)  # scores without bounds may lie beyond their scale
    responses = replace(Responses.from_arrays(y, trials), scale=scale)
    samples = {name: x + 0.01 * rng.normal(size=(2, n_draws, len(x))) for name, x in truth.items()}
    samples["b"] = -samples["d"] / samples["a"]
    attrs = {"link": model.family.name, "model": model.title, "engine": "blocked", "complete": 1}
    dims = {**model.dims, "theta": ["subject"]}
    return Posterior.from_samples(samples, {}, responses, attrs, dims=dims), responses


@each_kind
def test_draws_have_the_moments_that_the_law_says(kind):
    model, scale = KINDS[kind]
    family = model.family.given([1.2, 3.0, 0.7][: len(model.family.further)])

    @jax.jit
    def facts(key):
        eta, n = jnp.full(40_000, 0.4), jnp.full(40_000, scale.steps)
        drawn, one = family.draw(key, eta, n), eta[0]
        told = family.probability(one), family.expected_information(one)
        return drawn, family.shares(one), family.terms(eta, drawn, n).score, told

    drawn, shares, score, told = jax.device_get(facts(jax.random.key(0)))
    y, (chance, information) = drawn / scale.steps, told
    assert float(y.mean()) == pytest.approx(float(shares.mean), abs=6e-3)
    assert float(chance) == pytest.approx(float(shares.mean), abs=1e-6)
    assert float(y.var()) * scale.steps == pytest.approx(float(shares.variance), rel=0.04)
    third = float(((y - y.mean()) ** 3).mean()) * scale.steps**2
    noise = 0.03 * float(shares.variance) ** 1.5 * scale.steps**0.5
    assert third == pytest.approx(float(shares.third), rel=0.2, abs=noise)
    assert float(score.mean()) == pytest.approx(0, abs=0.03)
    assert float((score**2).mean()) == pytest.approx(float(information), rel=0.04)


@each_kind
def test_residuals_have_mean_zero_and_the_variance_they_say(kind):
    _model, scale = KINDS[kind]
    posterior, _ = true_draws(kind)
    names = ("theta", "a", "d", *posterior.further)
    theta, a, d, *further = (jnp.asarray(posterior.draws(name)[0]) for name in names)
    draw = Draw(theta, a, d, tuple(further))
    trials = jnp.full((N, J), scale.steps)
    family = family_named(posterior.link).given(further)

    @jax.jit
    def one(key):
        y = family.draw(key, theta[:, None] * a + d, trials)
        return residuals(posterior.link, Counts(y, trials), draw)

    found = jax.lax.map(one, jax.random.split(jax.random.key(0), 200))
    assert abs(float(found.score.mean())) < 0.02
    assert float((found.score**2).mean()) == pytest.approx(float(found.weight.mean()), rel=0.03)
    assert abs(float(found.excess.mean())) < 0.01 * scale.steps


@each_kind
def test_a_ranking_speaks_of_means(kind):
    posterior, responses = true_draws(kind)
    ranking = rank_subjects(posterior)
    y, n = responses.cells.matrices()
    mean = dict(zip(responses.subjects, y.sum(1) / n.sum(1), strict=True))
    table = ranking.summary.set_index("subject")
    assert table["accuracy"].to_dict() == pytest.approx(mean)
    assert ranking.score == ("mean grade" if kind == "graded" else "mean score")
    assert (table["expected_score_low"] <= table["expected_score_high"]).all()
    assert table["expected_score"].between(0, 1).all()
    assert (table["n_trials"] == (n > 0).sum(1)[[int(s.split()[1]) - 1 for s in table.index]]).all()


def test_a_cut_keeps_all_of_grades_that_coincide_and_part_of_grades_that_do_not():
    posterior, _ = true_draws("graded")
    names = [f"gap_{m}" for m in (2, 3, 4)]

    def with_gaps(gap: float) -> Posterior:
        tree = posterior.tree.copy(deep=True)
        for name in names:
            tree["posterior"][name] = 0 * tree["posterior"][name] + gap
        return Posterior(tree)

    shares = [cut_loss(with_gaps(gap)).share for gap in (1e-3, 1.0)]
    assert shares[0] == pytest.approx(1, abs=1e-3)
    assert 0.3 < shares[1] < 0.95
    assert "'" in cut_loss(posterior).to_text()
    scores, _ = true_draws("continuous")
    assert cut_loss(scores) is None


def test_items_that_get_few_of_the_grades_are_flagged():
    posterior, responses = true_draws("graded")
    y, n = (x.astype(int) for x in responses.cells.matrices())
    y[:, 0] = np.where(y[:, 0] > 2, 4, 3) * (n[:, 0] > 0)
    few = replace(Responses.from_arrays(y, n), scale=responses.scale)
    samples = {name: posterior.tree["posterior"][name].to_numpy() for name in posterior.dataset}
    attrs = {**posterior.tree.attrs}
    dims = {**KINDS["graded"][0].dims, "theta": ["subject"]}
    table = item_table(Posterior.from_samples(samples, {}, few, attrs, dims=dims))
    assert "only 4, 5" in table["flag"][0]
    assert not table["flag"][1:].str.contains("only").any()


@each_kind
def test_an_answer_tells_once_what_it_tells(kind):
    posterior, responses = true_draws(kind)
    own, added = subject_information(posterior)
    n_answers = (responses.cells.matrices()[1] > 0).sum(1)
    np.testing.assert_allclose(own, n_answers * added, rtol=0.5)


@each_kind
def test_levels_are_reached_as_often_as_expected(kind):
    posterior, responses = true_draws(kind)
    levels = _levels(posterior)
    assert len(plot_levels(posterior).axes[0].texts) == len(levels)
    y, n = responses.cells.matrices()
    steps = responses.scale.steps
    least = {"graded": range(1, steps + 1), "continuous": (1, PARTS)}.get(kind, (2500, 5000, 7500))
    assert len(levels) == len(least)
    for x in levels:
        assert (np.abs(x.observed - x.expected) < 1.5 * (x.high - x.low)).all()
    for x, k in zip(levels, least, strict=True):
        assert x.observed.mean() == pytest.approx((y >= k)[n > 0].mean(), abs=0.03)


@pytest.mark.slow
@each_kind
def test_a_check_of_fit_takes_answers_of_every_kind(kind, monkeypatch):
    monkeypatch.setattr(cell_residuals, "_LARGE", 0)  # 32 bits, as for large tables
    posterior, responses = true_draws(kind)
    fit = check_fit(posterior, key=jax.random.key(0))
    meanwhile = predict_meanwhile(responses, jax.random.key(0)).result()
    pd.testing.assert_frame_equal(meanwhile.summary, fit.held_out.summary)
    assert fit.score == ("mean grade" if kind == "graded" else "mean score")
    rows = {"graded": 5 * J, "continuous": 3 * J}.get(kind)
    assert rows == (None if fit.categories is None else len(fit.categories))
    assert fit.items["misfits"].mean() < 0.2
    assert fit.subjects["misfits"].mean() < 0.2
    assert fit.totals.p_subjects > 0.001


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "normal"])
def test_the_usual_model_and_its_start_are_found(kind):
    _, responses = true_draws(kind)
    model, _scale = KINDS[kind]
    assert model_for(responses) == model
    assert np.isfinite(fit_point(responses)["theta"]).all()
    other = "graded" if kind == "continuous" else "continuous"
    with pytest.raises(ResponseError, match=f"{other} is for {other} answers, and these are"):
        model_for(responses, other)
    with pytest.raises(ResponseError, match=r"2pl is for right and wrong answers.*--threshold"):
        model_for(responses, "2pl")
    found = gate(responses, baseline="subject 1", candidate="subject 2")
    assert found.as_dict()["score_baseline"] > 0
