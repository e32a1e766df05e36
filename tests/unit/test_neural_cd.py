"""NeuralCD: guarantees of its network, and recovery of a known truth."""

import jax
import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from bayesirt import ResponseError, Responses
from bayesirt.data.q_matrix import QMatrix
from bayesirt.estimators.neural_cd import NeuralDiagnosis, fit_neural_cd
from bayesirt.profiles.simulation import simulate_q_mirt

NARROW = {"hidden": (16, 32, 8), "epochs": 3, "batch_size": 64}
Q = QMatrix.from_arrays(np.tile([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], (6, 1)))
SIMULATED = simulate_q_mirt(40, Q, key=jax.random.key(0), trials=3, missing=0.2)


def area_under_curve(score: np.ndarray, right: np.ndarray) -> float:
    ranks, n = rankdata(score), right.sum()
    return (ranks[right].sum() - n * (n + 1) / 2) / (n * (~right).sum())


@pytest.fixture(scope="module")
def small_fit() -> NeuralDiagnosis:
    return fit_neural_cd(SIMULATED.responses, Q, key=jax.random.key(1), **NARROW)


def with_abilities(found: NeuralDiagnosis, abilities: np.ndarray) -> NeuralDiagnosis:
    """Return the same network for subjects with other abilities."""
    table = found.parameters.isel(subject=slice(len(abilities))).copy(deep=True)
    table["proficiency"][:] = abilities
    return NeuralDiagnosis(table, found.layers, found.trace, found.settings)


@pytest.mark.parametrize("needed", [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
def test_probability_never_falls_when_a_needed_ability_rises(small_fit, needed):
    """This holds for weights of any sign and size that training could produce."""
    rng = np.random.default_rng(0)
    layers = tuple(
        layer._replace(weights=np.float32(2) * rng.normal(size=layer.weights.shape))
        for layer in small_fit.layers
    )
    wild = NeuralDiagnosis(small_fit.parameters, layers, small_fit.trace, small_fit.settings)
    for network in (small_fit, wild):
        for k in range(3):
            abilities = np.tile(rng.uniform(size=3), (21, 1))
            abilities[:, k] = np.linspace(0, 1, 21)
            p = with_abilities(network, abilities).predict([needed])[:, 0]
            steps = np.diff(p)
            if needed[k]:
                assert (steps >= -1e-7).all()
                assert network is wild or p[-1] > p[0]
            else:
                np.testing.assert_allclose(steps, 0, atol=1e-7)


def test_unseen_item_has_middle_difficulty_and_full_discrimination(small_fit):
    plain = small_fit.predict([[0, 1, 1]])
    spelt = small_fit.predict([[0, 1, 1]], difficulty=0.5, discrimination=1)
    np.testing.assert_array_equal(plain, spelt)
    harder = small_fit.predict([[0, 1, 1]], difficulty=0.6)
    assert (harder < plain).all()
    some = small_fit.predict([[0, 1, 1]], ["subject 7", "subject 2"])
    np.testing.assert_allclose(some, plain[[6, 1]], rtol=1e-6)


def test_same_key_gives_the_same_network(small_fit):
    again = fit_neural_cd(SIMULATED.responses, Q, key=jax.random.key(1), **NARROW)
    assert again.parameters.identical(small_fit.parameters)
    np.testing.assert_array_equal(again.trace, small_fit.trace)
    other = fit_neural_cd(SIMULATED.responses, Q, key=jax.random.key(2), **NARROW)
    assert not other.parameters.identical(small_fit.parameters)


def test_result_is_complete(small_fit):
    assert small_fit.abilities.shape == (40, 3)
    for name in ("proficiency", "difficulty", "discrimination"):
        assert ((small_fit.parameters[name] > 0) & (small_fit.parameters[name] < 1)).all()
    assert small_fit.trace.shape == (3,)
    assert list(small_fit.summary.columns) == list(Q.abilities)
    assert list(small_fit.summary.index) == list(SIMULATED.responses.subjects)
    assert "3 abilities of 40 subjects after 3 epochs" in repr(small_fit)


@pytest.mark.slow
def test_fit_follows_the_responses_order_of_items():
    responses = SIMULATED.responses
    moved = QMatrix.from_arrays(Q.needs[::-1], Q.items[::-1], Q.abilities)
    one, other = (fit_neural_cd(responses, q, key=jax.random.key(1), **NARROW) for q in (Q, moved))
    assert one.parameters.identical(other.parameters)


@pytest.mark.slow
def test_abilities_order_subjects_like_the_truth():
    q = QMatrix.from_arrays(np.tile(np.eye(2, dtype=int), (12, 1)))
    known = simulate_q_mirt(60, q, key=jax.random.key(3), correlation=0.0, trials=4)
    found = fit_neural_cd(
        known.responses, q, key=jax.random.key(4), hidden=(32, 32), dropout=0.2,
        learning_rate=0.02, decay=0.95, batch_size=128, epochs=30,
    )  # fmt: skip
    theta = known.parameters["theta"].to_numpy()
    own = [spearmanr(found.abilities[:, k], theta[:, k]).statistic for k in range(2)]
    across = spearmanr(found.abilities[:, 0], theta[:, 1]).statistic
    assert min(own) > 0.8
    assert abs(across) < 0.5
    assert found.trace[-1] < found.trace[0]


@pytest.mark.slow
def test_paper_settings_predict_unseen_items_of_real_data(shared):
    """Zhang et al. (2026) report AUCs of .77 to .89 within subjects; these are within items."""
    data = np.load(shared / "data" / "qmatrix_frcsub.npz")
    q = QMatrix.from_arrays(data["Q"], data["items"], data["Q_names"])
    responses = Responses.from_arrays(data["Y"], items=data["items"])
    hidden = np.array([5, 11, 17])
    seen = np.setdiff1d(np.arange(20), hidden)
    known = responses.select(np.arange(536), seen)
    found = fit_neural_cd(known, q, key=jax.random.key(0))
    p = found.predict(q.needs[hidden])
    right = data["Y"][:, hidden] == 1
    areas = [area_under_curve(p[:, k], right[:, k]) for k in range(3)]
    assert min(areas) > 0.7


def test_bad_input_is_refused_in_a_sentence(small_fit):
    with pytest.raises(ResponseError, match="rows of the Q-matrix have 3 abilities"):
        small_fit.predict([[1, 0]])
    with pytest.raises(ResponseError, match="only 0 and 1"):
        small_fit.predict([[1, 0, 2]])
    with pytest.raises(ResponseError, match="subject 'nobody' is not among"):
        small_fit.predict([[1, 0, 0]], ["nobody"])
    few = QMatrix.from_arrays(np.eye(3, dtype=int))
    for options, said in (
        ({"dropout": 1.0}, "`dropout`"),
        ({"hidden": ()}, "`hidden`"),
        ({"epochs": 0}, "`epochs`"),
        ({"learning_rate": 0.0}, "`learning_rate`"),
    ):
        with pytest.raises(ValueError, match=said):
            fit_neural_cd(SIMULATED.responses, Q, key=jax.random.key(0), **options)
    with pytest.raises(ResponseError, match="no row for items 'item 4'"):
        fit_neural_cd(SIMULATED.responses, few, key=jax.random.key(0))
