"""Checks of fit against brute force over cells, pairs and draws, and their reports."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from compilations import CountCompilations
from made_posterior import of_two_abilities, posterior_of
from scipy.special import expit, ndtri
from scipy.stats import gamma

from bayesirt import Posterior, ResponseError, Responses, check_fit, local_dependence
from bayesirt.checks.fit import item_pairs, wide
from bayesirt.checks.fit.calibration import check_calibration
from bayesirt.checks.fit.cell_residuals import Counts, Draw, residuals
from bayesirt.checks.fit.direction import Direction
from bayesirt.checks.fit.fit_check import (
    FitCheck,
    compile_meanwhile,
    fit_key,
    predict_meanwhile,
)
from bayesirt.checks.fit.held_out import HeldOut, clustered_error, predict_held_out
from bayesirt.checks.fit.item_pairs import LocalDependence
from bayesirt.checks.fit.items import item_fit
from bayesirt.checks.fit.proportions_correct import check_totals
from bayesirt.checks.fit.rasch import fit_rasch
from bayesirt.checks.fit.subjects import person_fit
from bayesirt.checks.fit.tail_probabilities import (
    LEAST_SHARE,
    StandardisedSums,
    adjusted,
    to_normal,
)
from bayesirt.cli.existing_run import fit_check
from bayesirt.estimators.dimension import log_scores
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.families import LOGIT
from bayesirt.ranking.run_folder import save_run
from bayesirt.report.export import ranking_as_json
from bayesirt.report.html import render_report
from bayesirt.report.terminal import print_run

N, J, S = 60, 9, 8


def drawn(*, coverage: float = 0.8, most_trials: int = 3, fixed: bool = False) -> Posterior:
    """Return a posterior near the truth, with missing cells and several trials."""
    rng = np.random.default_rng(0)
    theta, a, d = rng.normal(size=N), np.exp(0.3 * rng.normal(size=J)), rng.normal(size=J)
    a = np.ones(J) if fixed else a
    trials = rng.integers(1, most_trials + 1, (N, J)) * (rng.uniform(size=(N, J)) < coverage)
    trials[0], trials[:, 0] = 1, 1
    successes = rng.binomial(trials, expit(theta[:, None] * a + d))
    samples = {
        "theta": theta + 0.2 * rng.normal(size=(1, S, N)),
        "a": a * np.exp((0 if fixed else 0.1) * rng.normal(size=(1, S, J))),
        "d": d + 0.1 * rng.normal(size=(1, S, J)),
    }
    responses = Responses.from_arrays(successes, trials)
    return Posterior.from_samples(samples, {}, responses, {"model": "2PL", "engine": "made"})


POSTERIOR = drawn()


def at_draw(posterior: Posterior, s: int) -> tuple[np.ndarray, ...]:
    """Return residuals y - n p, their variances and third moments, and the draw."""
    theta, a, d = (posterior.draws(name)[s] for name in ("theta", "a", "d"))
    p, n = expit(theta[:, None] * a + d), posterior.trials
    w = n * p * (1 - p)
    return posterior.successes - n * p, w, w * (1 - 2 * p), theta, a, d


def standardised(z: np.ndarray) -> np.ndarray:
    """Return means over draws, divided by their standard deviation under the model."""
    return z.mean(0) / np.sqrt(1 - z.var(0, ddof=1) * (1 - 1 / len(z)))


@pytest.mark.parametrize("link", ["logit", "probit", "guessing"])
def test_moments_of_residuals_are_those_of_all_outcomes(link):
    n = 3
    y = np.arange(n + 1)[:, None]
    floor = jnp.array([0.1, 0.3])
    further = (floor,) if link == "guessing" else ()
    draw = Draw(jnp.zeros(n + 1), jnp.ones(2), jnp.array([0.7, -1.2]), further)
    cells = residuals(link, Counts(jnp.asarray(y + 0 * y.T[:, :2]), jnp.full((n + 1, 2), n)), draw)
    right = {"logit": expit(draw.d), "probit": jax.scipy.special.ndtr(draw.d)}
    right["guessing"] = floor + (1 - floor) * right["logit"]
    p = np.array(right[link])
    chance = np.array([1, 3, 3, 1])[:, None] * p**y * (1 - p) ** (n - y)
    np.testing.assert_allclose((chance * cells.score).sum(0), 0, atol=1e-12)
    np.testing.assert_allclose((chance * cells.score**2).sum(0), cells.weight[0], rtol=1e-10)
    np.testing.assert_allclose((chance * cells.score**3).sum(0), cells.third[0], rtol=1e-8)
    np.testing.assert_allclose(cells.excess, y - n * p, atol=1e-12)


def test_skewed_sums_become_normal():
    shape = 16.0
    z = np.array([-2.0, 0.0, 3.0, 4.5])
    found = to_normal(jnp.asarray(z), jnp.full(4, 2 / np.sqrt(shape)))
    np.testing.assert_allclose(
        found, ndtri(gamma.cdf(shape + np.sqrt(shape) * z, shape)), rtol=0.005
    )
    np.testing.assert_allclose(
        to_normal(jnp.asarray(-z), jnp.full(4, -2 / np.sqrt(shape))), -found, atol=1e-12
    )


def test_a_statistic_of_which_nothing_is_left_is_not_tested():
    z = np.random.default_rng(0).normal(size=(50, 2)) * [0.5, 1]
    found = StandardisedSums(jnp.asarray(z.sum(0)), jnp.asarray((z**2).sum(0))).deviate(50)
    assert 1 - z[:, 1].var() < LEAST_SHARE
    np.testing.assert_allclose(found, [standardised(z)[0], np.nan])


def test_adjusted_p_values_leave_out_what_was_not_tested():
    p = np.array([0.01, np.nan, 0.04, 0.03])
    np.testing.assert_allclose(adjusted(p), [0.03, np.nan, 0.04, 0.04])
    assert np.isnan(adjusted(np.full(2, np.nan))).all()


@pytest.mark.parametrize("fixed", [False, True])
def test_item_fit_is_the_score_of_the_bend_given_slope_and_intercept(fixed):
    posterior = drawn(fixed=fixed)
    z = []
    for s in range(S):
        e, w, third, theta, *_ = at_draw(posterior, s)
        order = np.argsort(theta)
        below = np.empty_like(w)
        below[order] = np.cumsum(w[order], 0) - w[order] / 2
        u = 2 * below / w.sum(0) - 1
        c = np.empty_like(w)
        for j in range(J):
            x = np.ones((N, 1)) if fixed else np.c_[np.ones(N), theta]
            start = theta if fixed else u[:, j] ** 2
            c[:, j] = start - x @ np.linalg.solve(
                (w[:, j, None] * x).T @ x, x.T @ (w[:, j] * start)
            )
        variance = (c**2 * w).sum(0)
        skewness = (c**3 * third).sum(0) / variance**1.5
        z.append(to_normal(jnp.asarray((c * e).sum(0) / np.sqrt(variance)), jnp.asarray(skewness)))
    table = item_fit(posterior)
    tested = table["z"].notna()
    assert tested.sum() > J / 2
    np.testing.assert_allclose(table["z"][tested], standardised(np.array(z))[tested], rtol=1e-7)
    words = {"steeper", "flatter"} if fixed else {"both ends better", "both ends worse"}
    assert set(table["direction"][tested]) <= words


def test_person_fit_is_the_standardised_log_likelihood_given_ability():
    z = []
    for s in range(S):
        e, w, third, theta, a, d = at_draw(POSTERIOR, s)
        eta = theta[:, None] * a + d
        c = eta - a * ((w * a * eta).sum(1) / (w * a**2).sum(1))[:, None]
        variance = (c**2 * w).sum(1)
        skewness = (c**3 * third).sum(1) / variance**1.5
        z.append(to_normal(jnp.asarray((c * e).sum(1) / np.sqrt(variance)), jnp.asarray(skewness)))
    table = person_fit(POSTERIOR)
    tested = table["z"].notna()
    assert tested.sum() > N / 2
    np.testing.assert_allclose(table["z"][tested], standardised(np.array(z))[tested], rtol=1e-7)


def brute_pairs(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Return z of all pairs at each draw, and which pairs are tested."""
    draws, tested = [], True
    for s in range(S):
        e, w, third, _, a, _ = at_draw(posterior, s)
        information = (w * a**2).sum(1, keepdims=True)
        left = e - w * a * (e @ a)[:, None] / information
        row = []
        for j, k in itertools.combinations(range(J), 2):
            shared = w[:, j] * w[:, k] * a[j] * a[k] / information[:, 0]
            v = [w[:, m] - w[:, m] ** 2 * a[m] ** 2 / information[:, 0] for m in (j, k)]
            variance = (v[0] * v[1] + shared**2).sum()
            skewness = (third[:, j] * third[:, k]).sum() / variance**1.5
            z = ((left[:, j] * left[:, k]).sum() + shared.sum()) / np.sqrt(variance)
            known = variance >= 2 and abs(skewness) <= 1
            row.append(float(to_normal(jnp.asarray(z), jnp.asarray(skewness))) if known else np.nan)
        draws.append(row)
    z = np.array(draws)
    tested = np.isfinite(z).all(0)
    return z, tested


@pytest.mark.parametrize("size", [J, 4])
def test_pairs_are_residual_products_in_excess_of_what_one_ability_leaves(size, monkeypatch):
    monkeypatch.setattr(item_pairs, "_BLOCK", size)
    z, tested = brute_pairs(POSTERIOR)
    variance = z[:, tested].var(0, ddof=1).mean() * (1 - 1 / S)
    found = local_dependence(POSTERIOR)
    assert found.n_tested == tested.sum() > 20
    names = np.array(list(itertools.combinations(POSTERIOR.items, 2)))[tested]
    expected = pd.Series(
        z[:, tested].mean(0) / np.sqrt(1 - variance), pd.MultiIndex.from_arrays(names.T)
    )
    own = found.pairs.set_index(["item_1", "item_2"])["z"]
    own.index = pd.MultiIndex.from_tuples([tuple(sorted(x)) for x in own.index])
    np.testing.assert_allclose(own[expected.index], expected, rtol=1e-7)
    both = (POSTERIOR.trials > 0).astype(int)
    common = pd.DataFrame(both.T @ both, POSTERIOR.items, POSTERIOR.items)
    row = found.pairs.iloc[0]
    assert row["n_subjects"] == common.loc[row["item_1"], row["item_2"]]
    one, other = (POSTERIOR.items.index(row[x]) for x in ("item_1", "item_2"))
    theta, a, d = (POSTERIOR.draws(x) for x in ("theta", "a", "d"))
    p = expit(theta[:, :, None] * a[:, None] + d[:, None]).mean(0)
    excess = (POSTERIOR.successes - POSTERIOR.trials * p)[both[:, one] * both[:, other] > 0]
    assert row["q3"] == pytest.approx(np.corrcoef(excess[:, one], excess[:, other])[0, 1])
    assert found.pairs["q3"].abs().max() < 1


def test_dependent_pairs_are_those_of_benjamini_and_hochberg():
    rng = np.random.default_rng(1)
    theta = rng.normal(size=300)
    y = (rng.uniform(size=(300, 8)) < expit(theta[:, None])).astype(int)
    y[:, 1], y[:20, 1] = y[:, 0], 1 - y[:20, 0]
    found = local_dependence(posterior_of(y, theta=theta))
    pairs = found.pairs
    assert pairs.iloc[0][["item_1", "item_2"]].tolist() == ["item 1", "item 2"]
    assert pairs["z"].iloc[0] > 10
    np.testing.assert_array_equal(pairs["dependent"], adjusted(pairs["p"].to_numpy()) <= 0.1)
    assert found.n_dependent == pairs["dependent"].sum() < 5


@pytest.mark.parametrize("shape", [(20, 6), (200, 3)])
def test_pairs_that_cannot_be_tested_are_left_out(shape):
    found = local_dependence(posterior_of(np.indices(shape).sum(0) % 2))
    assert (found.n_tested, found.n_dependent, len(found.pairs)) == (0, 0, 0)


def test_two_abilities_are_refused():
    with pytest.raises(ResponseError, match="one ability"):
        check_fit(of_two_abilities(), key=jax.random.key(0))


def test_totals_count_subjects_and_items():
    totals = check_totals(POSTERIOR, key=jax.random.key(0))
    table = totals.summary
    right, total = POSTERIOR.successes.sum(1), POSTERIOR.trials.sum(1)
    own = table[table["of"] == "subjects"]
    counts = [np.sum((20 * right >= k * total) & (20 * right < (k + 1) * total)) for k in range(20)]
    counts[-1] += (right == total).sum()
    np.testing.assert_array_equal(own["observed"], counts)
    np.testing.assert_allclose(table.groupby("of")["expected"].sum()[["items", "subjects"]], [J, N])
    assert (table["low"] <= table["high"]).all()


def test_totals_tell_that_abilities_are_not_normal():
    """Abilities form two distant groups; with 400 replications the smallest p is 1 / 401."""
    rng = np.random.default_rng(0)
    theta = np.repeat([-1.0, 1.0], 50)
    y = rng.uniform(size=(100, 40)) < expit(theta[:, None])
    posterior = posterior_of(y * 1, theta=np.tile(theta, (400, 1)))
    totals = check_totals(posterior, key=jax.random.key(0))
    assert totals.p_subjects < 0.01 < 0.05 < totals.p_items


def test_calibration_is_pava_of_bins_with_bands_by_chance():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=4000)
    n = np.ones(4000, int)
    right = check_calibration(p, rng.binomial(1, p), n, key=jax.random.key(0))
    assert right.p > 0.01
    assert "are calibrated" in right.to_text()
    table = right.summary
    assert (table["calibrated"].diff().dropna() >= 0).all()
    assert table["n"].sum() == 4000
    inside = (table["low"] <= table["calibrated"]) & (table["calibrated"] <= table["high"])
    assert inside.mean() > 0.7
    wrong = check_calibration(p, rng.binomial(1, p**2), n, key=jax.random.key(0))
    assert wrong.p == pytest.approx(1 / 1001)
    assert wrong.error == pytest.approx(1 / 6, abs=0.03)


def test_errors_of_a_gain_let_subjects_and_items_be_random():
    gain, trials = np.outer([1.0, -1.0, 3.0], np.ones(2)), np.ones((3, 2), int)
    off = gain - 1
    assert clustered_error(gain, trials) == pytest.approx(np.sqrt((off.sum(1) ** 2).sum() * 1.5))


def test_rasch_fits_the_spread_of_abilities():
    rng = np.random.default_rng(0)
    theta, d = 2 * rng.normal(size=400), rng.normal(size=20)
    y = jnp.asarray(rng.uniform(size=(400, 20)) < expit(theta[:, None] + d), int)
    layout = DenseLayout(y, jnp.ones_like(y))
    items, beliefs = fit_rasch(layout, tolerance=1e-7, max_iterations=100)
    mean, covariance = beliefs.abilities
    assert np.sqrt((mean**2 + covariance[:, :, 0]).mean()) == pytest.approx(2, abs=0.2)
    np.testing.assert_allclose(items.d, d, atol=0.6)
    assert beliefs.unknown[:, 0, 0].max() < 1e-8
    assert np.isfinite(log_scores(layout, items, beliefs)).all()


def test_held_out_answers_are_each_predicted_once(small):
    found = predict_held_out(small, key=jax.random.key(0))
    table = found.summary.set_index("model")
    assert len(found.predicted) == small.n_observed
    assert ((found.predicted > 0) & (found.predicted < 1)).all()
    y = found.successes
    own = np.log(np.where(y == 1, found.predicted, 1 - found.predicted)).mean()
    assert table.loc["2PL", "log_score"] == pytest.approx(own, abs=1e-6)
    assert table.loc["2PL", ["ahead", "se"]].tolist() == [0, 0]
    assert table.loc["items alone", "share"] == 0
    assert table.loc["2PL", "share"] == 1


def fitted(ahead: float, se: float, share: float, **changes: object) -> FitCheck:
    """Return a check in which two abilities improve the log score by `ahead`."""
    table = pd.DataFrame(
        {
            "model": ["items alone", "Rasch", "2PL", "2 abilities"],
            "log_score": [-0.6, -0.51, -0.5, -0.5 + ahead],
            "ahead": [-0.1, -0.01, 0, ahead],
            "se": [0.01, 0.001, 0, se],
            "share": [0, 0.9, 1, share],
        }
    )
    pairs = pd.DataFrame({"item_1": ["x"], "item_2": ["y\n"], "q3": [0.42]})
    nothing = np.zeros(0, int)
    calibration = check_calibration(
        np.full(40, 0.5), np.arange(40) % 2, np.ones(40, int), key=jax.random.key(0)
    )
    check = FitCheck(
        pd.DataFrame({"misfits": [False, False]}),
        pd.DataFrame({"misfits": [False, True]}),
        LocalDependence(pairs, 10, 1, 0.1),
        check_totals(POSTERIOR, key=jax.random.key(0)),
        HeldOut(table, np.zeros(0), nothing, nothing, 2, 2),
        calibration,
    )
    return replace(check, **changes)


@pytest.mark.parametrize(
    ("ahead", "share", "answer", "words"),
    [
        (0.001, 1.01, "well", "One ability explains these answers well"),
        (0.004, 1.04, "nearly", "One ability explains nearly all of these answers"),
        (0.01, 1.1, "no", "by 0.0100 (standard error 0.0010) per answer, 10% of"),
        (0.0, np.nan, "well", "These answers hardly tell subjects apart"),
    ],
)  # fmt: skip
def test_verdict_weighs_how_sure_and_how_large_the_gain_is(ahead, share, answer, words):
    check = fitted(ahead, 0.001, share)
    assert check.one_ability == answer
    text = check.to_text()
    assert words in text
    assert text.startswith(check.held_out.in_short())
    assert "x with y·" in text
    assert "1 of 2 subjects miss easy items and get hard ones right" in text
    assert "Rasch" not in text


@pytest.mark.parametrize(
    ("negative", "agreement", "words"),
    [
        (0.47, np.nan, "about 47% of the items run against the others"),
        (0.0, 0.59, "ability and accuracy correlate at only 0.59 (Spearman)"),
    ],
)
def test_items_that_do_not_point_one_way_are_not_explained(negative, agreement, words):
    check = fitted(0.0, 0.001, 1.0, direction=Direction(negative, agreement))
    assert check.one_ability == "no"
    assert check.to_text().startswith(f"One ability does not explain these answers: {words}.")
    assert words in check.warning
    assert "sorted by their accuracy" in check.warning
    assert fitted(0.0, 0.001, 1.0, direction=Direction(0.25, 0.8)).warning == ""
    assert "10% of the first ability's gain" in fitted(0.01, 0.001, 1.1).warning


def test_a_run_that_one_ability_does_not_explain_is_led_by_accuracy(
    small_run, monkeypatch, capsys, tmp_path
):
    astray = fitted(0.0, 0.001, 1.0, direction=Direction(0.5, 0.5))
    monkeypatch.setattr("bayesirt.checks.fit.fit_check.check_fit", lambda *_, **__: astray)
    run = small_run.with_fit()
    assert run.ranking.by_score
    assert run.ranking.warnings[-1] == run.record.diagnostics["misfit"] == astray.warning
    assert (np.diff(run.ranking.summary["accuracy"]) <= 0).all()
    names = run.ranking.summary["subject"].tolist()
    assert run.ranking.pairwise.index.tolist() == names
    assert "Rank by ability" not in run.ranking.average.to_text()
    assert ranking_as_json(run)["misfit"] == astray.warning
    print_run(run, tmp_path)
    assert capsys.readouterr().out.count("One ability does not explain") == 1
    by_name = small_run.ranking.summary.set_index("subject")["p_best"]
    best = run.ranking.rank_probabilities[:, 0]
    np.testing.assert_allclose(best.argmax(), by_name.loc[names].argmax())


def test_a_gain_over_nothing_has_no_share():
    text = fitted(0.01, 0.001, np.nan).to_text()
    assert "does not explain these answers" in text
    assert "nan" not in text


def test_a_run_that_was_saved_is_checked_as_it_was_before(small_run, tmp_path, monkeypatch):
    """The check of fit gets the same key and the same numbers."""
    given = []

    def looked(posterior: Posterior, *, key: jax.Array, progress: bool) -> None:
        given.append((posterior, jax.random.key_data(key)))
        raise ResponseError("seen")

    monkeypatch.setattr("bayesirt.checks.fit.fit_check.check_fit", looked)
    monkeypatch.setattr("bayesirt.cli.existing_run.prepare_jax", lambda: None)
    small_run.with_fit()
    save_run(small_run, tmp_path, "")
    for seed in (None, small_run.record.settings.seed):
        with pytest.raises(ResponseError, match="seen"):
            fit_check(tmp_path, seed, as_json=True)
    (before, key), *again = given
    assert len(again) == 2
    for posterior, own in again:
        np.testing.assert_array_equal(own, key)
        for name in ("theta", "a", "d"):
            np.testing.assert_array_equal(posterior[name], before[name])
            assert posterior[name].dtype == before[name].dtype
        np.testing.assert_array_equal(posterior.successes, before.successes)
        np.testing.assert_array_equal(posterior.trials, before.trials)


@pytest.mark.slow
def test_a_wide_table_is_checked_in_part(monkeypatch):
    monkeypatch.setattr(wide, "WIDE", N * J - 1)
    monkeypatch.setattr(wide, "MOST_SUBJECTS", 40)
    monkeypatch.setattr(wide, "FEW_DRAWS", 4)
    check = check_fit(POSTERIOR, key=jax.random.key(0))
    assert "were checked on 40 of 60 subjects drawn at random" in check.to_text()
    assert check.items["item"].tolist() == POSTERIOR.items
    assert check.subjects["subject"].tolist() == POSTERIOR.subjects
    assert check.pairs["n_subjects"].max() <= 40
    of = check.totals.summary.groupby("of")["observed"].sum()
    assert of["subjects"] == 40
    few = wide.few_draws(POSTERIOR)
    np.testing.assert_array_equal(few.theta, POSTERIOR.theta[1::2])


def test_what_was_predicted_meanwhile_is_what_a_check_predicts(small, small_run):
    key = fit_key(small_run.record.settings.seed)
    meanwhile = predict_meanwhile(small, key)
    fit = replace(small_run, held_out=meanwhile).with_fit().fit
    assert fit.held_out is meanwhile.result()
    again = check_fit(small_run.posterior, key=key)
    assert fit.to_text() == again.to_text()
    pd.testing.assert_frame_equal(fit.summary, again.summary)


def test_draws_are_checked_by_what_was_compiled_for_the_point_estimate(small, small_run):
    """The shape is that of no other test."""
    posterior = posterior_of(np.indices((21, 13)).sum(0) % 2, theta=np.zeros((30, 21)))
    responses = Responses.from_arrays(posterior.successes)
    ones = {
        "theta": ("subject", np.ones(21)),
        "a": ("item", np.ones(13)),
        "d": ("item", np.ones(13)),
    }
    point = replace(small_run.point, parameters=xr.Dataset(ones))
    known = predict_meanwhile(small, jax.random.key(0))
    compile_meanwhile(known, responses, point, LOGIT).result()
    with CountCompilations() as compiled:
        item_fit(posterior)
        person_fit(posterior)
        local_dependence(posterior)
        check_totals(posterior, key=jax.random.key(0))
    assert compiled() == 0


def test_a_table_that_cannot_be_checked_keeps_its_predictions(small, small_run):
    known = predict_meanwhile(small, jax.random.key(0))
    few = Responses.from_arrays(np.eye(4, 2))
    assert compile_meanwhile(known, few, small_run.point, LOGIT).result() is known.result()


def test_an_interrupted_check_loses_nothing(small_run, monkeypatch):
    def interrupted(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bayesirt.checks.fit.fit_check.check_fit", interrupted)
    run = small_run.with_fit()
    assert run.fit is None
    assert run.posterior is small_run.posterior
    assert "was not checked: the check was interrupted" in run.record.diagnostics["fit"]
    assert run.record.diagnostics["fit"] in render_report(run)
