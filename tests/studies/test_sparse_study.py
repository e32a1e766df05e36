"""The sparse study simulates as specified, counts correctly and reports its findings.

Where the posterior does not matter, a quick estimator replaces IRT.
"""

import json
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_stats.base import array_stats
from scipy.stats import spearmanr
from sent_tasks import without_processes
from tiny_studies import by_logits

from bayesirt.data.responses import Responses
from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.inference.nuts import sample_nuts
from bayesirt.inference.options import RunOptions
from bayesirt.ranking.simple_averages import ERROR_LAWS
from bayesirt.studies.measures import read_printed
from bayesirt.studies.sparse import (
    QUICK,
    SparseDesign,
    fit_interaction,
    fit_log_power_law,
    fit_power_law,
    law_table,
    sparse_study,
    warning_table,
)
from bayesirt.studies.sparse_conditions import (
    DOMAINS,
    DRAWS_COLUMNS,
    GRID_ABILITY_SD,
    POINT_COLUMNS,
    Condition,
    Suite,
    domain_conditions,
    draw_abilities,
    draw_mask,
    draw_suite,
    even_weights,
    matched_weights,
    measure_draws,
    measure_point,
    simple_average,
    spearman,
)

N_TINY = 4 + 2 * 2 * 9
MOST_PRODUCT = 0.7 * 5.0 / GRID_ABILITY_SD


@pytest.mark.parametrize("n_observed", [30, 45, 100])
@pytest.mark.parametrize("weights", [
    even_weights(10, 10), matched_weights(np.linspace(-2, 2, 10), np.linspace(-1, 1, 10)),
])  # fmt: skip
def test_masks_have_the_stated_coverage(weights: np.ndarray, n_observed: int):
    for seed in range(20):
        mask = draw_mask(weights, n_observed, np.random.default_rng(seed))
        assert mask.sum(1).min() >= 2
        assert mask.sum(0).min() >= 3
        # At 70% sparsity the minimum counts alone may need more cells than the coverage allows.
        assert n_observed <= mask.sum() <= n_observed + (6 if n_observed == 30 else 0)


def test_given_masks_are_kept_and_the_rest_is_drawn():
    given = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1]], bool)
    masks = [draw_mask(even_weights(8, 6), 32, np.random.default_rng(s), given) for s in (0, 0, 1)]
    for mask in masks:
        np.testing.assert_array_equal(mask[:2], given)
        assert mask.sum() == 32
    np.testing.assert_array_equal(masks[0], masks[1])
    assert (masks[0] != masks[2]).any()


def test_matched_weights_are_those_of_the_paper():
    weights = matched_weights(np.array([-2.0, 0.0, 2.0]), np.array([0.0, 1.0]))
    np.testing.assert_allclose(weights, [[1, 1e-9], [0.25, 0.25], [1e-9, 1]])
    theta, b = np.linspace(-2, 2, 10), np.linspace(-1, 1, 10)
    masks = [draw_mask(matched_weights(theta, b), 50, np.random.default_rng(s)) for s in range(20)]
    harder = np.mean([(m * b).sum(1) / m.sum(1) for m in masks], axis=0)
    assert spearmanr(harder, theta)[0] > 0.9


@pytest.mark.parametrize("condition", domain_conditions(), ids=list(DOMAINS))
def test_domains_are_those_of_the_paper(condition: Condition):
    facts = read_printed("sparse_domains").set_index("domain").loc[condition.name]
    for seed in range(5):
        suite = draw_suite(condition, np.random.default_rng(seed))
        trials = suite.responses.cells.matrices()[1]
        assert trials.shape == (facts["subjects"], len(suite.b))
        assert set(np.unique(trials)) <= {0, facts["trials"]}
        assert suite.responses.coverage == pytest.approx(facts["coverage"], abs=0.01)
        assert np.ptp(suite.b) == pytest.approx(condition.gap)
        assert suite.theta.min() >= -1.5
        assert suite.theta.max() <= 2
        assert suite.has_fake == (condition.name != "nlp")
        if suite.has_fake:
            assert suite.theta[0] == facts["fake_ability"]
            assert suite.theta.argmax() == 1
            np.testing.assert_array_equal(trials[:2] > 0, [[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1]])
        if condition.name == "clinical":
            assert (suite.theta >= suite.theta[0]).sum() == 9


def test_the_grid_is_that_of_the_paper():
    design = SparseDesign()
    assert len(design.conditions) == 4 + 2 * 150
    assert design.sparsities[0] == 0
    assert design.sparsities[-1] == pytest.approx(0.7)
    assert (design.gaps[0], design.gaps[-1]) == (0.5, 5)
    suite = draw_suite(Condition("biased", 0.35, 4.0), np.random.default_rng(0))
    np.testing.assert_allclose(suite.theta, np.linspace(-2, 2, 10))
    np.testing.assert_allclose(suite.b, np.linspace(-2, 2, 10))
    assert suite.responses.n_observed == 65
    assert set(np.unique(suite.responses.cells.matrices()[1])) == {0, 100}


def test_the_simple_average_weighs_items_alike():
    responses = Responses.from_arrays([[1, 6, 0], [2, 0, 0]], [[4, 8, 0], [2, 0, 9]])
    np.testing.assert_allclose(simple_average(responses), [(0.25 + 0.75) / 2, (1 + 0) / 2])


def test_spearman_is_scipys_with_ties():
    rng = np.random.default_rng(0)
    one, many = rng.integers(0, 4, 9), rng.integers(0, 5, (6, 9))
    expected = [spearmanr(one, other)[0] for other in many]
    np.testing.assert_allclose(spearman(one, many), expected, rtol=1e-10)


def made_suite(successes: list[list[int]], theta: list[float]) -> Suite:
    responses = Responses.from_arrays(np.array(successes), np.full((len(theta), 2), 10))
    return Suite(np.array(theta), np.array([-1.0, 1.0]), responses, has_fake=True)


def test_the_point_estimate_is_measured_by_hand():
    """The average's order is third, first, second; the true order is first, second, third."""
    suite = made_suite([[9, 1], [4, 4], [9, 3]], [2.0, 1.0, 0.0])
    point = replace(by_logits(suite.responses), parameters=xr.Dataset({
        "theta": ("subject", [1.0, 3.0, -1.0]), "a": ("item", [1.0, 0.0]),
        "b": ("item", [1.0, np.nan]),
    }))  # fmt: skip
    row = measure_point(suite, point)
    assert tuple(row) == POINT_COLUMNS
    assert row["rho_average"] == pytest.approx(-0.5)
    assert row["rho_irt"] == pytest.approx(0.5)
    assert row["gap_irt"] == 0
    ranks = ("fake_rank", "fake_rank_average", "fake_rank_irt", "best_rank_average")
    assert [row[name] for name in (*ranks, "best_rank_irt")] == [1, 2, 2, 3, 1]


def test_draws_are_measured_by_hand():
    """Nine draws in ten have the true order, and the rest swap the first two."""
    suite = made_suite([[9, 1], [4, 4], [9, 3]], [2.0, 1.0, 0.0])
    theta = np.tile([2.1, 1.1, 0.1], (2, 50, 1))
    theta += 1e-3 * np.random.default_rng(0).normal(size=theta.shape)
    theta[:, 45:, :2] = theta[:, 45:, 1::-1]
    row = measure_draws(suite, theta)
    assert tuple(row) == DRAWS_COLUMNS
    assert row["rho_posterior"] == pytest.approx(1)
    assert (row["rho_posterior_low"], row["rho_posterior_high"]) == pytest.approx((0.5, 1))
    assert (row["average_low"], row["average_high"]) == pytest.approx((-1, -0.5))
    assert (row["subjects"], row["ranks_covered"]) == (3, 3)
    assert row["rank_width"] == pytest.approx(2 / 3)
    # All three are misplaced: the third credibly, the second by its interval, the first perhaps.
    assert (row["misplaced"], row["exposed"], row["false_alarms"]) == (3, 2, 0)


def made_cells() -> tuple[np.ndarray, np.ndarray]:
    s, d = np.meshgrid([0.0, 0.2, 0.4], [1.0, 2.0, 3.0, 4.0])
    return s.ravel(), d.ravel()


def test_the_interaction_is_found_on_a_made_surface():
    s, d = made_cells()
    exact = 0.1 + 0.3 * (s - 0.2) + 0.05 * (d - 2.5) + 0.2 * (s - 0.2) * (d - 2.5)
    found = fit_interaction(s, d, exact)
    np.testing.assert_allclose(found.gamma, [0.1, 0.3, 0.05, 0.2], atol=1e-12)
    assert found.r_squared == pytest.approx(1)
    # Orthogonal to every term: it changes no coefficient and is the whole residual.
    bent = exact + 0.01 * np.tile([1.0, -2.0, 1.0], 4)
    found = fit_interaction(s, d, bent)
    np.testing.assert_allclose(found.gamma, [0.1, 0.3, 0.05, 0.2], atol=1e-12)
    variance = 4 * 6e-4 / 8
    scatter = [12, 12 * 2 / 75, 12 * 1.25, 12 * 2 / 75 * 1.25]
    np.testing.assert_allclose(found.t, found.gamma / np.sqrt(variance / np.array(scatter)))


def test_power_laws_are_found_on_a_made_surface():
    s, d = made_cells()
    error = 0.03 * (s * d) ** 1.7
    for fit in (fit_power_law, fit_log_power_law):
        assert fit(s * d, error)[:3] == pytest.approx((0.03, 1.7, 1), rel=1e-5)
    noisy = error + 0.01 * (s * d == 0.2)
    by_logs, direct = fit_log_power_law(s * d, noisy), fit_power_law(s * d, noisy)
    assert abs(by_logs.exponent - 1.7) > 5 * abs(direct.exponent - 1.7)
    assert direct.residual_sd < by_logs.residual_sd


def published_cells(shared: Path) -> pd.DataFrame:
    grid = json.loads((shared / "data" / "scaling_law_domains.json").read_text())["grid"]
    return pd.DataFrame(grid["cells"], columns=grid["cells_columns"])


@pytest.mark.reference
def test_regressions_give_the_papers_figures_on_its_own_cells(shared: Path):
    cells = published_cells(shared)
    printed = read_printed("sparse_surfaces").set_index(["mask", "quantity"])
    s, d = cells["S"].to_numpy(), cells["D"].to_numpy()
    for mask, column in (("biased", "rho_avg_biased"), ("random", "rho_avg_mcar")):
        found = fit_interaction(s, d, 1 - cells[column].to_numpy())
        own = printed.loc[mask]
        terms = ["constant", "S", "D", "S x D"]
        np.testing.assert_allclose(found.gamma, own.loc[terms, "printed"], atol=6e-6)
        np.testing.assert_allclose(found.t, own.loc[terms, "t"], atol=6e-3)
        assert found.r_squared == pytest.approx(own.loc["R2", "printed"], abs=6e-5)
    law = fit_log_power_law(s * d, 1 - cells["rho_avg_biased"].to_numpy())
    assert law[:3] == pytest.approx((0.0262, 1.8334, 0.587), abs=6e-5)


@pytest.fixture(scope="module")
def averages() -> pd.DataFrame:
    """Return the simple average's mean ρ over 4 suites for each cell of the paper's grid."""
    rows = []
    for k, condition in enumerate(c for c in SparseDesign().conditions if not c.is_domain):
        suites = [draw_suite(condition, np.random.default_rng([7, k, s])) for s in range(4)]
        rho = np.mean([spearman(s.theta, simple_average(s.responses)) for s in suites])
        rows.append((condition.name, condition.sparsity, condition.gap, rho))
    return pd.DataFrame(rows, columns=["mask", "S", "D", "rho_average"])


def test_a_reduced_run_gives_the_frozen_laws(averages: pd.DataFrame):
    """The standard error of either curve is below 0.01; the two laws are 0.5 apart at the end."""
    product = np.linspace(0, MOST_PRODUCT, 50)
    for row in law_table(averages).itertuples():
        frozen = ERROR_LAWS[row.mask]
        found, kept = (law.scale * product**law.exponent for law in (row, frozen))
        print(row, np.abs(found - kept).max())
        np.testing.assert_allclose(found, kept, atol=0.05)
        assert row.residual_sd == pytest.approx(frozen.residual_sd, rel=1)


@pytest.mark.reference
def test_averages_fail_as_the_authors_say(shared: Path, averages: pd.DataFrame):
    """Over 150 cells the mean difference has a standard error of about 0.003."""
    cells = published_cells(shared)
    for mask, column in (("biased", "rho_avg_biased"), ("random", "rho_avg_mcar")):
        own = averages[averages["mask"] == mask]
        difference = own["rho_average"].to_numpy() - cells[column].to_numpy()
        print(mask, difference.mean(), difference.std())
        assert abs(difference.mean()) < 0.015
        assert np.corrcoef(own["rho_average"], cells[column])[0, 1] > 0.85


def made_row(name: str, rho: float, **counts: float) -> dict[str, object]:
    usual = {
        "subjects": 10, "ranks_covered": 9, "rank_width": 1.0, "abilities_covered": 8,
        "misplaced": 4, "exposed": 3, "false_alarms": 0, "ess": 100, "average_low": rho - 0.1,
        "average_high": rho, "rho_posterior": 0.9, "rho_posterior_low": 0.91,
        "rho_posterior_high": 1.0,
    }  # fmt: skip
    return {"name": name, "rho_average": rho, "seed": 0} | usual | counts


def test_warnings_are_counted_by_hand():
    rows = pd.DataFrame([
        made_row("biased", 0.5),
        made_row("biased", 0.7, ranks_covered=7, average_high=0.69, rho_posterior_low=0.9),
        made_row("clinical", 1.0, misplaced=0, exposed=0, false_alarms=1),
        made_row("random", 0.9, subjects=np.nan),
    ])  # fmt: skip
    table = warning_table(rows).set_index("design")
    assert list(table.index) == ["biased", "domains"]
    biased = table.loc["biased"]
    assert (biased["average_error"], biased["suites"]) == ("above 0.2", 2)
    assert biased["rank_coverage"] == pytest.approx(0.8)
    assert biased["rank_coverage_se"] == pytest.approx(np.sqrt(2 * (1 + 1)) / 20)
    assert biased["ability_coverage"] == pytest.approx(0.8)
    assert (biased["misplaced"], biased["exposed"]) == pytest.approx((0.4, 0.75))
    assert (biased["average_rho_coverage"], biased["posterior_rho_coverage"]) == (0.5, 0.5)
    domains = table.loc["domains"]
    assert domains["average_error"] == "up to 0.05"
    assert np.isnan(domains["exposed"])
    assert domains["false_alarms"] == pytest.approx(0.1)


@pytest.mark.statistical
def test_filled_up_suites_have_the_posterior_of_nuts():
    """Means agree within 5 standard errors, among 10 + 8 abilities."""
    conditions = [Condition("random", 0.3, 2.0), domain_conditions()[3]]
    suites = [draw_suite(c, np.random.default_rng(3)).responses for c in conditions]
    points = [fit_cbmm(suite) for suite in suites]
    batched = draw_abilities(suites, points, key=jax.random.key(0))
    for suite, point, theta in zip(suites, points, batched, strict=True):
        posterior = sample_nuts(
            suite, key=jax.random.key(1), init=point, options=RunOptions(num_warmup=500)
        )
        both = []
        for chains in (theta, posterior["theta"]):
            z = (chains - chains.mean(-1, keepdims=True)) / chains.std(-1, keepdims=True)
            error = [array_stats.mcse(z[..., k], method="mean") for k in range(z.shape[-1])]
            both.append((z.mean((0, 1)), np.array(error), z.std((0, 1))))
        (one, one_error, one_sd), (other, other_error, other_sd) = both
        print(((one - other) / np.hypot(one_error, other_error)).round(1), one_sd / other_sd)
        assert (np.abs(one - other) < 5 * np.hypot(one_error, other_error)).all()
        np.testing.assert_allclose(one_sd, other_sd, rtol=0.35)


@pytest.mark.statistical
def test_a_reduced_study_finds_what_the_paper_finds_and_the_posterior_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    design = replace(QUICK, domain_seeds=4, grid_seeds=3)
    without_processes(monkeypatch)
    study = sparse_study(design, key=jax.random.key(5), folder=tmp_path, n_processes=2)
    study.save(tmp_path)
    assert {"warning.svg", "failure_surface.svg", "domains.svg"} <= {
        p.name for p in tmp_path.iterdir()
    }
    sparse = study.tables["domains"][study.tables["domains"]["S"] > 0]
    assert (sparse["rho_average"] < 0.97).all()
    assert (sparse["rho_irt"] > 0.97).all()
    assert (study.tables["domains"]["rho_difficulty"] > 0.99).all()
    grid = study.tables["grid"]
    worst = grid[(grid["S"] == 0.7) & (grid["D"] == 5)].set_index("mask")
    assert worst.loc["biased", "rho_average"] < 0.65
    assert worst.loc["biased", "rho_average"] < worst.loc["random", "rho_average"]
    assert (worst["rho_irt"] > 0.9).all()
    drawn = study.replications[study.replications["subjects"].notna()]
    assert len(drawn) == 4 * 4 + 2 * 12
    assert drawn["ranks_covered"].sum() / drawn["subjects"].sum() > 0.9
    assert drawn["exposed"].sum() / drawn["misplaced"].sum() > 0.6
    expected = (drawn["average_low"] + drawn["average_high"]) / 2
    assert np.abs(expected - drawn["rho_average"]).max() < 0.2
    assert "Where the average fails" in study.to_text()
    alone = sparse_study(replace(design, grid_seeds=1), key=jax.random.key(5))
    one, other = (
        s.replications.set_index(["name", "S", "D", "seed"])["ranks_covered"].dropna()
        for s in (alone, study)
    )
    pd.testing.assert_series_equal(one, other)
