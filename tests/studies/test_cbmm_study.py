"""The cBMM study simulates as specified, measures correctly and reports its findings."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from tiny_studies import CBMM as TINY

from bayesirt.data.responses import Responses
from bayesirt.point_estimate import PointEstimate
from bayesirt.studies import cbmm_tasks
from bayesirt.studies.cbmm import CBMM_QUICK, CBMMDesign
from bayesirt.studies.cbmm_tables import (
    level_correlations,
    level_table,
    levels_of,
    redundancy_table,
    stability_table,
)
from bayesirt.studies.cbmm_tasks import (
    Condition,
    Fit,
    Suite,
    accuracy_of,
    agreement,
    base_values,
    draw_suite,
    fit_timed,
    hellinger,
    measure_fit,
    methods_for,
    missing_by_place,
    observed,
    on_sample_scale,
    random_start,
    relative_error,
    start_task,
    variation,
)
from bayesirt.studies.measures import read_printed
from bayesirt.studies.tasks import PortableKey

N_CONDITIONS = 7
N_TASKS = N_CONDITIONS + 1


def test_the_default_design_is_the_papers():
    design = CBMMDesign()
    assert (design.replications, design.size) == (50, (1000, 1000))
    assert design.sizes == (200, 500, 1000, 2000, 5000)
    assert design.temperatures == (-0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75)
    assert design.sparsities == (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
    assert (design.starts, design.variances) == (50, (1, 2, 3, 4, 5))
    found = [(c.factor, c.n_subjects, c.n_items) for c in design.conditions]
    assert found.count(("base", 1000, 1000)) == 1
    assert ("items", 1000, 5000) in found
    assert ("subjects", 200, 1000) in found
    assert len(found) == 1 + 4 + 4 + 6 + 4 + 4 + 4 + 6 + 4
    assert len(TINY.conditions) == N_CONDITIONS
    assert CBMM_QUICK.size < design.size


def test_suites_have_the_stated_parameters():
    size = 400, 500
    suite = draw_suite(Condition("temperature", -0.5, *size), np.random.default_rng(0))
    assert suite.temperature == pytest.approx(10**-0.5)
    assert 0.5 <= suite.a.min() < 0.51 < 0.99 < suite.a.max() <= 1
    assert suite.d.var() == pytest.approx(0.5, abs=0.16)  # 5 standard errors
    p = expit((suite.theta[:, None] * suite.a + suite.d) / suite.temperature)
    right = suite.responses.cells.matrices()[0]
    z = (right - p).sum() / np.sqrt((p * (1 - p)).sum())
    assert abs(z) < 5
    sparse = draw_suite(Condition("sparsity", 0.3, *size), np.random.default_rng(0))
    assert (sparse.a == 0).sum() == 150
    assert sparse.a[sparse.a > 0].min() >= 0.5
    spread = draw_suite(Condition("spread", 0.8, 4, 100_000), np.random.default_rng(1))
    assert variation(spread.a) == pytest.approx(0.8, abs=0.02)
    assert spread.a.mean() == pytest.approx(0.75, abs=0.02)
    assert base_values(10, 20)["spread"] == pytest.approx(np.sqrt(0.25 / 12) / 0.75)


def test_cells_missing_at_random_follow_the_formula():
    p = missing_by_place(3, 2, 0.4)
    place = np.array([[0, 0.5], [0.25, 0.75], [0.5, 1]])
    np.testing.assert_allclose(logit(p) - logit(p[0, 0]), 2 * place, rtol=1e-10, atol=1e-10)
    assert p.mean() == pytest.approx(0.4, abs=1e-12)
    rng = np.random.default_rng(0)
    condition, right = Condition("mar", 0.4, 3, 2), np.zeros((3, 2), bool)
    missing = np.mean([~observed(condition, right, rng) for _ in range(4000)], axis=0)
    np.testing.assert_allclose(missing, p, atol=0.04)  # 5 standard errors
    assert missing[2, 1] > missing[0, 0] + 0.2


def test_cells_missing_completely_at_random_are_as_many_as_stated():
    rng = np.random.default_rng(0)
    condition, right = Condition("mcar", 0.4, 8, 10), np.zeros((8, 10), bool)
    masks = np.array([observed(condition, right, rng) for _ in range(500)])
    assert set(masks.sum((1, 2))) == {48}
    np.testing.assert_allclose(masks.mean(0), 0.6, atol=0.11)


def test_gated_items_lose_their_wrong_answers_and_only_these():
    rng = np.random.default_rng(0)
    right = rng.uniform(size=(6, 4000)) < 0.5
    seen = observed(Condition("mnar", 0.3, 6, 4000), right, rng)
    assert seen[right].all()
    some_wrong = ~right.all(0)
    hidden = (~seen).any(0)[some_wrong]
    assert hidden.mean() == pytest.approx(0.3, abs=0.04)
    np.testing.assert_array_equal(seen[:, some_wrong][:, hidden], right[:, some_wrong][:, hidden])
    suite = draw_suite(Condition("mnar", 0.5, 40, 30), np.random.default_rng(2))
    successes, trials = suite.responses.cells.matrices()
    gated = (trials == 0).any(0)
    assert 5 <= gated.sum() <= 25
    np.testing.assert_array_equal(successes[:, gated], trials[:, gated])


def test_a_design_that_leaves_a_subject_without_responses_is_refused():
    with pytest.raises(ValueError, match="leaves a subject or item without a response"):
        draw_suite(Condition("mar", 0.99, 30, 2), np.random.default_rng(0))


def test_distances_are_those_that_the_paper_prints():
    true, found = np.array([[1.0, -2.0], [2.0, 0.0]]), np.array([[1.0, -1.0], [2.0, 1.0]])
    assert relative_error(true, found) == pytest.approx(2 / 9)
    half = (np.sqrt(0.5) - 1) ** 2 + 0.5
    assert hellinger(np.array([0.5, 0.2]), np.array([1.0, 0.2])) == pytest.approx(half / 2)
    assert variation(np.array([1.0, 3.0])) == 0.5


def test_one_scale_keeps_the_predictor():
    theta, a, d = np.array([1.0, 3.0, 8.0]), np.array([0.5, 2.0]), np.array([-1.0, 0.3])
    z, slope, intercept = on_sample_scale(theta, a, d)
    assert (z.mean(), z.std()) == pytest.approx((0, 1))
    np.testing.assert_allclose(z[:, None] * slope + intercept, theta[:, None] * a + d)


def made_fit(theta, a, d, point: PointEstimate) -> Fit:
    return Fit(np.array(theta), np.array(a), np.array(d), 0.25, point)


def test_a_fit_is_measured_by_hand(small: Responses):
    """One true slope is 0 and estimated as 0.5; another is 1 and estimated as 0."""
    responses = Responses.from_arrays([[0, 1, 0], [1, 1, 0]])
    truth = Suite(np.array([-1.0, 1.0]), np.array([1.0, 0.0, 1.0]), np.zeros(3), 1.0, responses)
    point = fit_timed("newton", small, key=jax.random.key(0)).point
    row = measure_fit(truth, made_fit([-1.0, 1.0], [1.0, 0.5, 0.0], [0.0, 0.0, 3.0], point))
    assert row["eta_error"] == pytest.approx((2 * 0.25 + 2**2 + 4**2) / 4)
    assert row["rmse_d"] == pytest.approx(np.sqrt(3))
    rhos = [row[k] for k in ("rho_theta", "rho_average", "average_rho_theta")]
    assert rhos == pytest.approx([1, 1, 1])
    assert row["rho_a"] == pytest.approx(0)
    assert [row[k] for k in ("items", "nil", "zeros", "zeros_right")] == [3, 1, 1, 0]
    assert [row[k] for k in ("small", "small_right", "seconds")] == [1, 0, 0.25]


def test_the_top_fifth_is_chosen_by_accuracy():
    accuracy = np.linspace(1, 0.1, 10)
    theta = -np.arange(10.0)
    assert agreement(theta, accuracy) == pytest.approx((1, 1))
    theta[:2] = theta[1::-1]
    every, top = agreement(theta, accuracy)
    assert top == pytest.approx(-1)
    assert every == pytest.approx(1 - 6 * 2 / 990)
    responses = Responses.from_arrays([[1, 3], [2, 0]], [[2, 4], [2, 0]])
    np.testing.assert_allclose(accuracy_of(responses), [4 / 6, 1])


def test_mml_is_left_out_where_it_would_take_too_long():
    assert methods_for(100, slow=True) == ["mm", "newton", "joint_map", "mml"]
    assert methods_for(100, slow=False) == methods_for(5000, slow=True)
    assert "mml" not in methods_for(5000, slow=True)


def test_temperature_is_a_matter_of_scale(small: Responses):
    """With σ = 2 the same responses give twice the a and d, for any method."""
    for name in ("newton", "mml", "joint_map"):
        one, two = (fit_timed(name, small, key=jax.random.key(0), temperature=t) for t in (1, 2))
        np.testing.assert_allclose(two.a, 2 * one.a, rtol=1e-3)
        np.testing.assert_allclose(two.d, 2 * one.d, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(two.theta, one.theta, rtol=1e-3, atol=1e-4)


def test_random_starts_have_the_stated_variances(small: Responses):
    starts = [random_start(small, 4.0, jax.random.key(k)) for k in range(100)]
    theta, a, d = (np.concatenate(x) for x in zip(*starts, strict=True))
    assert theta.var() == pytest.approx(1, abs=0.15)
    assert np.log(a).var() == pytest.approx(4, abs=0.7)
    assert d.var() == pytest.approx(4, abs=0.7)


def made_rows(method: str, sparsity: float, **columns: list[float]) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    usual = {"factor": "sparsity", "value": sparsity, "method": method, "items": 10.0, "nil": 4.0}
    usual |= dict.fromkeys(("zeros", "zeros_right", "small", "small_right"), np.nan)
    usual |= {f"{w}_{q}": np.nan for w in ("listed", "listed_right") for q in (0.05, 0.1, 0.2)}
    return pd.DataFrame({**{k: [v] * n for k, v in usual.items()}, **columns})


def test_redundant_items_are_counted_by_hand():
    """Of 10 items 4 are uninformative; 2 and 4 are declared, of which 1 and 3 correctly."""
    rows = made_rows("mm", 0.4, zeros=[2, 4], zeros_right=[1, 3])
    own = redundancy_table(rows).set_index("rule").loc["mm: a = 0"]
    assert (own["precision"], own["recall"], own["declared"]) == (4 / 6, 0.5, 3)
    assert own["false_share"] == pytest.approx((1 / 2 + 1 / 4) / 2)
    # 8 + 6 items are kept; of the 12 that discriminate, 10 are kept.
    assert (own["paper_recall"], own["paper_precision"]) == pytest.approx((10 / 12, 10 / 14))
    assert own["holds"] == "no bound"


@pytest.mark.parametrize(
    ("right", "verdict"), [([4, 4, 4], "yes"), ([4, 4, 2], "within noise"), ([2, 2, 2], "no")]
)
def test_a_bound_is_broken_only_beyond_noise(right: list[float], verdict: str):
    listed = {"listed_0.1": [4.0] * 3, "listed_right_0.1": right}
    table = redundancy_table(made_rows("laplace free", 0.4, **listed))
    assert table["rule"].tolist() == ["laplace free, q = 0.1"]
    assert table["holds"].tolist() == [verdict]


def test_the_papers_tables_are_held_as_printed():
    printed = read_printed("cbmm_stability")
    assert printed.shape == (3 * 15, 3 + 6 * 2)
    assert not printed.duplicated(["parameter", "variance_one", "variance_two"]).any()
    musr = printed.query("variance_one == 1 and variance_two == 3")
    assert musr["MuSR"].tolist() == [0.92, 0.92, 0.99]
    assert musr["MuSR_sd"].tolist() == [0.358, 0.386, 0.00211]
    claims = read_printed("cbmm_printed").set_index("claim")
    assert claims.loc["growth", "printed_low"] == 104
    assert claims.loc["speedup_real", ["printed_low", "printed_high"]].tolist() == [41, 86]


@pytest.mark.reference
def test_the_printed_figures_are_in_the_paper(shared: Path):
    (paper,) = (shared / "papers").glob("000_*.txt")
    text = paper.read_text("utf-8")
    for words in ("508x", "392x", "104x", "41x-86x", "200x", "50x", "recall of 1"):
        assert words in text
    printed = pd.read_csv(Path(cbmm_tasks.__file__).parent / "cbmm_stability.csv", dtype=str)
    sds = printed.filter(like="_sd").stack().dropna()
    assert len(sds) > 200
    assert all(f"({sd})" in text for sd in sds)


def test_starts_are_compared_beside_the_paper():
    rows = [
        {"method": m, "replication": k, "variance_one": 1.0, "variance_two": 3.0,
         "rho_theta": rho, "rho_a": 0.5, "rho_d": 0.5, "iterations": 10, "converged": 1.0}
        for m in ("mm", "newton") for k, rho in enumerate((0.9, -0.7))
    ]  # fmt: skip
    table = stability_table(pd.DataFrame(rows)).set_index(["method", "parameter"])
    own = table.loc["mm", "theta"]
    assert (own["mean"], own["sd"], own["lowest"]) == pytest.approx((0.1, 0.8, -0.7))
    assert (own["reversed"], own["runs"]) == (1, 2)
    assert (own["printed_lowest"], own["printed_largest_sd"]) == (0.92, 0.358)
    assert np.isnan(table.loc["newton", "theta"]["printed_lowest"])


def test_starts_of_one_variance_are_two_starts(small: Responses):
    task = start_task(0, small, (1.0, 4.0), PortableKey.of(jax.random.key(0)))
    rows = zip(task.places, task.work(), strict=True)
    same = {place[0]: r["rho_d"] for (_, place), r in rows if place[2:] == (4, 4)}
    assert same["mm"] < 1 - 1e-12
    assert same["newton"] > 0.999


def made_items() -> pd.DataFrame:
    level = np.repeat([1.0, 2.0, 3.0], 4)
    minus_d = np.arange(12.0)
    b = np.where(np.arange(12) == 11, np.nan, -minus_d)
    return pd.DataFrame(
        {"method": "newton", "level": level, "wrong": 0.5, "minus_d": minus_d, "b": b}
    )


def test_levels_are_held_against_difficulty_by_hand():
    items = made_items()
    table = level_table(items)
    assert table["items"].tolist() == [4, 4, 4]
    assert table["minus_d"].tolist() == [1.5, 5.5, 9.5]
    assert table["b"].tolist() == [-1.5, -5.5, -9]
    rho = level_correlations(items, np.random.default_rng(0)).set_index("measure")
    assert rho.loc["minus_d", "rho"] == pytest.approx(np.corrcoef(
        np.repeat([2.5, 6.5, 10.5], 4), np.arange(12))[0, 1])  # fmt: skip
    assert rho.loc["b", "items"] == 11
    assert rho.loc["b", "high"] < -0.8
    assert rho.loc["minus_d", "low"] < rho.loc["minus_d", "rho"] < rho.loc["minus_d", "high"]
    assert np.isnan(rho.loc["wrong", "rho"])
    assert not len(level_table(pd.DataFrame()))


def test_levels_must_be_numbers_that_differ(small: Responses):
    def with_level(values: list[object]) -> Responses:
        table = pd.DataFrame({"Level": values}, index=list(small.items))
        return replace(small, item_metadata=table)

    assert levels_of(small) is None
    assert levels_of(with_level(["easy"] * 20)) is None
    assert levels_of(with_level([1] * 20)) is None
    np.testing.assert_array_equal(levels_of(with_level(["1", "2"] * 10)), [1, 2] * 10)
