"""The choice of items to keep."""

import numpy as np
import pytest

from bayesirt import Posterior, Responses, keep_items
from bayesirt.errors import ResponseError
from bayesirt.ranking.kept_items import _greedy, _information, _shares_apart

N, J = 25, 14


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    """Return draws around a truth with items of high and of low discrimination."""
    rng = np.random.default_rng(2)
    theta, d = np.sort(rng.normal(size=N)), rng.normal(size=J)
    a = np.where(np.arange(J) % 2, 0.1, 2.0)
    answers = rng.uniform(size=(N, J)) < 1 / (1 + np.exp(-(theta[:, None] * a + d)))
    truth = {"theta": theta, "a": a, "d": d}
    draws = {name: x + 0.05 * rng.normal(size=(2, 30, len(x))) for name, x in truth.items()}
    return Posterior.from_samples(draws, {}, Responses.from_arrays(answers.astype(int)), {})


def test_each_item_is_the_one_that_lowers_the_variance_most():
    information = np.random.default_rng(0).gamma(0.5, size=(9, 6))
    precision, left, expected = np.ones(6), [*range(9)], []
    while left:
        best = min(left, key=lambda j: (1 / (precision + information[j])).sum())
        expected.append(best)
        left.remove(best)
        precision = precision + information[best]
    assert _greedy(information).tolist() == expected


def test_information_is_that_of_logistic_answers(posterior: Posterior):
    found = _information(posterior, np.arange(N))
    theta, a, d = (posterior.draws(name) for name in ("theta", "a", "d"))
    p = 1 / (1 + np.exp(-(theta[:, None] * a[..., None] + d[..., None])))
    expected = (a[..., None] ** 2 * p * (1 - p)).mean(0)
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.01)


def test_pairs_are_told_apart_where_the_difference_is_large_enough():
    theta = np.array([0.0, 0.1, 4.0])
    shares = _shares_apart(theta, np.array([[1.0] * 3, [4.0] * 3]))
    assert shares.tolist() == [1.0, 1.0]
    shares = _shares_apart(theta, np.array([[0.2] * 3, [4.0] * 3]))
    assert shares.tolist() == [0.0, 1.0]


def test_sharp_items_are_kept_and_the_loss_is_told(posterior: Posterior):
    found = keep_items(posterior)
    assert {*found.summary["item"].head(7)} == {posterior.items[j] for j in range(0, J, 2)}
    assert (np.diff(found.summary["sd"]) < 0).all()
    assert (np.diff(found.summary["pairs"]) >= 0).all()
    assert found.summary["pairs"].iloc[-1] == 1
    few, all_ = keep_items(posterior, 1), keep_items(posterior, J)
    assert few.agreement < found.agreement <= found.agreement_of_all + 1e-9
    assert all_.agreement == all_.agreement_of_all
    assert found.to_text().startswith(f"{found.n} of {J} items tell ")


def test_where_nobody_is_told_apart_there_is_nothing_to_choose_by():
    theta = np.random.default_rng(0).normal(size=(1, 40, 2))
    draws = {"theta": theta, "a": np.ones((1, 40, 5)), "d": np.zeros((1, 40, 5))}
    alike = Posterior.from_samples(draws, {}, Responses.from_arrays(np.eye(2, 5)), {})
    with pytest.raises(ResponseError, match="tell no pair of subjects apart"):
        keep_items(alike)
    kept = keep_items(alike, 3)
    assert len(kept.items) == 3
    assert "are the most informative, but all together tell no pair" in kept.to_text()


def test_more_than_there_are_cannot_be_kept(posterior: Posterior):
    with pytest.raises(ResponseError, match="-n must lie between 1 and 14, the number of items"):
        keep_items(posterior, 15)
