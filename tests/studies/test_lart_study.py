"""The LaRT study simulates, divides data and measures correctly, and resumes."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from lart_data import simulate_lart, some_missing, with_lengths
from scipy.stats import norm
from tiny_studies import LART as TINY
from tiny_studies import NAMES, SUFFIXES, quick_fit
from tiny_studies import lart_matrix as tiny_matrix

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.lart_em import fit_lart
from bayesirt.estimators.lart_intervals import ability_intervals
from bayesirt.point_estimate import PointEstimate
from bayesirt.simulate import Simulation
from bayesirt.studies import lart_matrix_tasks
from bayesirt.studies.claims import claim_table
from bayesirt.studies.lart import LART_QUICK, LaRTDesign, lart_study
from bayesirt.studies.lart_matrix import (
    Cells,
    Items,
    criterion_table,
    item_information,
    read_criterion,
    resampled_rho,
    rho_curves,
    score_abilities,
    with_criterion,
)
from bayesirt.studies.lart_matrix_tasks import (
    PREDICTIONS,
    adaptive_abilities,
    agreement_of_sets,
    base_subjects,
    distances,
    first_subjects,
    item_folds,
    item_task,
    predict_left_out,
    prediction_table,
    prediction_task,
    resampled_mean,
    subject_folds,
    subject_task,
)
from bayesirt.studies.lart_suites import (
    Condition,
    coverage_table,
    draw_suite,
    measure_point,
    recovery_table,
    rmse,
    saem_table,
)
from bayesirt.studies.lart_tables import simulation_claims
from bayesirt.studies.measures import read_printed, with_answers
from bayesirt.studies.tasks import PortableKey


@pytest.fixture(scope="module")
def fitted():
    responses, truth = simulate_lart(20, 10, seed=1)
    return responses, truth, fit_lart(responses)


def test_the_default_design_is_the_papers():
    design = LaRTDesign()
    assert (design.replications, design.saem_replications) == (200, 200)
    assert design.conditions[:-1] == [Condition(n, 50, -0.8) for n in (100, 200, 500)]
    assert design.conditions[-1].n_items < 50
    assert LART_QUICK.replications == 20
    assert design.replications_of("saem spectral", 3) == 0
    assert LART_QUICK.replications_of("lart posterior", 0) == 3
    assert LART_QUICK.replications_of("lart posterior", 1) == 0


def test_suites_have_the_stated_parameters():
    suite = draw_suite(Condition(4000, 200, -0.8), np.random.default_rng(0))
    truth = suite.parameters
    for name, low, high in (("a", 0.5, 1), ("phi", 0.5, 1.5), ("lam", 0.5, 2)):
        assert low <= truth[name].min() < low + 0.05
        assert high - 0.05 < truth[name].max() <= high
    assert truth["d"].var() == pytest.approx(0.5, abs=0.25)  # 5 standard errors
    assert truth["omega"].var() == pytest.approx(1, abs=0.5)
    assert np.corrcoef(truth["theta"], truth["tau"])[0, 1] == pytest.approx(-0.8, abs=0.03)
    p = norm.cdf(truth["theta"][:, None] * truth["a"] + truth["d"])
    right = suite.responses.cells.matrices()[0]
    assert abs((right - p).sum() / np.sqrt((p * (1 - p)).sum())) < 5
    x = np.log(suite.responses.latency).reshape(p.shape)
    residual = x - truth["omega"] + truth["tau"][:, None] * truth["phi"]
    np.testing.assert_allclose(residual.var(0) / truth["lam"], 1, atol=0.12)


@pytest.mark.parametrize("kind", ["asymptotic", "finite"])
def test_intervals_are_equation_ten_and_its_finite_form(fitted, kind):
    responses, _, point = fitted
    table = ability_intervals(point, responses, kind=kind, level=0.8)
    a, d, rho = point["a"], point["d"], float(point["rho"])
    eta = point["theta"][:, None] * a + d
    p = norm.cdf(eta)
    information = (a**2 * norm.pdf(eta) ** 2 / (p * (1 - p))).sum(1)
    of_lengths = (point["phi"] ** 2 / point["lam"]).sum()
    before = 1 / (1 - rho**2)
    if kind == "finite":
        before = 1 + rho**2 / (1 - rho**2 + 1 / of_lengths)
    np.testing.assert_allclose(table["sd"], (before + information) ** -0.5, rtol=1e-9)
    reach = 1.2815515655446004 * table["sd"]
    np.testing.assert_allclose(table["high"] - point["theta"], reach, rtol=1e-9)
    np.testing.assert_allclose(point["theta"] - table["low"], reach, rtol=1e-9)


def test_finite_intervals_follow_the_lengths_that_were_seen():
    responses = some_missing(20, 10)
    point = fit_lart(responses)
    wide, narrow = (ability_intervals(point, responses, kind=k) for k in ("finite", "asymptotic"))
    assert (wide["sd"] > narrow["sd"]).all()
    x = Cells.of(responses).x
    x[3] = np.nan
    unheard = ability_intervals(point, with_lengths(responses, x))
    changed = (unheard["sd"] / wide["sd"]).to_numpy()
    assert changed[3] > 1 + 1e-6
    np.testing.assert_allclose(np.delete(changed, 3), 1, rtol=1e-12)
    plain = fit_lart(responses, lengths=False)
    both = [ability_intervals(plain, responses, kind=k)["sd"] for k in ("finite", "asymptotic")]
    np.testing.assert_array_equal(*both)


def test_intervals_refuse_what_does_not_fit(fitted):
    responses, _, point = fitted
    with pytest.raises(ValueError, match="`kind` must be one of asymptotic, finite"):
        ability_intervals(point, responses, kind="wald")
    with pytest.raises(ValueError, match="between 0 and 1"):
        ability_intervals(point, responses, level=90)
    with pytest.raises(ResponseError, match="have different subjects or items"):
        ability_intervals(point, tiny_matrix())


def test_a_perfect_estimate_has_no_error_and_intervals_are_counted(fitted):
    responses, truth, point = fitted
    row = measure_point(Simulation(truth, responses), point, 1.5)
    assert row["rmse_theta"] == pytest.approx(
        np.sqrt(np.mean((point["theta"] - truth["theta"]) ** 2))
    )
    assert row["rmse_rho"] == pytest.approx(abs(float(point["rho"]) + 0.8))
    z = np.abs(point["theta"] - truth["theta"]) / point["theta_se"]
    assert row["cover_given_items"] == pytest.approx((z <= 1.6448536269514722).mean())
    own = {name: point[name] for name in truth}
    assert measure_point(Simulation(own, responses), point, 0)["rmse_lam"] == 0
    assert rmse(np.zeros(4), np.array([1.0, -1, 1, -1])) == 1


@pytest.mark.parametrize("lengths", [True, False])
def test_scores_on_the_grid_are_those_of_the_quadrature(fitted, lengths):
    responses = fitted[0]
    point = fitted[2] if lengths else fit_lart(responses, lengths=False)
    scores = score_abilities(Items.of(point), Cells.of(responses))
    np.testing.assert_allclose(scores.mean, point["theta"], atol=1e-4)  # the error of eleven nodes
    sd = np.sqrt(scores.probability @ np.linspace(-6, 6, 601) ** 2 - scores.mean**2)
    np.testing.assert_allclose(sd, point["theta_se"], rtol=1e-3)


def test_scores_see_nothing_that_is_left_out(fitted):
    responses, _, point = fitted
    items, cells = Items.of(point), Cells.of(responses)
    kept = np.arange(10) < 7
    changed = Cells(*(m.copy() for m in cells))
    changed.successes[:, 7:] = 1 - changed.successes[:, 7:]
    changed.x[:, 7:] += 3
    one, other = (score_abilities(items, c, kept, kept) for c in (cells, changed))
    np.testing.assert_array_equal(one.mean, other.mean)
    with_length = score_abilities(items, changed, kept)
    assert np.abs(with_length.mean - one.mean).min() > 1e-3
    part = items._replace(**{n: getattr(items, n)[:7] for n in ("a", "d", "phi", "omega", "lam")})
    alone = score_abilities(part, cells.columns(np.arange(7)))
    np.testing.assert_allclose(alone.mode, one.mode, atol=1e-9)


def test_predictions_left_out_are_scored_by_hand():
    a, zero, one = np.ones(2), np.zeros(2), np.ones(2)
    items = Items(a, np.array([0.0, 0.5]), zero, zero, one, 0.0)
    cells = Cells(np.array([[1.0, 0.0]]), np.ones((1, 2)), np.full((1, 2), np.nan))
    error, score = predict_left_out(items, cells, [np.array([0]), np.array([1])], False)
    grid = np.linspace(-8, 8, 20001)
    expected_error, expected_score = 0.0, 0.0
    for target, other in ((0, 1), (1, 0)):
        right = cells.successes[0]
        sign = 2 * right - 1
        density = norm.pdf(grid) * norm.cdf(sign[other] * (grid + items.d[other]))
        mode = grid[density.argmax()]
        p = (density * norm.cdf(grid + items.d[target])).sum() / density.sum()
        expected_error += abs(right[target] - norm.cdf(mode + items.d[target])) / 2
        expected_score -= np.log(p if right[target] else 1 - p) / 2
    np.testing.assert_allclose(error, expected_error, atol=1e-3)
    np.testing.assert_allclose(score, expected_score, atol=1e-6)


def test_folds_are_disjoint_and_no_group_is_split():
    rng = np.random.default_rng(0)
    groups = base_subjects(NAMES, SUFFIXES)
    np.testing.assert_array_equal(groups[::2], groups[1::2])
    assert len(set(groups)) == 10
    folds = subject_folds(groups, 5, rng)
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(20))
    assert [len(fold) for fold in folds] == [4] * 5
    for fold in folds:
        assert not set(groups[fold]) & set(groups[np.setdiff1d(np.arange(20), fold)])
    items = item_folds(13, 5, rng)
    np.testing.assert_array_equal(np.sort(np.concatenate(items)), np.arange(13))
    assert {len(fold) for fold in items} == {2, 3}
    assert any((np.diff(fold) > 1).any() for fold in items)
    order = first_subjects(groups, rng)
    assert sorted(order) == list(range(20))
    np.testing.assert_array_equal(groups[order][::2], groups[order][1::2])


def test_items_without_an_answer_among_the_chosen_are_left_out():
    answers = np.array([[1, 0, np.nan], [0, 1, np.nan], [1, 1, 1], [0, 0, 1]])
    responses = Responses.from_arrays(answers)
    subjects, items = with_answers(responses, np.array([0, 1]), np.arange(3))
    assert (list(subjects), list(items)) == ([0, 1], [0, 1])
    assert list(with_answers(responses, np.arange(4), np.array([2]))[0]) == [2, 3]


def test_agreement_of_sets_by_hand():
    theta = np.array([[0.0, 2, 4, 9], [2.0, 2, 6, np.nan]])
    found = agreement_of_sets(theta, np.array([[1.0, 2, 3, 4], [3.0, 2, 1, 4]]))
    assert found["subjects"] == 3
    assert found["variance_sum"] == pytest.approx(1 + 0 + 1)
    assert found["within_share"] == pytest.approx((2 / 3) / np.var([0, 2, 4, 2, 2, 6]))
    assert found["rho_sets"] == pytest.approx(np.sqrt(3) / 2)
    assert found["rho_rest"] == pytest.approx((1 - np.sqrt(3) / 2) / 2)


def test_distances_by_hand():
    whole = {"a": np.zeros(3), "d": np.ones(3)}
    found = {"a": np.array([3.0, -4.0, np.nan]), "d": np.array([1.0, 2.0, 4.0])}
    assert distances(found, whole) == pytest.approx(
        {
            "distance_a": np.sqrt(12.5),
            "typical_a": 3.5,
            "distance_d": np.sqrt(10 / 3),
            "typical_d": 1,
        }
    )


def test_each_next_item_is_the_most_telling_and_only_once(fitted):
    responses, _, point = fitted
    items, cells = Items.of(point), Cells.of(responses)
    found = adaptive_abilities(items, cells, [3, 4, 10])
    first = np.arange(10) < 3
    start = score_abilities(items, cells, first, first).mean
    np.testing.assert_allclose(found[3], start, atol=1e-12)
    told = item_information(items, start)
    told[:, :3] = -1
    mask = np.tile(first, (20, 1))
    mask[np.arange(20), told.argmax(1)] = True
    assert len(set(told.argmax(1))) > 1
    np.testing.assert_allclose(found[4], score_abilities(items, cells, mask, mask).mean, atol=1e-10)
    np.testing.assert_allclose(found[10], score_abilities(items, cells).mean, atol=1e-9)


def test_items_that_were_not_run_are_not_asked():
    responses = some_missing(20, 10)
    items, cells = Items.of(fit_lart(responses)), Cells.of(responses)
    found = adaptive_abilities(items, cells, [4, 10])
    np.testing.assert_allclose(found[10], score_abilities(items, cells).mean, atol=1e-9)


def test_rho_curves_peak_where_em_is_and_intervals_hold(fitted):
    responses, _, point = fitted
    curves = rho_curves(Items.of(point), Cells.of(responses))
    grid = np.tanh(np.linspace(-3, 3, 301))
    assert grid[curves.sum(0).argmax()] == pytest.approx(float(point["rho"]), abs=0.01)
    rng = np.random.default_rng(0)
    low, high = resampled_rho(curves, np.arange(20), rng)
    assert low < float(point["rho"]) < high
    twice = np.concatenate([curves, curves])
    paired = resampled_rho(twice, np.tile(np.arange(20), 2), np.random.default_rng(1))
    apart = resampled_rho(twice, np.arange(40), np.random.default_rng(1))
    assert paired[1] - paired[0] > 1.2 * (apart[1] - apart[0])


def test_the_mean_of_groups_is_resampled_by_group():
    values = np.repeat([0.0, 1.0], 50)
    rng = np.random.default_rng(0)
    low, high = resampled_mean(values, np.arange(100), rng)
    assert 0.4 < low < 0.45 < 0.55 < high < 0.6
    assert resampled_mean(values, np.repeat([0, 1], 50), rng) == (0, 1)


def prediction_rows(values: dict[str, list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "repetition": 0, "split": 0.0, "subject": float(k), "method": name,
            "absolute_error": value, "log_score": 2 * value,
        }
        for name, column in values.items()
        for k, value in enumerate(column)
    )  # fmt: skip


def test_gains_are_over_irt():
    rows = prediction_rows({"irt": [0.3, 0.5], "lart": [0.2, 0.3], "lart length": [0.4, 0.5]})
    table = prediction_table(rows, np.arange(2), np.random.default_rng(0))
    table = table.set_index(["method", "measure"])
    assert table.loc[("lart", "absolute_error"), "gain"] == pytest.approx(0.15)
    assert table.loc[("lart", "log_score"), "value"] == pytest.approx(0.5)
    assert table.loc[("lart length", "absolute_error"), "high"] == pytest.approx(0, abs=1e-12)
    assert table.loc[("lart length", "absolute_error"), "low"] == pytest.approx(-0.1)
    assert set(table["split"]) == {"by row"}


def made_rows() -> pd.DataFrame:
    rows = []
    for k, (lart_error, irt_error) in enumerate([(0.1, 0.2), (0.3, 0.2), (0.2, 0.6), (0.2, 0.4)]):
        place = {"n_subjects": 100, "n_items": 50, "rho": -0.8, "replication": float(k)}
        measured = {
            f"rmse_{n}": lart_error for n in ("theta", "a", "d", "phi", "omega", "lam", "rho")
        }
        intervals = {f"{w}_{i}": 0.5 + k / 10 for w in ("cover", "width")
                     for i in ("asymptotic", "finite", "given_items")}  # fmt: skip
        rows.append({**place, "method": "lart", "loss": 10.0 + k, "converged": 1.0,
                     **measured, **intervals})  # fmt: skip
        rows.append({**place, "method": "irt", "loss": 3.0, "converged": 1.0, **intervals,
                     **{f"rmse_{n}": irt_error for n in ("theta", "a", "d")}})  # fmt: skip
        if k < 2:
            rows.append({**place, "method": "saem burn-in", "loss": 10.5 + 2 * k, **measured})
    return pd.DataFrame(rows)


def test_tables_by_hand():
    rows = made_rows()
    recovery = recovery_table(rows).set_index("parameter")
    assert recovery.loc["theta", "lart_wins"] == 0.75
    assert recovery.loc["theta", "lart"] == pytest.approx(0.2)
    assert recovery.loc["theta", "irt"] == pytest.approx(0.35)
    assert recovery.loc["d", ["gain", "gain_se"]].tolist() == pytest.approx(
        [0.15, np.std([0.1, -0.1, 0.4, 0.2], ddof=1) / 2]
    )
    assert np.isnan(recovery.loc["phi", "lart_wins"])
    saem = saem_table(rows).set_index("method")
    assert saem.loc["lart", ["replications", "gap"]].tolist() == [2, 0]
    assert saem.loc["saem burn-in", "gap"] == pytest.approx(1.0)
    assert saem.loc["saem burn-in", "largest_gap"] == pytest.approx(1.5)
    assert saem.loc["lart", "rmse_a"] == pytest.approx(0.2)
    cover = coverage_table(rows).set_index(["method", "interval"])
    assert cover.loc[("lart", "finite"), "coverage"] == pytest.approx(0.65)
    assert cover.loc[("lart", "finite"), "coverage_se"] == pytest.approx(np.sqrt(1 / 60) / 2)
    assert ("irt", "finite") not in cover.index


def test_what_is_said_of_the_simulation_follows_its_tables():
    rows = made_rows()
    spectral = rows[rows["method"] == "saem burn-in"].assign(method="saem spectral", loss=10.4)
    rows = pd.concat([rows, spectral.assign(rmse_a=0.25)], ignore_index=True)
    recovery = recovery_table(rows)
    seconds = pd.DataFrame({
        "n_subjects": 100, "n_items": 50, "rho": -0.8, "method": ["lart"], "seconds": [0.1],
        "converged": [0.75],
    })  # fmt: skip
    tables = (recovery, seconds, saem_table(rows), coverage_table(rows))
    said = claim_table(simulation_claims(*tables)).set_index("claim")
    title = "Simulated, 100 x 50, rho -0.8, 4 suites, RMSE of θ"
    found = [said.loc[f"{title}, {what}", "here"] for what in
             ("LaRT", "probit IRT", "share where LaRT's is smaller",
              "IRT's minus LaRT's")]  # fmt: skip
    assert found == pytest.approx([0.2, 0.35, 0.75, 0.15])
    gains = said[said.index.str.endswith("IRT's minus LaRT's")]["verdict"]
    assert set(gains) == {"not told from 0"}
    assert said.loc["Median seconds of a fit, 100 x 50, rho -0.8, lart"].tolist()[-1] == (
        "25% did not converge"
    )
    apart = said[said.index.str.contains("largest difference")].iloc[0]
    assert apart["here"] == pytest.approx(0.05)
    assert apart["verdict"] == "the spectral start ends closer to the optimum"
    assert said[said.index.str.contains("after the burn-in")]["verdict"].item() == "no outliers"
    sure = recovery.assign(gain_se=[0.01] * 2 + [np.nan] * 5)
    said = claim_table(simulation_claims(sure, *tables[1:])).set_index("claim")
    gains = said[said.index.str.endswith("IRT's minus LaRT's")]["verdict"]
    assert gains.tolist() == ["above 0", "above 0", "not told from 0"]


def test_printed_figures_are_the_papers_tables():
    printed = read_printed("lart_printed")
    table_one = printed[printed["table"] == "prediction"]
    for method, average in (("lart", 0.183), ("irt", 0.269)):
        own = table_one[table_one["method"] == method].set_index("place")["value"]
        assert own["average"] == average
        assert own.drop("average").mean() == pytest.approx(average, abs=6e-4)
    assert printed["source"].str.startswith("Xu et al. (2026), ").all()
    assert len(printed[printed["table"] == "subject_efficiency"]) == 16


def test_the_criterion_is_read_and_checked(tmp_path: Path):
    path = tmp_path / "c.csv"
    path.write_text("subject,value\na,1.5\nb,\nc,-2\n")
    assert read_criterion(path) == {"a": 1.5, "c": -2.0}
    path.write_text("subject,value\na,much\n")
    with pytest.raises(ResponseError, match="'much' for 'a'; a value must be a number"):
        read_criterion(path)
    subjects = pd.DataFrame({"subject": ["a", "b"]})
    with pytest.raises(ResponseError, match="1 of its subjects are in the responses"):
        with_criterion(subjects, {"a": 1.0, "z": 2.0})


def test_criterion_correlations_by_hand():
    rng = np.random.default_rng(0)
    outside = rng.normal(size=60)
    known = pd.DataFrame({
        "group": np.arange(60), "criterion": outside, "accuracy": outside**3,
        "theta_irt": rng.normal(size=60), "theta_lart": 2 * outside + 1,
    })  # fmt: skip
    table = criterion_table(known, rng).set_index(["coefficient", "method"])
    assert table.loc[("Pearson", "lart"), "value"] == pytest.approx(1)
    assert table.loc[("Spearman", "accuracy"), "value"] == pytest.approx(1)
    assert table.loc[("Pearson", "accuracy"), "value"] < 0.95
    irt = np.corrcoef(outside, known["theta_irt"])[0, 1]
    gain = table.loc[("Pearson", "lart less irt")]
    assert gain["value"] == pytest.approx(1 - irt)
    assert 0 < gain["low"] < gain["value"] < gain["high"]


def test_each_subject_is_predicted_once_by_items_of_others(monkeypatch):
    responses, trained = tiny_matrix(), []

    def watch(name: str, part: Responses) -> PointEstimate:
        trained.append(set(part.subjects))
        return quick_fit(name, part)

    monkeypatch.setattr(lart_matrix_tasks, "fit_model", watch)
    groups = base_subjects(NAMES, SUFFIXES)
    key = PortableKey.of(jax.random.key(0))
    task = prediction_task(0, 1, responses, groups, key)
    assert len(task.work()) == len(task.places)
    wanted = [("prediction", (0, 1, i, name)) for i in range(20) for name in PREDICTIONS]
    assert sorted(task.places) == sorted(wanted)
    assert len(trained) == 10
    for names in trained:
        assert len(names) == 16
        assert all(
            {f"s{k}_one", f"s{k}_zero"} <= names or f"s{k}_one" not in names for k in range(10)
        )


def test_tasks_say_which_rows_they_return():
    responses, key = tiny_matrix(), PortableKey.of(jax.random.key(0))
    subjects = subject_task(0, responses, np.arange(20), key)
    assert sorted({place[1] for _, place in subjects.places}) == [7, 11, 14, 18]
    assert len(set(subjects.places)) == 8
    assert {place[0] for _, place in item_task(responses).places} == {10}


def test_what_cannot_be_studied_is_refused_before_work_begins():
    key, responses = jax.random.key(0), tiny_matrix()
    with pytest.raises(ResponseError, match="needs the length or time"):
        lart_study(TINY, key=key, responses=replace(responses, latency=None))
    few = responses.select(np.arange(20), np.arange(9))
    with pytest.raises(ResponseError, match="at least 10 subjects and 10 items, got 20 and 9"):
        lart_study(TINY, key=key, responses=few)
    with pytest.raises(ResponseError, match="a criterion needs the responses"):
        lart_study(TINY, key=key, criterion={"a": 1.0})
    with pytest.raises(ResponseError, match="the criterion is not informative"):
        lart_study(TINY, key=key, responses=responses, criterion={"nobody": 1.0})


def test_posteriors_are_measured_beside_the_closed_forms():
    design = replace(TINY, replications=1, saem_replications=0, drawn_replications=1,
                     drawn_sizes=(20,), draws=60)  # fmt: skip
    study = lart_study(design, key=jax.random.key(0))
    cover = study.tables["coverage"].set_index(["method", "interval"])
    drawn = cover.loc[("lart posterior", "posterior")]
    assert 0.6 <= drawn["coverage"] <= 1
    assert drawn["width"] > cover.loc[("lart", "finite"), "width"]
    assert "full posterior" in study.to_text()
