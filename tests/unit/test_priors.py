"""The options of priors, and the model's draws from them."""

import itertools

import jax
import numpy as np
import pytest
from numpyro.infer import Predictive
from scipy.stats import kstest, lognorm, norm

from bayesirt import Priors, TwoPL


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"kind": "flat"}, "must be hierarchical or fixed, got 'flat'"),
        ({"slopes": "negative"}, "must be positive, free or rasch, got 'negative'"),
        ({"kind": "fixed", "slopes": "rasch"}, "positive slopes only"),
        ({"kind": "fixed", "slopes": "free"}, "positive slopes only"),
    ],
)
def test_unknown_options_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        Priors(**options)


def test_every_allowed_pair_is_described_differently():
    pairs = itertools.product(("hierarchical", "fixed"), ("positive", "free", "rasch"))
    allowed = [p for p in pairs if p[0] == "hierarchical" or p[1] == "positive"]
    texts = {Priors(*pair).describe() for pair in allowed}
    assert len(texts) == len(allowed) == 4
    assert Priors() == Priors("hierarchical", "positive")


TRIALS = np.array([[1, 3, 0], [5, 1, 2], [0, 1, 1], [2, 2, 2]])


def prior_draws(priors: Priors) -> dict[str, np.ndarray]:
    drawn = Predictive(TwoPL(priors), num_samples=4000)(jax.random.key(0), TRIALS)
    return {k: np.asarray(v) for k, v in drawn.items()}


def p_value(draws: np.ndarray, distribution) -> float:
    return kstest(draws, distribution.cdf).pvalue


@pytest.mark.statistical
def test_fixed_priors_draw_what_is_published():
    """Four tests at 1e-4: a correct model fails with a new key once in 2500."""
    draws = prior_draws(Priors(kind="fixed"))
    assert p_value(draws["theta"][:, 0], norm(0, 1)) > 1e-4
    assert p_value(draws["a"][:, 1], lognorm(0.5)) > 1e-4
    assert p_value(draws["b"][:, 2], norm(0, 2)) > 1e-4
    np.testing.assert_allclose(draws["d"], -draws["a"] * draws["b"], rtol=1e-12)
    assert (draws["successes"] <= TRIALS).all()
    p = 1 / (1 + np.exp(-(draws["theta"][:, 1] * draws["a"][:, 0] + draws["d"][:, 0])))
    excess = (draws["successes"][:, 1, 0] - 5 * p) / np.sqrt(5 * p * (1 - p) + 1e-12)
    assert abs(excess.mean()) * np.sqrt(4000) < 3.9


@pytest.mark.statistical
@pytest.mark.parametrize("slopes", ["positive", "free", "rasch"])
def test_hierarchical_priors_scale_the_items(slopes):
    """Five tests at 1e-4 per case: a correct model fails with a new key once in 700."""
    draws = prior_draws(Priors(slopes=slopes))
    assert p_value(draws["mu_d"], norm(0, 2)) > 1e-4
    expected = draws["mu_d"] - draws.get("mu_b", 0) * draws["a"][:, 0]
    assert p_value((draws["d"][:, 0] - expected) / draws["sigma_d"], norm(0, 1)) > 1e-4
    np.testing.assert_allclose(draws["b"], -draws["d"] / draws["a"])
    if slopes == "rasch":
        assert (draws["a"] == 1).all()
        assert "mu_a" not in draws
        return
    assert p_value(draws["mu_b"], norm(0, 2)) > 1e-4
    a = np.log(draws["a"]) if slopes == "positive" else draws["a"]
    assert p_value(draws["mu_a"], norm(0, 0.5)) > 1e-4
    assert p_value((a[:, 0] - draws["mu_a"]) / draws["sigma_a"], norm(0, 1)) > 1e-4
    assert (draws["sigma_a"] > 0).all()
