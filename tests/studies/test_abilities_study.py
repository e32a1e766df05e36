"""The abilities study divides data, predicts and counts correctly, and reports its findings.

Quick estimates replace the models where the study itself is tested.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import spearmanr
from tiny_studies import ABILITIES as TINY
from tiny_studies import by_shares, made_point

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.posterior import Posterior
from bayesirt.studies import abilities_consistency, abilities_unseen
from bayesirt.studies.abilities import (
    ABILITIES_QUICK,
    AbilitiesDesign,
    abilities_study,
    matrix_tasks,
)
from bayesirt.studies.abilities_consistency import (
    ESTIMATES,
    HALVES,
    Profile,
    accuracies,
    consistency_rows,
)
from bayesirt.studies.abilities_matrix import (
    draw_suite,
    given_matrix,
    measure_posterior,
    papers_q_matrix,
    simulated_matrix,
    study_q_matrix,
)
from bayesirt.studies.abilities_tables import consistency_table, coverage_table, criterion_table
from bayesirt.studies.abilities_unseen import (
    PREDICTORS,
    Division,
    auc,
    divide,
    fit_all,
    learnt_chances,
    log_score,
    measure,
    neutral_chances,
    predictions,
    shared_accuracies,
    similarity,
    split_items,
    subject_aucs,
)
from bayesirt.studies.measures import read_printed
from bayesirt.studies.tasks import PortableKey

KEY = PortableKey.of(jax.random.key(3))
N_TASKS = 1 + 2 + 3
ANSWERS = np.array([[1, 0, 1, 1, 0, 1], [1, 1, 0, 0, 0, 0]])
NEEDS = np.array([[1, 0], [1, 0], [1, 1], [0, 1], [1, 0], [0, 1]], bool)


def made_matrix(groups: dict[str, str] | None = None):
    responses = Responses.from_arrays(np.tile(ANSWERS, (3, 2)))
    return given_matrix(responses, QMatrix.from_arrays(np.tile(NEEDS, (2, 1))), groups)


def made_division() -> Division:
    """Return items 1 to 4 for training; items 5 and 6 need one ability each."""
    responses = Responses.from_arrays(ANSWERS[:, :4])
    q = QMatrix.from_arrays(NEEDS[:4], responses.items)
    trials = np.ones((2, 2), int)
    return Division(responses, q, NEEDS[4:], np.arange(2), np.array([4, 5]), ANSWERS[:, 4:], trials)


@pytest.fixture
def quick_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (abilities_unseen, abilities_consistency):
        monkeypatch.setattr(module, "fit_all", by_shares)


@pytest.mark.parametrize("seed", range(5))
def test_auc_is_the_share_of_pairs_in_order(seed: int):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, 9) / 3
    right, wrong = rng.integers(0, 3, 9), rng.integers(0, 3, 9)
    pairs = [
        0.5 * (a == b) + (a > b)
        for a, n in zip(scores, right, strict=True)
        for b, m in zip(scores, wrong, strict=True)
        for _ in range(n * m)
    ]
    assert auc(scores, right, wrong) == pytest.approx(np.mean(pairs), rel=1e-12)
    assert np.isnan(auc(scores, right, 0 * wrong))


def test_measures_by_hand():
    p = np.array([[0.9, 0.2, 0.5], [0.4, 0.4, 0.4]])
    successes, trials = np.array([[1, 0, 1], [2, 0, 0]]), np.array([[1, 1, 2], [2, 0, 1]])
    np.testing.assert_allclose(subject_aucs(p, successes, trials), [(1 + 1 + 1 + 0.5) / 4, 0.5])
    chances = [0.9, 0.8, 0.5, 0.5, 0.4, 0.4, 0.6]
    assert log_score(p, successes, trials) == pytest.approx(-np.log(chances).sum() / 7)


def test_accuracies_of_shared_items_by_hand():
    np.testing.assert_allclose(
        similarity(NEEDS[4:], NEEDS[:4]), [[1, 1, 1 / 2, 0], [0, 0, 1 / 2, 1]]
    )
    found = shared_accuracies(made_division(), NEEDS[4:])
    total = 5 / 8
    overall = (np.array([3, 2]) + total) / 5
    np.testing.assert_allclose(found["accuracy"], np.repeat(overall[:, None], 2, 1))
    items = np.array([(1 + 0.5 + 0.25 + total) / 3.5, (0.25 + 0.5 + total) / 2.5])
    np.testing.assert_allclose(found["items"], np.tile(items, (2, 1)))
    own = np.array([[1 + 0.5, 0.5 + 1], [1 + 1, 0]]) + overall[:, None]
    own /= [3.5, 2.5]
    np.testing.assert_allclose(found["own items"], own)
    np.testing.assert_allclose(logit(found["both"]), (logit(own) + logit(items)) / 2)
    additive = logit(overall)[:, None] + logit(items) - logit(total)
    np.testing.assert_allclose(logit(found["additive"]), additive)


def test_a_certain_fit_gives_the_models_chance():
    theta = np.array([[1.0, -0.5], [0.2, 2.0]])
    q = QMatrix.from_arrays(NEEDS[:4])
    point = made_point(q, theta, se=0.0)
    rows = np.array([[1, 1], [0, 1]], bool)
    slopes, beta = np.exp(0.1) * rows, rows @ [-0.5, 0.5]
    np.testing.assert_allclose(
        learnt_chances(point, rows), expit(theta @ slopes.T - 0.2 + beta), rtol=1e-10
    )
    np.testing.assert_allclose(neutral_chances(point, rows), expit(theta @ rows.T), rtol=1e-10)


def test_chances_integrate_over_abilities_and_items():
    theta = np.array([[1.0, -0.5], [0.2, 2.0]])
    point = made_point(QMatrix.from_arrays(NEEDS[:4]), theta, 0.5, sigma_a=0.4, sigma_d=0.8)
    rows = np.array([[1, 1], [0, 1]], bool)
    rng, n = np.random.default_rng(0), 400_000
    drawn = theta + 0.5 * rng.normal(size=(n, 2, 2))
    for j, row in enumerate(rows):
        a = np.exp(0.1 + 0.4 * rng.normal(size=(n, 1, 2))) * row
        d = -0.2 + row @ [-0.5, 0.5] + 0.8 * rng.normal(size=(n, 1))
        exact = expit((a * drawn).sum(2) + d).mean(0)
        np.testing.assert_allclose(learnt_chances(point, rows)[:, j], exact, atol=0.01)
        exact = expit((drawn * row).sum(2)).mean(0)
        np.testing.assert_allclose(neutral_chances(point, rows)[:, j], exact, atol=0.003)


def test_predictors_are_what_their_names_say():
    division = made_division()
    fits = by_shares(division, key=None, trained=0)
    found = predictions(division, fits, made_matrix())
    assert list(found) == [name for name in PREDICTORS if not name.startswith("true")]
    for name in ("accuracy", "2pl"):
        assert (np.ptp(found[name], axis=1) == 0).all()
    for name in ("items", "learnt, average", "neural, average"):
        assert (np.ptp(found[name], axis=0) == 0).all()
    for name in ("learnt", "neural"):
        np.testing.assert_allclose(found[f"{name}, average"][0], found[name].mean(0))
        profile = found[f"{name}, profile"]
        np.testing.assert_allclose(profile.mean(0), 0, atol=1e-12)
        np.testing.assert_allclose(np.diff(logit(found[name]), axis=0), np.diff(profile, axis=0))
    rows = np.array([[1, 0], [1, 0], [0, 1]], bool)
    twice = replace(division, needs=rows)
    for p in predictions(twice, fits, made_matrix()).values():
        assert (p[:, 0] == p[:, 1]).all()


def test_true_chances_are_those_of_the_simulation():
    matrix = simulated_matrix((12, 60, 4), key=jax.random.key(0))
    division = divide(matrix, *split_items(60, 0, KEY))
    found = predictions(division, by_shares(division, key=None, trained=0), matrix)
    truth = matrix.truth
    slopes = np.zeros(matrix.q.needs.shape)
    slopes[matrix.q.loadings] = truth["a"]
    p = expit(truth["theta"].to_numpy() @ slopes.T + truth["d"].to_numpy())
    np.testing.assert_allclose(found["true chances"], p[:, division.items])
    rows = matrix.q.needs[division.items]
    level = truth["mu_d"].item() + rows @ truth["beta"].to_numpy()
    no_spread = truth.assign(sigma_a=0.0, sigma_d=0.0)
    exact = predictions(
        division, by_shares(division, key=None, trained=0), replace(matrix, truth=no_spread)
    )["true abilities"]
    np.testing.assert_allclose(exact, expit(truth["theta"].to_numpy() @ rows.T + level))


def test_splits_are_disjoint_and_whole():
    seen = set()
    for number in range(5):
        for share, n_test in ((0.1, 3), (0.5, 15)):
            train, test = split_items(30, number, KEY, share)
            assert len(test) == n_test
            np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(30))
            seen.add(tuple(test))
    assert len(seen) == 10
    assert [len(x) for x in split_items(4, 0, KEY)] == [3, 1]


def test_a_division_leaves_out_what_cannot_be_told():
    answers = np.array([[1, 0, np.nan, 1], [0, 1, np.nan, 0], [np.nan, np.nan, 1, 1]])
    responses = Responses.from_arrays(answers)
    q = QMatrix.from_arrays([[1, 0], [1, 0], [0, 1], [1, 1]])
    groups = np.full(4, -1)
    matrix = SimpleNamespace(responses=responses, q=q, groups=(), group=groups, truth=None)
    division = divide(matrix, np.array([0, 1]), np.array([2, 3]))
    assert division.q.abilities == ("ability 1",)
    assert division.subjects.tolist() == [0, 1]
    assert division.items.tolist() == [3]
    assert division.needs.tolist() == [[True]]
    assert division.successes.tolist() == [[1], [0]]
    nothing = divide(matrix, np.array([0, 1]), np.array([2]))
    found = {name: np.zeros((2, 0)) for name in ("items", "learnt")}
    row = measure(found, nothing)["learnt"]
    assert row["new_items"] == 0
    assert np.isnan(row["auc"])


def test_what_no_item_tells_has_an_auc_of_a_half():
    division = made_division()
    found = predictions(division, by_shares(division, key=None, trained=0), made_matrix())
    measured = measure(found, division)
    for name in ("accuracy", "2pl"):
        assert measured[name]["auc"] == 0.5
    assert measured["items"]["above_items"] == 0
    assert measured["items"]["subjects"] == 1
    difference = measured["learnt"]["auc"] - measured["items"]["auc"]
    assert measured["learnt"]["above_items"] == pytest.approx(difference)
    assert np.isnan(measured["learnt, profile"]["log_score"])


def test_the_simulated_q_matrix_is_like_the_papers():
    q = papers_q_matrix(748, 35, np.random.default_rng(0))
    shares = q.needs.mean(0)
    assert (np.diff(shares[:5]) < 0).all()
    np.testing.assert_allclose(shares[:3], [0.59, 0.45, 0.25], atol=0.08)
    assert q.needs.sum(0).min() >= 3
    assert (shares < 0.06).sum() >= 20
    counts = read_printed("abilities_printed").query("table == 'coverage'")["value"]
    assert len(counts) == 35
    assert (counts / 748 > 0.4).sum() == 2
    assert papers_q_matrix(30, 3, np.random.default_rng(0)).n_abilities == 3


def test_the_prints_are_the_papers():
    table = read_printed("abilities_printed").set_index(["table", "quantity", "place"])
    printed = table["value"].sort_index()
    assert printed["consistency", "median rho", "benchmark pairs"] == 0.66
    within = printed["within", "mean AUC"]
    assert within["MMLU-MATH"] == pytest.approx(0.8508)
    assert within["chemistry"] == 0.7664
    across = printed["across", "mean AUC"]
    assert len(across) == 6
    assert across.between(0.77, 0.86).all()


def test_consistency_by_hand():
    rng = np.random.default_rng(1)
    n_items = np.array([12, 12, 5])
    first, second = (
        Profile(n_items, {name: rng.normal(size=(20, 3)) for name in ESTIMATES}) for _ in "ab"
    )
    first.levels["q-mirt"][:3, 0] = np.nan
    places = pd.MultiIndex.from_product([range(3), ESTIMATES])
    rows = pd.DataFrame(consistency_rows(first, second), index=places)
    assert len(rows) == 3 * len(ESTIMATES)
    a, b = first.levels["q-mirt"], second.levels["q-mirt"]
    found = rows.loc[(0, "q-mirt")]
    assert found["rho"] == pytest.approx(spearmanr(a[3:, 0], b[3:, 0])[0])
    others = [spearmanr(a[3:, 0], b[3:, 1])[0], spearmanr(b[:, 0], a[:, 1])[0]]
    assert found["rho_others"] == pytest.approx(np.mean(others))
    outside = [
        spearmanr(a[3:, 0], second.accuracy[3:, 0])[0], spearmanr(b[:, 0], first.accuracy[:, 0])[0],
    ]  # fmt: skip
    assert found["held_out"] == pytest.approx(np.mean(outside))
    assert found["items_one"] == 12


def test_accuracy_by_ability_by_hand():
    responses = Responses.from_arrays([[1, 0, np.nan], [1, 1, 0], [0, np.nan, 1]])
    of_ability, overall = accuracies(responses, np.array([[1, 0], [1, 0], [0, 1]], bool))
    np.testing.assert_allclose(of_ability, [[0.5, np.nan], [1, 0], [0, 1]])
    np.testing.assert_allclose(overall, [0.5, 2 / 3, 0.5])


def criterion_rows(rho: list[float], items: list[int], name: str = "q-mirt") -> pd.DataFrame:
    return pd.DataFrame({
        "ability": range(len(rho)), "method": name, "items": items, "rho": rho,
        "rho_true": np.nan,
    })  # fmt: skip


def made_consistency() -> pd.DataFrame:
    return pd.DataFrame({
        "one": [HALVES, HALVES, 0, HALVES], "other": [HALVES, HALVES, 1, HALVES],
        "repetition": [0, 1, 0, 0], "ability": [0, 0, 0, 1], "method": "q-mirt",
        "items_one": [11, 12, 13, 10], "items_other": [12, 11, 13, 40],
        "rho": [0.6, 0.4, 0.9, 0.1], "rho_others": [0.5, 0.3, 0.2, 0.1],
        "held_out": [0.8, 0.7, 0.1, 0.1],
    })  # fmt: skip


def test_strengths_are_counted_as_the_paper_counts():
    rows = criterion_rows([0.9, 0.7, 0.5, 0.31, 0.3, 0.99], [11, 11, 11, 11, 11, 10])
    table = criterion_table(rows, made_consistency()).set_index("criterion")
    same = table.loc["the same items"]
    assert same[["abilities", "strong", "moderate", "weak", "none"]].tolist() == [5, 1, 1, 2, 1]
    assert same["median_rho"] == 0.5
    held_out = table.loc["held-out items"]
    assert (held_out["abilities"], held_out["median_rho"]) == (1, pytest.approx(0.75))
    assert "true ability" not in table.index


def test_consistency_counts_abilities_with_more_than_ten_items_on_both_sides():
    table = consistency_table(made_consistency(), ["x", "y"]).set_index("items")
    halves = table.loc["halves of the items"]
    assert halves["median_rho"] == pytest.approx(0.5)
    assert (halves["abilities"], halves["share_moderate"]) == (1, 0.5)
    assert halves["median_rho_others"] == pytest.approx(0.4)
    assert table.loc["x and y", "median_rho"] == 0.9


def test_coverage_is_counted_by_hand():
    base = {
        f"{name}_{what}": 1.0
        for name in ("theta", "a", "d", "correlation")
        for what in ("covered", "n", "width")
    }
    more = {"rho_theta": 0.8, "r_hat_above": 0.1, "r_hat_highest": 1.02, "ess_lowest": 90.0}
    size = {"n_subjects": 5, "n_items": 4, "n_abilities": 2}
    rows = [
        {**size, **base, **more, "theta_covered": covered, "theta_n": 10.0}
        for covered in (8.0, 10.0, 10.0, 8.0)
    ]
    theta = coverage_table(pd.DataFrame(rows)).set_index("quantity").loc["theta"]
    assert theta["coverage"] == pytest.approx(0.9)
    low = 0.9 - 3.18245 * np.sqrt(4 / 3 * 4) / 40
    assert (theta["low"], theta["high"]) == pytest.approx((low, 1.0))
    assert theta["binomial_se"] == pytest.approx(np.sqrt(0.9 * 0.1 / 40))


def test_intervals_are_compared_with_the_truth():
    q = study_q_matrix(12, 3, np.random.default_rng(0))
    assert (q.needs.sum(1)[:3] == 1).all()
    suite = draw_suite(8, q, key=jax.random.key(1))
    assert suite.parameters["theta"].shape == (8, 3)
    rng = np.random.default_rng(0)
    draws = {
        name: suite.parameters[name]
        + 0.01 * rng.normal(size=(2, 200, *suite.parameters[name].shape))
        for name in ("theta", "a", "d", "correlation")
    }
    draws["d"] = draws["d"] + 1
    dims = {"theta": ["subject", "k"], "a": ["loading"], "correlation": ["k", "l"]}
    posterior = Posterior.from_samples(draws, {}, suite.responses, {}, dims=dims)
    found = measure_posterior(suite, posterior)
    assert (found["theta_covered"], found["theta_n"]) == (24, 24)
    assert (found["a_n"], found["correlation_n"], found["correlation_covered"]) == (
        q.n_loadings, 3, 3,
    )  # fmt: skip
    assert (found["d_covered"], found["d_n"]) == (0, 12)
    assert found["theta_width"] == pytest.approx(0.01 * 2 * 1.645, rel=0.1)
    assert found["rho_theta"] > 0.999


@pytest.mark.usefixtures("quick_fits")
def test_benchmarks_are_predicted_from_each_other(tmp_path: Path):
    names = [f"item {j}" for j in range(1, 13)]
    matrix = made_matrix(dict(zip(names, ["x", "y"] * 6, strict=True)))
    study = abilities_study(
        TINY, key=jax.random.key(0), responses=matrix.responses, q=matrix.q,
        groups=dict(zip(names, ["x", "y"] * 6, strict=True)), folder=tmp_path,
    )  # fmt: skip
    ways = study.tables["across_benchmarks"].groupby(["source", "target"])["new_items"].first()
    assert ways.to_dict() == {("x", "y"): 6, ("y", "x"): 6}
    row = study.tables["across_benchmarks"].query("source == 'x' and method == 'learnt'").iloc[0]
    said = study.claims.set_index("claim")["here"]
    assert said["From x to y, of 6 items those that need an ability of the former's"] == 6
    assert said[f"From x to y, AUC, {PREDICTORS['learnt']}"] == row["auc"]
    assert set(study.tables["unseen_items"]["method"]).isdisjoint(
        {"true abilities", "true chances"}
    )
    study.save(tmp_path)
    assert (tmp_path / "across_benchmarks.csv").exists()
    assert not (tmp_path / "intervals.csv").exists()


@pytest.mark.usefixtures("quick_fits")
def test_benchmarks_that_share_no_ability_are_said_to():
    answers = np.random.default_rng(0).integers(0, 2, (12, 30))
    responses = Responses.from_arrays(answers)
    q = QMatrix.from_arrays(np.repeat(np.eye(2), 15, 0), responses.items, ["x", "y"])
    groups = dict(zip(responses.items, ["x"] * 15 + ["y"] * 15, strict=True))
    study = abilities_study(
        TINY, key=jax.random.key(0), responses=responses, q=q, groups=groups
    )  # fmt: skip
    nothing = study.claims[study.claims["verdict"] == "nothing can be predicted"]
    assert nothing["here"].tolist() == [0, 0]
    assert nothing["claim"].str.startswith(("From x to y", "From y to x")).all()
    assert study.tables["across_benchmarks"]["auc"].isna().all()


@pytest.mark.usefixtures("quick_fits")
def test_abilities_that_cannot_be_told_apart_are_named():
    matrix = made_matrix()
    needs = np.c_[matrix.q.needs, matrix.q.needs[:, 0]]
    q = QMatrix.from_arrays(needs, matrix.q.items)
    study = abilities_study(TINY, key=jax.random.key(0), responses=matrix.responses, q=q)
    assert "'ability 1', 'ability 3'" in study.to_text()
    whole = abilities_study(TINY, key=jax.random.key(0), responses=matrix.responses, q=matrix.q)
    assert "'ability 1'" not in whole.to_text()


def test_what_cannot_be_studied_is_one_sentence():
    matrix = made_matrix()
    one = dict.fromkeys(matrix.responses.items, "x")
    with pytest.raises(ResponseError, match="all items are of the benchmark 'x'"):
        given_matrix(matrix.responses, matrix.q, one)
    small = Responses.from_arrays(np.tri(6, 5))
    with pytest.raises(ResponseError, match="at least 5 subjects and 10 items"):
        given_matrix(small, QMatrix.from_arrays(np.ones((5, 1)), small.items))


def test_large_matrices_get_no_full_posterior(monkeypatch: pytest.MonkeyPatch):
    matrix = made_matrix()
    parts = [t.places[0][0] for t in matrix_tasks(ABILITIES_QUICK, matrix, KEY)]
    assert parts.count("agreement") == 1
    monkeypatch.setattr("bayesirt.studies.abilities.MOST_DRAWN", 10)
    parts = [t.places[0][0] for t in matrix_tasks(ABILITIES_QUICK, matrix, KEY)]
    assert "agreement" not in parts


def test_the_network_is_shown_as_many_answers_whatever_the_size():
    division = made_division()
    fits = fit_all(division, key=jax.random.key(0), trained=400)
    assert fits.neural.settings["epochs"] == 50
    assert fits.neural.settings["decay_epochs"] == 12
    assert fits.plain["theta"].shape == (2, 1)
    assert fits.q_mirt["theta"].shape == (2, 2)


def test_a_reduced_study_finds_what_holds_and_what_does_not(tmp_path: Path):
    design = AbilitiesDesign(
        ((60, 20, 2),), 4, 150, (40, 120, 4), splits=1, halves=1, posterior_draws=100,
        trained=40_000,
    )  # fmt: skip
    study = abilities_study(design, key=jax.random.key(2), folder=tmp_path)
    study.save(tmp_path)
    assert {"intervals.svg", "full_posterior.csv"} <= {p.name for p in tmp_path.iterdir()}
    theta = study.tables["intervals"].set_index("quantity").loc["theta"]
    assert theta["values"] == 4 * 60 * 2
    assert 0.8 < theta["coverage"] < 0.98
    agreement = study.tables["full_posterior"].iloc[0]
    print(agreement)
    assert agreement["correlation"] > 0.97
    assert agreement["mean_difference"] < 0.05
    assert abs(agreement["log_score_point"] - agreement["log_score_posterior"]) < 0.03
    rows = study.tables["unseen_items"].set_index("method")
    print(rows[["auc", "log_score"]])
    assert rows.loc["true chances", "auc"] > rows.loc["true abilities", "auc"] - 0.02
    assert rows.loc["true chances", "log_score"] < rows.loc["learnt", "log_score"]
    assert rows.loc["learnt", "log_score"] < rows.loc["accuracy", "log_score"]
    same = study.tables["criteria"].set_index(["criterion", "method"])["median_rho"]
    assert same["the same items", "q-mirt"] > same["held-out items", "q-mirt"]
    assert same["the same items", "overall"] > 0.6
