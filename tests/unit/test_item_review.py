"""Lists of redundant and flipped items are as long as the bound allows, and not longer."""

import itertools

import jax
import numpy as np
import pandas as pd
import pytest
from made_posterior import of_two_abilities, posterior_of
from scipy.special import expit
from scipy.stats import binom

from bayesirt import Posterior, Priors, ResponseError, Responses, RunOptions, review_items
from bayesirt.checks.duplicate_items import agreement, identical_items
from bayesirt.checks.fit.item_pairs import LocalDependence
from bayesirt.checks.item_rest_correlation import rest_correlations
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import TwoPL


def with_slopes(a: np.ndarray) -> Posterior:
    """Return a posterior with these draws of a, shape (draw, item)."""
    return posterior_of(np.indices((3, a.shape[1])).sum(0) % 2, a=a)


def draws(*shares: float, low: float = 0.1, high: float = 1.0) -> np.ndarray:
    """Return 100 draws per item, with the given share of each at `low`."""
    return np.stack([np.where(np.arange(100) < 100 * s, low, high) for s in shares], 1)


def test_the_list_is_the_largest_whose_expected_false_share_is_bounded():
    review = review_items(with_slopes(draws(0.5, 0.98, 0.1, 0.9, 0.76)), q=0.12)
    # mean of 1 - p: .02, (.02 + .10)/2 = .06, (.02 + .10 + .24)/3 = .12, then .215
    assert review.redundant == ["item 2", "item 4", "item 5"]
    assert review.summary["item"].tolist() == ["item 2", "item 4", "item 5", "item 1", "item 3"]
    np.testing.assert_allclose(review.summary["p_nil"], [0.98, 0.9, 0.76, 0.5, 0.1])
    assert review_items(with_slopes(draws(0.5, 0.98)), q=0.01).redundant == []


def test_what_is_as_likely_false_is_not_listed():
    assert review_items(with_slopes(draws(1.0, 1.0, 0.5)), q=0.3).redundant == ["item 1", "item 2"]


def test_negative_slopes_are_flipped_not_redundant():
    review = review_items(with_slopes(draws(0.99, 0.2, low=-0.8)))
    assert (review.redundant, review.flipped) == ([], ["item 1"])
    assert "so look at the keys: 1 of 2 items (item 1)" in review.to_text()


def test_text_names_a_few_and_counts_the_rest():
    review = review_items(with_slopes(draws(*[1.0] * 8, 0.0)))
    assert review.to_text() == (
        "Could be dropped, as they hardly discriminate (|a| < 0.25): 8 of 9 items (item 1, item 2, "
        "item 3, item 4, item 5 and 3 more); at most 10% of them are expected to be wrongly listed."
    )
    none = review_items(with_slopes(draws(0.0, 0.1)))
    assert none.to_text().startswith("None of 2 items")
    assert "0.25" in none.to_text()


@pytest.mark.parametrize("options", [{"a_min": 0.0}, {"a_min": float("nan")}, {"q": 0.0}, {"q": 1}])
def test_bounds_must_make_sense(options):
    with pytest.raises(ValueError, match="must be"):
        review_items(with_slopes(draws(0.5, 0.5)), **options)


def answered(y: np.ndarray, n: np.ndarray | None = None, eta: float = 0.0) -> Posterior:
    """Return a posterior of these answers with a = 1, θ = 0 and d = eta in every draw."""
    return posterior_of(Responses.from_arrays(y, n), d=eta)


def test_rest_correlation_leaves_the_item_and_missing_cells_out():
    rng = np.random.default_rng(0)
    n = (rng.uniform(size=(30, 6)) < 0.8).astype(int)
    n[:, 0] = 1
    y = rng.binomial(n, 0.6)
    table = rest_correlations(y, n)
    accuracy = y.sum(0) / n.sum(0)
    for j in range(6):
        others = np.delete(np.arange(6), j)
        asked = (n[:, j] > 0) & (n[:, others].sum(1) > 0)
        rest = ((y - n * accuracy)[:, others].sum(1) / np.maximum(n[:, others].sum(1), 1))[asked]
        own, rest = y[asked, j], rest.round(9)
        assert table["rest_correlation"][j] == pytest.approx(np.corrcoef(own, rest)[0, 1])
        low, high = np.sort(rest)[
            [int((len(rest) - 1) * 0.25), int(np.ceil((len(rest) - 1) * 0.75))]
        ]
        assert table["best_quarter"][j] == pytest.approx(own[rest >= high].mean())
        assert table["weakest_quarter"][j] == pytest.approx(own[rest <= low].mean())
        assert table["n_subjects"][j] == n[:, j].sum()


def test_p_rest_is_that_of_all_permutations():
    """Compare with all ways to place 3 correct answers among 12 subjects."""
    y = np.zeros((12, 2), int)
    y[[1, 2, 5], 0] = 1
    scores = np.arange(12) ** 2
    trials = np.stack([np.ones(12, int), np.full(12, 200)], 1)
    y[:, 1] = scores
    sums = np.array([scores[list(x)].sum() for x in itertools.combinations(range(12), 3)])
    exact = (sums <= scores[[1, 2, 5]].sum()).mean()
    p = rest_correlations(y, trials)["p_rest"][0]
    assert exact < 0.1
    assert p == pytest.approx(exact, abs=0.02)


def test_few_subjects_and_constant_items_are_not_tested():
    y = np.ones((30, 3), int)
    y[:15, 1] = y[10:20, 2] = 0
    table = rest_correlations(y, np.ones_like(y))
    assert table["p_rest"].isna().tolist() == [True, False, False]
    assert rest_correlations(y[10:19], np.ones((9, 3), int))["p_rest"].isna().all()


def test_items_against_the_others_are_miskeyed_without_negative_slopes():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(120, 1))
    y = (rng.uniform(size=(120, 12)) < expit(1.5 * theta)) * 1
    y[:, 4] = 1 - y[:, 4]
    review = review_items(answered(y))
    assert review.miskeyed == ["item 5"]
    assert review.flipped == []
    text = review.to_text()
    assert "look at the keys: 1 of 12 items (item 5)" in text
    assert "rank with --slopes free" in text
    (row,) = review.listed.to_dict("records")
    assert row["reasons"] == "miskeyed"
    assert row["evidence"].startswith(
        f"asked of 120 subjects: {row['best_quarter']:.0%} of the top quarter"
    )
    assert f"{row['weakest_quarter']:.0%} of the bottom quarter; correlation" in row["evidence"]
    assert row["best_quarter"] < row["weakest_quarter"]


def test_identical_columns_have_the_same_missing_cells():
    n = np.ones((4, 4), int)
    y = np.array([[1, 1, 1, 0], [0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]])
    n[3, 1] = 0
    assert identical_items(y, n).tolist() == [0, 1, 0, 3]


def test_agreement_sums_over_all_outcomes():
    n = np.array([[3, 3, 1], [2, 2, 2], [0, 1, 1]])
    y = np.array([[1, 1, 0], [2, 1, 2], [0, 1, 0]])
    found = agreement(answered(y, n, 0.4), np.array([0, 1]), np.array([1, 2]))
    p = expit(0.4)
    alike = {k: (binom.pmf(np.arange(k + 1), k, p) ** 2).sum() for k in (1, 2, 3)}
    expected = [alike[3] * alike[2], alike[2] * alike[1]]
    np.testing.assert_allclose(np.exp(found.log_all), expected, rtol=1e-10)
    np.testing.assert_allclose(
        found.share, [(alike[3] + alike[2]) / 2, (alike[2] + alike[1]) / 2], rtol=1e-10
    )
    np.testing.assert_allclose(found.observed, [0.5, 0])


def test_copies_are_listed_and_what_all_get_right_is_not():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (60, 5))
    y[:, 3] = y[:, 1]
    review = review_items(answered(y))
    assert review.duplicated == ["item 4"]
    row = review.summary.set_index("item").loc["item 4"]
    assert row["duplicate_of"] == "item 2"
    assert row["p_chance"] == pytest.approx(0.5**60)
    assert "every answer matches the one to item 2 (by chance: 9e-19)" in row["evidence"]
    assert "look for copies: 1 of 5 items (item 4)" in review.to_text()
    easy = review_items(answered(np.ones((60, 3), int), eta=6.0))
    assert easy.duplicated == []
    assert easy.summary["duplicate_of"].tolist() == ["", "item 1", "item 1"]
    assert easy.saturated == ["item 1", "item 2", "item 3"]
    assert "99.8% of subjects are expected" in easy.summary["evidence"][0]


def test_near_duplicates_are_strongly_dependent_pairs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (50, 4))
    pairs = pd.DataFrame(
        {
            "item_1": ["item 1", "item 2", "item 3"],
            "item_2": ["item 2", "item 4", "item 4"],
            "q3": [0.6, 0.8, 0.4],
            "dependent": [True, True, True],
        }
    )
    posterior = answered(y)
    review = review_items(posterior, dependence=LocalDependence(pairs, 6, 3, 0.1))
    table = review.summary.set_index("item")
    assert review.near_duplicate == ["item 2", "item 4", "item 1"]
    assert table.loc[["item 1", "item 2", "item 4"], "near_duplicate_of"].tolist() == [
        "item 2",
        "item 4",
        "item 2",
    ]
    assert table.loc["item 2", "agree"] == pytest.approx((y[:, 1] == y[:, 3]).mean())
    assert table.loc["item 2", "agree_expected"] == pytest.approx(0.5)
    assert review_items(posterior).near_duplicate == []


def test_wrong_keys_stand_first_and_the_surest_before_others():
    slopes = draws(0.99, 1.0, 1.0, 0.97)
    slopes[:, [0, 3]] *= np.where(slopes[:, [0, 3]] < 1, -8, 1)
    listed = review_items(with_slopes(slopes)).listed
    assert listed["item"].tolist() == ["item 1", "item 4", "item 2", "item 3"]
    assert listed["reasons"].tolist() == ["flipped", "flipped", "redundant", "redundant"]


def test_two_abilities_are_refused():
    with pytest.raises(ResponseError, match="one ability"):
        review_items(of_two_abilities())


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("slopes", "sparsity"), [("positive", 0.05), ("free", 0.5)])
def test_few_of_the_dropped_items_discriminate(slopes, sparsity):
    """Qu et al. (2026), A.6.4: a = 0 for a share of the items, else uniform from .5 to 1."""
    dropped, right, nil = 0, 0, 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        theta, d = rng.normal(size=(300, 1)), 0.5 * rng.normal(size=100)
        a = np.where(rng.permutation(100) < 100 * sparsity, 0, rng.uniform(0.5, 1, 100))
        responses = Responses.from_arrays((rng.uniform(size=(300, 100)) < expit(theta * a + d)) * 1)
        posterior = sample_blocked(
            responses,
            key=jax.random.key(seed),
            model=TwoPL(Priors(slopes=slopes)),
            options=RunOptions(num_chains=2, num_warmup=150, num_samples=300, thinning=1),
        )
        review = review_items(posterior, a_min=0.3, q=0.1)
        chosen = np.isin(posterior.items, review.redundant)
        dropped, right, nil = (
            dropped + chosen.sum(),
            right + (a[chosen] == 0).sum(),
            nil + (a == 0).sum(),
        )
    print(
        f"{slopes}, sparsity {sparsity}: {dropped} dropped, precision "
        f"{right / max(dropped, 1):.2f}, recall {right / nil:.2f}"
    )
    assert right >= 0.9 * dropped
    assert sparsity < 0.5 or right > 0.5 * nil
