"""The spectral estimate against Algorithm 2 of Xu et al. (2026) line by line, and known truths."""

import numpy as np
import pytest
from conftest import simulate
from quick_engine import draw_near
from scipy.special import expit, logit
from scipy.stats import spearmanr
from small_data import as_sparse

from bayesirt import ResponseError, Responses, fit_spectral
from bayesirt.ranking.run import rank_responses
from bayesirt.ranking.settings import Settings


def algorithm_2(x: np.ndarray, coverage: float, clip: float) -> tuple[np.ndarray, ...]:
    """Follow Xu et al. (2026) on a matrix whose missing cells are zero, with the logit as link."""
    n = len(x)
    u, s, v = np.linalg.svd(x, full_matrices=False)
    keep = max(2, int((s >= 1.01 * np.sqrt(max(x.shape))).sum()))
    m = logit(np.clip((u[:, :keep] * s[:keep]) @ v[:keep] / coverage, clip, 1 - clip))
    d = m.mean(0)
    u, s, v = np.linalg.svd(m - d, full_matrices=False)
    theta, a = np.sqrt(n) * u[:, 0], s[0] * v[0] / np.sqrt(n)
    return (theta, a, d) if a.sum() > 0 else (-theta, -a, d)


def even_mask(n_subjects: int, n_items: int, every: int) -> np.ndarray:
    """Return a mask that keeps the same share of cells in each row and each column."""
    return np.add.outer(np.arange(n_subjects), np.arange(n_items)) % every > 0


@pytest.mark.parametrize("clip", [0.02, 1e-9])
@pytest.mark.parametrize("shape", [(30, 20), (100, 80)])
@pytest.mark.parametrize("trials", [1, 3])
def test_estimate_is_algorithm_2(shape, trials, clip):
    p = expit(np.add.outer(np.linspace(-1, 1, shape[0]), np.linspace(1, -1, shape[1])))
    y = np.random.default_rng(0).binomial(trials, p)
    point = fit_spectral(Responses.from_arrays(y, np.full(shape, trials)), clip=clip, slopes="free")
    for name, values in zip(("theta", "a", "d"), algorithm_2(y / trials, 1.0, clip), strict=True):
        np.testing.assert_allclose(point[name], values, rtol=0, atol=1e-8)


@pytest.mark.parametrize("shape", [(30, 20), (100, 80)])
def test_missing_cells_are_zero_and_divided_by_the_coverage(shape):
    y = simulate(*shape)[0].cells.matrices()[0]
    mask = even_mask(*shape, every=5)
    point = fit_spectral(Responses.from_arrays(np.where(mask, y, np.nan)), slopes="free")
    for name, values in zip(("theta", "a", "d"), algorithm_2(y * mask, 0.8, 0.02), strict=True):
        np.testing.assert_allclose(point[name], values, rtol=0, atol=1e-8)


def test_large_sparse_responses_equal_dense_ones():
    y = simulate(100, 80)[0].cells.matrices()[0]
    mask = np.random.default_rng(1).uniform(size=y.shape) < 0.3
    dense = Responses.from_arrays(np.where(mask, y, np.nan))
    sparse = fit_spectral(as_sparse(dense))
    for name in ("theta", "a", "d"):
        np.testing.assert_allclose(sparse[name], fit_spectral(dense)[name], rtol=0, atol=1e-8)


def test_known_truth_comes_back():
    responses, theta, a, d = simulate(200, 200, seed=1)
    point = fit_spectral(responses)
    assert spearmanr(point["theta"], theta).statistic > 0.97
    assert spearmanr(point["a"], a).statistic > 0.7
    assert np.sqrt(np.mean((point["d"] - d - a * theta.mean()) ** 2)) < 0.25
    assert abs(np.log(point["a"].mean() / (a * theta.std()).mean())) < 0.1


def test_subjects_who_ran_few_items_are_not_taken_for_weak():
    """Coverage is 20% to 100% by row and 30% to 100% by column."""
    responses, theta, *_ = simulate(300, 300)
    rng = np.random.default_rng(4)
    by_row, by_column = rng.uniform(0.2, 1, 300), rng.uniform(0.3, 1, 300)
    mask = rng.uniform(size=(300, 300)) < np.outer(by_row, by_column)
    point = fit_spectral(
        Responses.from_arrays(np.where(mask, responses.cells.matrices()[0], np.nan))
    )
    assert spearmanr(point["theta"], theta).statistic > 0.9
    assert abs(spearmanr(point["theta"] - theta, by_row).statistic) < 0.2


def test_all_components_above_noise_are_kept():
    """Twelve groups, each right only on its own items, exceed the first search's components."""
    y = np.kron(np.eye(12), np.ones((20, 20)))
    assert fit_spectral(Responses.from_arrays(y)).settings["components"] == 12


def test_item_that_contradicts_the_rest_has_a_negative_or_no_slope():
    y = simulate(30, 20)[0].cells.matrices()[0].copy()
    y[:, 3] = y.sum(1) < np.median(y.sum(1))
    free, positive = (
        fit_spectral(Responses.from_arrays(y), slopes=s) for s in ("free", "positive")
    )
    assert free["a"][3] < 0 < free["a"].sum()
    assert free["b"][3] == pytest.approx(-free["d"][3] / free["a"][3])
    assert positive["a"][3] == 0
    assert np.isnan(positive["b"][3])
    np.testing.assert_array_equal(positive["theta"], free["theta"])


def test_sampler_starts_from_it(small, monkeypatch):
    monkeypatch.setattr("bayesirt.ranking.run.sample_posterior", draw_near)
    run = rank_responses(small, Settings(draws=50, point="spectral"))
    assert run.record.diagnostics["point_estimator"] == "spectral"
    apart = run.posterior.theta.mean(0) - fit_spectral(small)["theta"]
    assert np.abs(apart / run.posterior.theta.std(0)).max() < 0.5


def test_bad_input_is_refused_in_a_sentence(small, monkeypatch):
    for clip in (0.0, 0.5, np.nan):
        with pytest.raises(ValueError, match=r"`clip` must be between 0 and 0\.5, got"):
            fit_spectral(small, clip=clip)
    monkeypatch.setattr("bayesirt.estimators.spectral.MOST_CELLS", 599)
    with pytest.raises(ResponseError, match="30 subjects x 20 items are more than 599 cells"):
        fit_spectral(small)
