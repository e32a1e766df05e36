"""Effects of wrong answers on length are found where planted, and improve prediction only there."""

import jax
import numpy as np
import pytest
from lart_data import simulate_lart

from bayesirt.checks.wrong_lengths import WrongLengths, compare_wrong_lengths
from bayesirt.inference.engines import sample_posterior
from bayesirt.inference.options import RunOptions
from bayesirt.models import LaRT

pytestmark = pytest.mark.statistical

SIZE = (60, 20)


def both(delta: float) -> tuple[np.ndarray, np.ndarray, WrongLengths]:
    """Return the true δ, its draws, and the comparison with plain LaRT."""
    responses, truth = simulate_lart(*SIZE, seed=8, delta=delta)
    fits = [
        sample_posterior(
            responses,
            key=jax.random.key(2),
            model=LaRT(wrong_lengths=wrong_lengths),
            options=RunOptions(num_warmup=200, num_samples=400),
        )
        for wrong_lengths in (True, False)
    ]
    assert fits[0].verdict.r_hat < 1.05
    compared = compare_wrong_lengths(responses, *fits)
    return truth.get("delta", np.zeros(1)), fits[0].draws("delta"), compared


def test_longer_wrong_answers_are_found_and_predict_better():
    """Of 20 intervals of 90%, fewer than 11 cover the truth once in 70,000 times."""
    truth, draws, found = both(1.0)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    print(found, np.mean((low <= truth) & (truth <= high)))
    assert np.sum((low <= truth) & (truth <= high)) >= 11
    assert found.factor[0] > 1.5
    assert found.factor[0] < np.exp(truth.mean()) * 1.2
    assert found.factor[2] > np.exp(truth.mean()) / 1.2
    assert found.prediction.elpd > 3 * found.prediction.se
    assert "and modelling that fits better" in found.to_text()


def test_where_wrong_answers_are_like_right_ones_nothing_is_claimed():
    """The gain stays below 2 standard errors, and δ is near zero."""
    _, draws, found = both(0.0)
    print(found)
    assert found.prediction.elpd < 2 * found.prediction.se
    assert "and modelling that fits better" not in found.to_text()
    low, _, high = found.factor
    assert low / 1.2 < 1 < high * 1.2
    assert np.abs(draws.mean(0)).max() < 0.5
