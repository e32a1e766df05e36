"""Predictions of items without responses integrate over their unknown parameters."""

import jax
import numpy as np
import pytest
import xarray as xr
from scipy.special import expit
from scipy.stats import norm

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.models.q_mirt import DIMS
from bayesirt.posterior import Posterior
from bayesirt.profiles.item_prediction import predict_items

ABILITIES = ["algebra", "logic"]
SEEN = QMatrix.from_arrays([[1, 0], [0, 1]], ["s1", "s2"], ABILITIES)
THETA = np.array([[1.5, -1.0], [0.0, 0.5], [-1.0, 2.0]])
BETA = np.array([0.8, -0.4])
MU_B = np.array([0.5, -1.0])
"""Offset in β, so that the easiness of items is that of `BETA`."""
KEY = jax.random.key(0)


def posterior(sigma_a=1e-9, sigma_d=1e-9, draws=500, spread=0.0) -> Posterior:
    """Return draws with uncertainty only from `sigma_a`, `sigma_d` and `spread`."""
    rng = np.random.default_rng(1)
    shape = (2, draws)
    samples = {
        "theta": THETA + spread * rng.normal(size=(*shape, 3, 2)),
        "a": np.ones((*shape, 2)),
        "d": np.zeros((*shape, 2)),
        "beta": np.broadcast_to(BETA + MU_B * np.exp(0.3), (*shape, 2)),
        "mu_b": np.broadcast_to(MU_B, (*shape, 2)),
        "mu_a": np.full(shape, 0.3),
        "sigma_a": np.full(shape, sigma_a),
        "mu_d": np.full(shape, -0.2),
        "sigma_d": np.full(shape, sigma_d),
    }
    responses = Responses.from_arrays([[1, 0], [0, 1], [1, 1]], items=["s1", "s2"])
    coords = {"ability": ABILITIES, "loading": list(SEEN.loading_names)}
    return Posterior.from_samples(samples, {}, responses, {}, coords=coords, dims=DIMS)


def new(rows, abilities=ABILITIES) -> QMatrix:
    return QMatrix.from_arrays(rows, [f"n{j}" for j in range(len(rows))], abilities)


def test_known_items_have_the_models_probability():
    found = predict_items(posterior(), new([[1, 0], [1, 1]]), key=KEY)
    a = np.exp(0.3)
    eta = np.stack([a * THETA[:, 0] - 0.2 + 0.8, a * THETA.sum(1) - 0.2 + 0.4], 1)
    np.testing.assert_allclose(found.probability, expit(eta), atol=1e-6)
    np.testing.assert_allclose(found.low, found.high, atol=1e-6)


def test_draws_from_before_intercepts_leaned_on_slopes_are_read_as_upright():
    now = posterior()
    tree = now.tree.copy()
    before = now.dataset.drop_vars("mu_b")
    before["beta"] = before["beta"] - MU_B * np.exp(0.3)
    tree["posterior"] = xr.DataTree(before)
    rows = new([[1, 0], [1, 1]])
    found = [predict_items(x, rows, key=KEY).probability for x in (now, Posterior(tree))]
    np.testing.assert_allclose(*found, atol=1e-6)


def test_neutral_items_are_all_alike():
    found = predict_items(posterior(), new([[1, 0], [1, 1]]), key=KEY, new_items="neutral")
    eta = np.stack([THETA[:, 0], THETA.sum(1)], 1)
    np.testing.assert_allclose(found.probability, expit(eta), atol=1e-6)


def test_the_population_of_items_is_integrated_over():
    found = predict_items(
        posterior(sigma_d=1.5, draws=20_000), new([[0, 1], [1, 0]]), key=KEY, max_draws=40_000
    )
    z = norm.ppf((np.arange(2000) + 0.5) / 2000)
    eta = np.exp(0.3) * THETA[:, 1] - 0.2 - 0.4
    p = expit(eta[:, None] + 1.5 * z)
    np.testing.assert_allclose(found.probability[:, 0], p.mean(1), atol=0.01)
    np.testing.assert_allclose(found.low[:, 0], np.quantile(p, 0.05, axis=1), atol=0.015)
    np.testing.assert_allclose(found.high[:, 0], np.quantile(p, 0.95, axis=1), atol=0.015)


def test_scores_have_the_chance_in_answering_too():
    """The score on 50 items with known probabilities has a binomial spread."""
    rows = [[1, 0], [0, 1]] * 25
    found = predict_items(posterior(draws=4000), new(rows), key=KEY, max_draws=8000)
    scores = found.scores.set_index("subject").loc[list(found.subjects)]
    p = found.probability
    sd = np.sqrt((p * (1 - p)).sum(1)) / 50
    np.testing.assert_allclose(scores["score"], p.mean(1))
    width = (scores["high"] - scores["low"]).to_numpy()
    np.testing.assert_allclose(width, 2 * norm.ppf(0.95) * sd, atol=0.03)
    assert found.scores["score"].is_monotonic_decreasing
    assert "50 items without responses: " in found.to_text()


def test_rows_of_seen_items_are_left_out_and_columns_found_by_name():
    q = QMatrix.from_arrays([[1, 0], [0, 1]], ["s1", "fresh"], ["logic", "algebra"])
    found = predict_items(posterior(), q, key=KEY)
    assert found.items == ("fresh",)
    alone = predict_items(posterior(), new([[1]], ["algebra"]), key=KEY)
    np.testing.assert_allclose(found.probability, alone.probability, atol=1e-6)


def test_summary_lists_every_pair():
    found = predict_items(posterior(spread=0.5), new([[1, 0], [0, 1]]), key=KEY)
    table = found.summary
    assert len(table) == 6
    assert (table["low"] < table["probability"]).all()
    assert (table["probability"] < table["high"]).all()
    row = table[(table["subject"] == found.subjects[2]) & (table["item"] == "n1")]
    assert row["probability"].item() == found.probability[2, 1]


def test_thinning_keeps_what_it_says():
    whole, some = (
        predict_items(posterior(spread=0.5), new([[1, 1]]), key=KEY, max_draws=n)
        for n in (1000, 500)
    )
    np.testing.assert_allclose(whole.probability, some.probability, atol=0.05)


@pytest.mark.parametrize(
    ("q", "sentence"),
    [
        (SEEN, "every row of the Q-matrix is of an item with responses"),
        (new([[1]], ["poetry"]), "the posterior has no ability 'poetry'"),
    ],
)
def test_what_cannot_be_predicted_is_refused(q, sentence):
    with pytest.raises(ResponseError, match=sentence):
        predict_items(posterior(), q, key=KEY)
