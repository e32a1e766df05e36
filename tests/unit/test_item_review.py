"""Redundant and flipped items: the lists are as long as the bound allows, and no longer."""

import jax
import numpy as np
import pytest
from scipy.special import expit

from bayesirt import Posterior, Priors, Responses, review_items
from bayesirt.inference.two_pl_blocked import sample_blocked


def with_slopes(a: np.ndarray) -> Posterior:
    """Return a posterior with these draws of a, shape (draw, item)."""
    n, m = a.shape
    responses = Responses.from_arrays(np.indices((3, m)).sum(0) % 2)
    samples = {"theta": np.zeros((1, n, 3)), "a": a[None], "d": np.zeros((1, n, m))}
    return Posterior.from_samples(samples, {}, responses, {})


def draws(*shares: float, low: float = 0.1, high: float = 1.0) -> np.ndarray:
    """Return 100 draws an item, of which such a share is low."""
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
    assert none.to_text() == "None of 2 items surely has a discrimination below 0.25."


@pytest.mark.parametrize("options", [{"a_min": 0.0}, {"a_min": float("nan")}, {"q": 0.0}, {"q": 1}])
def test_bounds_must_make_sense(options):
    with pytest.raises(ValueError, match="must be"):
        review_items(with_slopes(draws(0.5, 0.5)), **options)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("slopes", "sparsity"), [("positive", 0.05), ("positive", 0.5), ("free", 0.2), ("free", 0.5)]
)
def test_few_of_the_dropped_items_discriminate(slopes, sparsity):
    """papers/000, A.6.4: a = 0 for a share of the items, else uniform from .5 to 1."""
    dropped, right, nil = 0, 0, 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        theta, d = rng.normal(size=(300, 1)), 0.5 * rng.normal(size=100)
        a = np.where(rng.permutation(100) < 100 * sparsity, 0, rng.uniform(0.5, 1, 100))
        responses = Responses.from_arrays((rng.uniform(size=(300, 100)) < expit(theta * a + d)) * 1)
        posterior = sample_blocked(
            responses, key=jax.random.key(seed), priors=Priors(slopes=slopes), num_samples=500
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
