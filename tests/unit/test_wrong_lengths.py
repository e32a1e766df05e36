"""Lengths of wrong answers: sums, adjusted lengths, ELPD and refusals."""

from dataclasses import replace

import arviz_base
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats import loo
from lart_data import simulate_lart, some_missing, with_lengths
from lart_prior import log_lengths, some_sites, unconstrained
from scipy.stats import binom, norm
from small_data import as_sparse

from bayesirt.checks.predictive_gain import Cells, PredictionGain, log_densities, pointwise_elpd
from bayesirt.checks.wrong_lengths import WrongLengths, compare_wrong_lengths
from bayesirt.data.responses import Responses
from bayesirt.estimators.lart_em import fit_lart
from bayesirt.inference.ability_belief import Answers, ItemDraws, LengthDraws, believe
from bayesirt.inference.lart_moves import WithLengths, draw_lengths
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.likelihood.cell_sums import layout_of
from bayesirt.likelihood.latencies import latencies_of
from bayesirt.models import LaRT
from bayesirt.posterior import Posterior

MISSING = some_missing(6, 5)
SUCCESSES, TRIALS = MISSING.cells.matrices()
WRONG = (TRIALS - SUCCESSES) / np.maximum(TRIALS, 1)
DELTA = np.linspace(-0.5, 1, 5)
LOG_LENGTHS = log_lengths(MISSING)
BOTH = pytest.mark.parametrize("responses", [MISSING, as_sparse(MISSING)], ids=["dense", "sparse"])


SITES = unconstrained(some_sites(1, (6, 5)))


def some_posterior(
    responses: Responses, seed: int, *, wrong_lengths: bool, n_draws: int = 200
) -> Posterior:
    """Return arbitrary draws, not from these responses' posterior."""
    rng = np.random.default_rng(seed)
    shape = (2, n_draws)
    n, j = responses.n_subjects, responses.n_items
    samples = {k: 0.3 * rng.normal(size=(*shape, n)) for k in ("theta", "tau")}
    names = ("a", "d", "phi", "omega", *(["delta"] if wrong_lengths else []))
    samples |= {k: 1 + 0.2 * rng.normal(size=(*shape, j)) for k in names}
    samples["omega"] += 4
    samples["lam"] = np.exp(0.2 * rng.normal(size=(*shape, j)))
    return Posterior.from_samples(samples, {}, responses, {"link": "probit", "model": "LaRT"})


@BOTH
def test_sums_are_those_over_the_lengths_with_wrong_ones_taken_out(responses):
    layout = layout_of(responses)
    latencies = latencies_of(responses, layout, wrong_lengths=True)
    found = latencies.without_wrong(jnp.asarray(DELTA))
    x = LOG_LENGTHS - np.asarray(latencies.centre) - DELTA * WRONG
    np.testing.assert_allclose(found.total, np.nansum(x, 0), rtol=1e-10)
    np.testing.assert_allclose(found.squares, np.nansum(x**2, 0), rtol=1e-10)
    tau, weight = np.linspace(-1, 1, 6), np.linspace(1, 2, 5)
    sums = found.moments(tau, tau**2).tau_x, layout.over_items(found.x, weight)
    np.testing.assert_allclose(sums[0], tau @ np.nan_to_num(x), rtol=1e-10)
    np.testing.assert_allclose(sums[1], np.nan_to_num(x) @ weight, rtol=1e-10)
    assert found.wrong is None
    assert TRIALS.max() > 1
    assert 0 < np.isnan(LOG_LENGTHS[TRIALS > 0]).mean() < 1


@BOTH
def test_counts_are_exact_shares(responses):
    latencies = latencies_of(responses, layout_of(responses), wrong_lengths=True)
    seen = np.isfinite(LOG_LENGTHS)
    np.testing.assert_allclose(latencies.wrong.w, (WRONG * seen).sum(0), rtol=1e-14)
    np.testing.assert_allclose(latencies.wrong.ww, (WRONG**2 * seen).sum(0), rtol=1e-14)


def test_plain_lengths_stay_what_they_were():
    latencies = latencies_of(MISSING, layout_of(MISSING))
    assert latencies.wrong is None
    assert latencies.without_wrong(jnp.asarray(DELTA)) is latencies
    assert len(jax.tree.leaves(latencies)) == len(jax.tree.leaves(latencies.layout)) + 6


@BOTH
def test_steps_on_lengths_see_them_with_wrong_ones_taken_out(responses):
    """With one key, φ, ω and λ equal those of plain LaRT on lengths minus δ w."""
    of_delta = {"mu_delta": jnp.zeros(()), "sigma_delta": jnp.zeros(()), "delta": DELTA}
    latencies = latencies_of(responses, layout_of(responses), wrong_lengths=True)
    key, wrong = jax.random.key(0), WithLengths(LaRT(wrong_lengths=True))
    one, said = draw_lengths(wrong, latencies, RandomNumbers(key), SITES | of_delta)
    shorter = replace(with_lengths(MISSING, LOG_LENGTHS - DELTA * WRONG), cells=responses.cells)
    plain = latencies_of(shorter, layout_of(shorter))
    other, said_other = draw_lengths(WithLengths(LaRT()), plain, RandomNumbers(key), SITES)
    for name in ("phi", "omega", "lam"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9, err_msg=name)
    assert "delta" not in other
    likelihoods = [float(x["length_log_likelihood"]) for x in (said, said_other)]
    assert likelihoods[0] == pytest.approx(likelihoods[1], rel=1e-10)


def test_chains_start_near_a_regression_on_wrong_answers():
    responses, truth = simulate_lart(60, 20, delta=0.8)
    point = fit_lart(responses)
    latencies = latencies_of(responses, layout_of(responses), wrong_lengths=True)
    centre, width = WithLengths(LaRT(wrong_lengths=True)).start(point, latencies)
    z = (centre["delta"] - truth["delta"]) / width["delta"]
    assert np.abs(z).max() < 4
    assert np.sqrt(np.mean(z**2)) < 1.6
    assert centre["mu_delta"] == pytest.approx(centre["delta"].mean())
    without = latencies_of(responses, layout_of(responses))
    plain, _ = WithLengths(LaRT()).start(point, without)
    assert "delta" not in plain
    assert list(plain) == [name for name in centre if "delta" not in name]


def test_log_densities_are_those_of_answer_and_length():
    posterior = some_posterior(MISSING, 1, wrong_lengths=True, n_draws=3)
    draws = {str(k): posterior.draws(str(k)) for k in posterior.dataset}
    cells = Cells.of(MISSING)
    found = log_densities(draws, cells, link="probit")
    subject, item, y, n = (np.asarray(column) for column in cells[:4])
    p = norm.cdf(draws["a"][:, item] * draws["theta"][:, subject] + draws["d"][:, item])
    expected = binom.logpmf(y, n, p) - binom.logpmf(y, n, np.clip(y / n, 1e-9, 1 - 1e-9))
    mean = draws["omega"][:, item] - draws["phi"][:, item] * draws["tau"][:, subject]
    mean += draws["delta"][:, item] * (n - y) / n
    lengths = norm.logpdf(np.log(MISSING.latency), mean, np.sqrt(draws["lam"][:, item]))
    expected += np.nan_to_num(lengths)
    apart = np.asarray(found) - expected
    np.testing.assert_allclose(apart - apart[0], 0, atol=1e-10)
    assert np.isnan(lengths).any()


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto distribution")
def test_elpd_is_arviz_s():
    posterior = some_posterior(MISSING, 2, wrong_lengths=True)
    cells = Cells.of(MISSING)
    elpd, bad = pointwise_elpd(cells, posterior, 400)
    draws = {str(k): posterior.draws(str(k)) for k in posterior.dataset}
    log_density = np.asarray(log_densities(draws, cells, link="probit"))
    group = {"cell": log_density.reshape(2, 200, -1)}
    tree = arviz_base.from_dict(
        {"posterior": {"theta": posterior["theta"]}, "log_likelihood": group}
    )
    expected = loo(tree, pointwise=True, reff=1.0)
    np.testing.assert_allclose(elpd, np.ravel(expected.elpd_i), rtol=1e-10)
    np.testing.assert_array_equal(bad, np.ravel(expected.pareto_k) > expected.good_k)
    assert 0 < bad.sum() < len(bad)


def test_comparison_adds_up_the_gains_of_all_cells():
    with_it = some_posterior(MISSING, 2, wrong_lengths=True)
    without = some_posterior(MISSING, 3, wrong_lengths=False)
    found = compare_wrong_lengths(MISSING, with_it, without, most_draws=100)
    cells = Cells.of(MISSING)
    gains = np.subtract(*(pointwise_elpd(cells, fit, 100)[0] for fit in (with_it, without)))
    n = len(gains)
    assert found.prediction.n_cells == n == MISSING.n_observed
    assert found.prediction.elpd == pytest.approx(gains.sum())
    matrix = np.zeros(TRIALS.shape)
    matrix[np.asarray(cells.subject), np.asarray(cells.item)] = gains - gains.mean()
    independent = (matrix**2).sum()
    together = (matrix.sum(0) ** 2).sum() + (matrix.sum(1) ** 2).sum() - independent
    assert found.prediction.se == pytest.approx(np.sqrt(max(independent, together)))
    low, median, high = found.factor
    assert low < median < high
    assert median == pytest.approx(np.exp(np.median(with_it.draws("delta").mean(1))))


def test_some_cells_speak_for_all():
    with_it = some_posterior(MISSING, 2, wrong_lengths=True)
    without = some_posterior(MISSING, 3, wrong_lengths=False)
    whole = compare_wrong_lengths(MISSING, with_it, without, most_draws=50).prediction
    parts = [
        compare_wrong_lengths(
            MISSING, with_it, without, most_draws=50, most_cells=12, seed=k
        ).prediction
        for k in range(40)
    ]
    assert {part.n_cells for part in parts} == {12}
    mean = np.mean([part.elpd for part in parts])
    assert abs(mean - whole.elpd) < 5 * np.std([part.elpd for part in parts]) / np.sqrt(40)
    assert np.median([part.se for part in parts]) > whole.se


@pytest.mark.parametrize(
    ("elpd", "se", "n_bad", "expected"),
    [
        (120.4, 22.3, 0, "and modelling that fits better: ELPD +120 ± 22."),
        (3.0, 1.0, 0, "and whether modelling that fits better is uncertain: ELPD +3 ± 1."),
        (-120.4, 22.3, 9, "but modelling that fits worse: ELPD -120 ± 22."),
        (-30.0, 22.3, 0, "and whether modelling that fits better is uncertain: ELPD -30 ± 22."),
        (50.0, 22.3, 11, "ELPD +50 ± 22; rough, as 11 of 1,000 answers are too influential."),
    ],
)
def test_words_follow_the_numbers(elpd, se, n_bad, expected):
    gain = PredictionGain(elpd, se, 1000, n_bad)
    text = WrongLengths((1.22, 1.31, 1.41), gain).to_text()
    assert text.startswith("Wrong answers are 1.31 times as long as right ones (90%: 1.22 to 1.41)")
    assert text.endswith(expected)


def test_a_new_subject_s_wrong_lengths_are_not_its_speed():
    """Wrong answers longer by δ are as informative on ability and speed as right ones without δ."""
    rng = np.random.default_rng(4)
    a, d, phi, omega = (jnp.asarray(1 + 0.2 * rng.normal(size=(20, 5))) for _ in range(4))
    rho, lam = jnp.full(20, -0.5), jnp.ones((20, 5))
    item, trials = np.arange(5), np.array([1, 2, 1, 1, 1])
    successes = np.array([0, 1, 1, 0, 0])
    x = rng.normal(size=5)
    wrong = LengthDraws(phi, omega, lam, rho, jnp.tile(jnp.asarray(DELTA), (20, 1)))
    one = Answers(item, successes, trials, x + DELTA * (trials - successes) / trials)
    found = believe(ItemDraws(a, d, wrong), one.padded(), link="probit")
    plain = ItemDraws(a, d, LengthDraws(phi, omega, lam, rho))
    expected = believe(plain, Answers(item, successes, trials, x).padded(), link="probit")
    np.testing.assert_allclose(found.weight, expected.weight, atol=1e-10)
    np.testing.assert_allclose(found.evidence.pull, expected.evidence.pull, rtol=1e-9)


def test_posteriors_that_cannot_be_compared_are_refused():
    with_it = some_posterior(MISSING, 2, wrong_lengths=True)
    without = some_posterior(MISSING, 3, wrong_lengths=False)
    with pytest.raises(ValueError, match="to LaRT without"):
        compare_wrong_lengths(MISSING, without, with_it)
    others = replace(MISSING, subjects=tuple("abcdef"))
    with pytest.raises(ValueError, match="not of these responses"):
        compare_wrong_lengths(others, with_it, without)
    with pytest.raises(ValueError, match="no lengths"):
        compare_wrong_lengths(replace(MISSING, latency=None), with_it, without)
