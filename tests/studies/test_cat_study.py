"""The adaptive-testing study simulates as specified, runs tests and counts correctly.

Most tests use items with small errors instead of calibrated ones.
"""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, ndtr
from sent_tasks import without_processes
from tiny_studies import CAT as TINY
from tiny_studies import nearly_known

from bayesirt.inference.ability_belief import ItemDraws
from bayesirt.posterior import Posterior
from bayesirt.studies import cat
from bayesirt.studies.cat import (
    CAT_QUICK,
    METHODS,
    RHO,
    Subjects,
    Track,
    calibrate,
    cat_found,
    cat_study,
    draw_items,
    draw_subjects,
    length_table,
    measure_columns,
    measure_track,
    stop_table,
    take_tests,
)


@pytest.mark.parametrize("model", ["2pl", "lart"])
def test_banks_and_subjects_are_as_stated(model):
    rng = np.random.default_rng(1)
    items = draw_items(model, 4, rng)
    subjects = draw_subjects(model, items, 40_000, rng)
    assert subjects.theta.std() == pytest.approx(1, abs=0.02)
    share = (expit if model == "2pl" else ndtr)(subjects.theta[:, None] * items.a + items.d)
    np.testing.assert_allclose(subjects.right.mean(0), share.mean(0), atol=0.015)
    slope = np.cov(subjects.theta, subjects.log_latency[:, 0])[0, 1]
    assert slope == pytest.approx(-RHO * items.phi[0], abs=0.04)
    spread = items.phi**2 + items.lam
    np.testing.assert_allclose(subjects.log_latency.var(0), spread, rtol=0.04)


def test_a_test_asks_no_item_twice_and_stops_at_its_length(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    items = ItemDraws.of(nearly_known("2pl", 12))
    subjects = draw_subjects("2pl", draw_items("2pl", 12, np.random.default_rng(0)), 30, rng)
    told, step = [], cat._step

    def remember(items, answers, *others):
        told.append(answers)
        return step(items, answers, *others)

    monkeypatch.setattr(cat, "_step", remember)
    orders = {}
    for method in METHODS:
        told.clear()
        track = take_tests(method, items, "logit", subjects, 6, np.random.default_rng(3))
        assert track.mean.shape == (7, 30)
        np.testing.assert_allclose(track.mean[0], 0, atol=1e-6)
        asked, last = told[-1].item, told[-1]
        assert all(len(set(row)) == 6 for row in asked.tolist())
        np.testing.assert_array_equal(last.trials, 1)
        right = np.take_along_axis(subjects.right, asked, 1)
        np.testing.assert_array_equal(last.successes, right)
        assert [int(np.asarray(a.trials).sum()) for a in told] == [30 * n for n in range(7)]
        orders[method] = asked.copy()
    assert (orders["fixed"] == orders["fixed"][0]).all()
    assert (orders["random"][:, 0] != orders["random"][0, 0]).any()
    assert (orders["variance"][:, 0] == orders["variance"][0, 0]).all()
    assert (orders["variance"] != orders["variance"][0]).any()
    assert orders["fixed"][0, 0] == orders["variance"][0, 0]


def made_track() -> tuple[Track, Subjects]:
    """Return the track of two subjects after 0, 1 and 2 answers."""
    mean = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 0.0]])
    half = np.array([[2.0, 2.0], [0.4, 1.0], [1.5, 0.4]])
    subjects = Subjects(np.array([1.0, 0.2]), np.zeros((2, 4), int), np.zeros((2, 4)))
    return Track(mean, mean - half, mean + half), subjects


def test_tests_are_measured_by_hand():
    rows = pd.DataFrame(measure_track(*made_track(), (1.0, 0.5)))
    assert list(rows) == measure_columns((1.0, 0.5))
    assert rows["answers"].tolist() == [0, 1, 2]
    np.testing.assert_allclose(rows["squared_error"], [0.52, 0.17, 0.02])
    np.testing.assert_allclose(rows["squared_error_sd"][0], np.std([1.0, 0.04], ddof=1))
    np.testing.assert_allclose(rows["width"], [4, 1.4, 1.9])
    np.testing.assert_allclose(rows["covered"], [1, 0.5, 1])
    # The first stops after one answer, when .5 ± .4 does not contain 1; the second after two.
    np.testing.assert_allclose(rows["stopped_1"], [0, 0.5, 1])
    np.testing.assert_allclose(rows["held_1"], [0, 0, 0.5])
    np.testing.assert_allclose(rows["stopped_0.5"], 0)


def test_tables_are_counted_by_hand():
    rows = pd.DataFrame(measure_track(*made_track(), (1.0, 0.5)))
    both = pd.concat([
        rows.assign(model="2pl", method=method, replication=k)
        for k in (0, 1) for method in ("variance", "random")
    ])  # fmt: skip
    lengths = length_table(both)
    assert list(lengths["method"].unique()) == ["variance", "random"]
    row = lengths.set_index(["method", "answers"]).loc[("random", 1)]
    assert row["subjects"] == 4
    assert row["rmse"] == pytest.approx(np.sqrt(0.17))
    assert row["rmse_se"] == pytest.approx(rows["squared_error_sd"][1] / 2 / (2 * np.sqrt(0.17)))
    assert (row["coverage"], row["coverage_se"]) == (0.5, 0.25)
    stops = stop_table(both, (1.0, 0.5)).set_index(["method", "stop_width"]).drop(columns="model")
    np.testing.assert_array_equal(stops.loc[("variance", 1.0)], [1, 1, 1.5, 0.5])
    np.testing.assert_array_equal(stops.loc[("variance", 0.5)], [0, np.nan, 2, np.nan])


def test_the_verdict_hears_intervals_that_do_not_hold():
    table = pd.DataFrame(measure_track(*made_track(), TINY.stops))
    table = table.assign(subjects=500, held_2=table["stopped_2"])
    parts = [
        table.assign(model="2pl", method=m, replication=0, covered=0.9 if m == "random" else 0.7)
        for m in METHODS
    ]
    poor = cat_found(pd.concat(parts), TINY)
    assert poor.claims["verdict"].iloc[-1] == "does not hold"
    assert poor.claims["here"].iloc[-1] == pytest.approx(0.7)
    fine = cat_found(pd.concat([part.assign(covered=0.9) for part in parts]), TINY)
    assert fine.claims["verdict"].iloc[-1] == "holds"


def test_a_quick_study_calibrates_its_banks_and_finds_that_choosing_items_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    without_processes(monkeypatch)
    off: dict[tuple[str, str], float] = {}

    def noted(model: str, subjects: Subjects, *, key: jax.Array) -> Posterior:
        posterior = calibrate(model, subjects, key=key)
        for name in ("a", "d") + (("phi", "omega", "lam") if model == "lart" else ()):
            draws = posterior.draws(name)
            z = (draws.mean(0) - getattr(truths[-1], name)) / draws.std(0)
            off[model, name] = np.sqrt((z**2).mean())
        return posterior

    truths = []

    def drawn(*of: object) -> object:
        truths.append(draw_items(*of))
        return truths[-1]

    monkeypatch.setattr(cat, "calibrate", noted)
    monkeypatch.setattr(cat, "draw_items", drawn)
    design = replace(CAT_QUICK, sizes=replace(CAT_QUICK.sizes, calibrating=100))
    study = cat_study(design, key=jax.random.key(1), folder=tmp_path, n_processes=2)
    assert len(off) == 2 + 5
    assert max(off.values()) < 2, off
    last = study.tables["answers"][study.tables["answers"]["answers"] == CAT_QUICK.sizes.answers]
    rows = last.set_index(["model", "method"])
    for model in ("2pl", "lart"):
        for method in ("information", "variance"):
            assert rows.loc[(model, method), "rmse"] < 0.9 * rows.loc[(model, "random"), "rmse"]
            assert rows.loc[(model, method), "width"] < rows.loc[(model, "fixed"), "width"]
            assert abs(rows.loc[(model, method), "coverage"] - 0.9) < 5 * 0.034
