"""Number of abilities: one or two are recognised, and log scores of predictions are correct."""

import jax
import numpy as np
import pytest
from mirt_data import Simulated, simulated

from bayesirt import ResponseError, Responses
from bayesirt.estimators.dimension import choose_dimension, log_scores
from bayesirt.estimators.mirt import fit_mirt
from bayesirt.estimators.normal_beliefs import Abilities, Beliefs, Items
from bayesirt.likelihood.cell_sums import DenseLayout

KEY = jax.random.key(0)


def clusters(n_subjects: int = 200, n_items: int = 40) -> Simulated:
    """Draw items of two kinds, each of which needs a different ability."""
    data = simulated(n_subjects, n_items, 2, seed=3)
    a = np.where(np.arange(n_items)[:, None] % 2 == np.arange(2), 1.3, 0)
    p = 1 / (1 + np.exp(-(data.theta @ a.T + data.d)))
    y = np.random.default_rng(4).binomial(1, p)
    return Simulated(Responses.from_arrays(y), data.theta, a, data.d)


@pytest.mark.slow
def test_one_ability_is_found():
    data = simulated(200, 40, 1, seed=2)
    choice = choose_dimension(data.responses, candidates=(2, 1), key=KEY)
    assert choice.n_abilities == 1
    assert choice.candidates == (1, 2)
    assert choice.n_held_out == 200 * 40


@pytest.mark.slow
def test_two_abilities_are_found():
    data = clusters()
    choice = choose_dimension(data.responses, candidates=(1, 2, 3), key=KEY)
    table = choice.summary
    assert choice.n_abilities == 2
    assert table.loc[1, "behind_best"] > 4 * table.loc[1, "se"]
    assert table["chosen"].tolist() == [False, True, False]
    y = data.responses.cells.matrices()[0]
    truth = (y * data.eta - np.logaddexp(0, data.eta)).sum()
    best = table.loc[2, "log_score"]
    assert best < truth
    assert best == pytest.approx(truth, rel=0.07)  # 400 abilities and 120 slopes cost this
    assert "2 abilities" in choice.to_text()


@pytest.mark.slow
def test_the_smallest_within_a_standard_error_is_chosen():
    data = clusters()
    choice = choose_dimension(data.responses, candidates=(2, 3), key=KEY, folds=2)
    totals = choice.log_scores.sum(1)
    gaps = choice.log_scores[totals.argmax()] - choice.log_scores
    errors = gaps.std(1, ddof=1) * np.sqrt(200)
    expected = (2, 3)[int(np.argmax(gaps.sum(1) <= np.maximum(errors, 1)))]
    assert choice.n_abilities == expected
    np.testing.assert_allclose(choice.summary["se"], errors)


def test_log_score_is_the_integral():
    """Compare with a plain average over draws of ability and item."""
    rng = np.random.default_rng(0)
    item_root, root = np.tril(rng.normal(size=(3, 3))) / 3, np.tril(rng.normal(size=(2, 2))) / 2
    mean, both = rng.normal(size=2), rng.normal(size=3)
    items = Items(*(np.asarray(x)[None] for x in (both[:2], both[2])))
    abilities = Abilities(mean[None], (root @ root.T)[None])
    beliefs = Beliefs(abilities, (item_root @ item_root.T)[None])
    draws = both + rng.normal(size=(400_000, 3)) @ item_root.T
    theta = mean + rng.normal(size=(400_000, 2)) @ root.T
    eta = (draws[:, :2] * theta).sum(1) + draws[:, 2]
    p = 1 / (1 + np.exp(-eta))
    layout = DenseLayout(np.array([[2]]), np.array([[3]]))
    expected = np.log(np.mean(3 * p**2 * (1 - p)))
    # a product of normals is not quite normal
    assert float(log_scores(layout, items, beliefs)[0]) == pytest.approx(expected, abs=0.03)


def test_same_key_same_choice_and_trials_stay_together():
    data = simulated(200, 40, 1, seed=5, trials=3, missing=0.3)
    one, other = (
        choose_dimension(data.responses, candidates=(1, 2), folds=2, key=KEY) for _ in range(2)
    )
    np.testing.assert_array_equal(one.log_scores, other.log_scores)
    assert one.n_held_out == data.responses.n_observed
    assert (one.log_scores < 0).all()


def test_bad_input_is_refused_in_a_sentence():
    answers = Responses.from_arrays(np.tri(8, 6, -1))
    with pytest.raises(ResponseError, match="candidates must be from 1 to 5"):
        choose_dimension(answers, candidates=(1, 6), key=KEY)
    with pytest.raises(ResponseError, match="`folds` must be 2 or more"):
        choose_dimension(answers, candidates=(1,), folds=1, key=KEY)


@pytest.mark.slow
def test_real_suite_needs_several_abilities(shared):
    data = np.load(shared / "data" / "metabench_joint5.npz")
    some = np.arange(0, 2461, 5), np.arange(0, 693, 4)
    responses = Responses.from_arrays(data["Y"][np.ix_(*some)])
    choice = choose_dimension(responses, candidates=(1, 2, 5), key=KEY)
    assert choice.n_abilities == 5
    fitted = fit_mirt(responses, n_abilities=5)
    assert fitted.converged
