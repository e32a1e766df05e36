"""Correlated runs of a question: the beta-binomial family, pass@k, and the choice of the model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import betabinom

from bayesirt import Graded, Posterior, Repeats, Responses, repeated_runs
from bayesirt.checks.fit.cell_residuals import Counts, Draw, residuals
from bayesirt.checks.run_correlation import run_correlation
from bayesirt.errors import ResponseError
from bayesirt.estimators.registry import fit_point
from bayesirt.likelihood.beta_binomial import BETA_BINOMIAL
from bayesirt.likelihood.families import LOGIT

ETA, PHI = jnp.asarray(0.4), jnp.asarray(2.5)
MU = 1 / (1 + np.exp(-0.4))


def exact(n: int, mu: float = MU, phi: float = 2.5):
    return betabinom(n, mu * phi, (1 - mu) * phi)


every, terms = jax.jit(BETA_BINOMIAL.every), jax.jit(BETA_BINOMIAL.terms)


def log_likelihood(eta, phi, y, n):
    return BETA_BINOMIAL.terms(eta, y, n, phi).log_likelihood


def test_the_likelihood_is_scipys_and_its_scores_are_derivatives():
    y, n = jnp.arange(6.0), jnp.full(6, 5.0)
    found = every(jnp.full(6, ETA), y, n, jnp.full(6, PHI))
    own = np.asarray(found.log_likelihood)
    known = exact(5).logpmf(np.arange(6)) - np.log([1, 5, 10, 10, 5, 1])
    np.testing.assert_allclose(own, known, atol=1e-7)
    for k in range(2):
        slope = jax.jit(jax.vmap(jax.grad(log_likelihood, k), (None, None, 0, 0)))(ETA, PHI, y, n)
        np.testing.assert_allclose(found.score[k], slope, atol=1e-6)


def test_information_is_that_of_the_mean_and_never_negative():
    y, n, p = jnp.arange(6.0), jnp.full(6, 5.0), exact(5).pmf(np.arange(6))
    found = every(jnp.full(6, ETA), y, n, jnp.full(6, PHI))
    for k in range(2):
        assert (np.asarray(found.information[k][k]) >= 0).all()
        of_score = float(p @ found.score[k] ** 2)
        assert float(p @ found.information[k][k]) == pytest.approx(of_score, rel=1e-6)


def test_moments_are_exact():
    family = BETA_BINOMIAL.given([jnp.asarray(PHI)])
    for n in (1, 3, 8):
        shares = jax.jit(family.shares)(ETA, n)
        mean, variance, skew = (float(x) for x in exact(n).stats("mvs"))
        assert float(shares.mean) * n == pytest.approx(mean)
        assert float(shares.variance) * n == pytest.approx(variance)
        assert float(shares.third) * n == pytest.approx(skew * variance**1.5)
    y = jax.jit(family.draw)(jax.random.key(0), jnp.full(40_000, ETA), jnp.full(40_000, 3))
    observed = np.bincount(np.asarray(y, int), minlength=4) / len(y)
    np.testing.assert_allclose(observed, exact(3).pmf(np.arange(4)), atol=0.01)


def test_independent_runs_are_the_limit():
    y, n = jnp.arange(6.0), jnp.full(6, 5.0)
    far = terms(jnp.full(6, ETA), y, n, jnp.full(6, 1e5))
    near = LOGIT.terms(jnp.full(6, ETA), y, n)
    for own, other in zip(far[:2], near[:2], strict=True):
        np.testing.assert_allclose(own, other, atol=1e-3)
    once = terms(jnp.full(2, ETA), jnp.arange(2.0), jnp.ones(2), jnp.full(2, 0.3))
    alone = LOGIT.terms(jnp.full(2, ETA), jnp.arange(2.0), jnp.ones(2))
    np.testing.assert_allclose(once.log_likelihood, alone.log_likelihood, atol=1e-6)
    family = BETA_BINOMIAL.given([jnp.asarray(0.3)])
    told = [float(family.expected_information(jnp.asarray(ETA), k)) for k in (1, 4)]
    assert told[0] == pytest.approx(MU * (1 - MU))
    assert told[1] == pytest.approx(4 * told[0] / (1 + 3 / 1.3))


def test_residuals_have_the_variance_that_they_say():
    n, phi = 4, jnp.asarray([0.5, 4.0])
    draw = Draw(jnp.asarray([-1.0, 0.5]), jnp.ones(2), jnp.asarray([0.3, -0.4]), (phi,))
    trials = jnp.full((2, 2), n)
    eta = draw.theta[:, None] * draw.a + draw.d
    family = BETA_BINOMIAL.given([phi])
    found = jax.lax.map(
        lambda key: residuals("beta-binomial", Counts(family.draw(key, eta, trials), trials), draw),
        jax.random.split(jax.random.key(1), 20_000),
    )
    np.testing.assert_allclose(found.score.mean(0), 0, atol=0.03)
    np.testing.assert_allclose((found.score**2).mean(0), found.weight[0], rtol=0.05)
    np.testing.assert_allclose((found.excess**2).mean(0), found.variance[0], rtol=0.05)


def known_posterior(phi: float, runs: int = 5) -> tuple[Posterior, np.ndarray, np.ndarray]:
    """Return a posterior with known μ, and questions whose runs are all right or all wrong."""
    rng = np.random.default_rng(0)
    trials = np.full((3, 200), runs)
    successes = runs * (rng.uniform(size=trials.shape) < 0.5)
    zero = np.zeros((1, 200, 200))
    flat = {"theta": zero[..., :3], "a": zero + 1, "b": zero, "d": zero, "phi": zero + phi}
    responses = Responses.from_arrays(successes, trials)
    attrs = {"link": "beta-binomial", "model": Repeats.title, "engine": "blocked", "complete": 1}
    posterior = Posterior.from_samples(flat, {}, responses, attrs, dims={**Repeats.dims})
    return posterior, successes, trials


def test_pass_rates_are_the_moments_of_each_questions_beta():
    posterior, y, n = known_posterior(3.0)
    table = repeated_runs(posterior, [2, 1]).table.set_index(["subject", "runs"])
    alpha, beta = 1.5 + y, 1.5 + n - y
    square = alpha * (alpha + 1) / (alpha + beta) / (alpha + beta + 1)
    miss = beta * (beta + 1) / (alpha + beta) / (alpha + beta + 1)
    for i, subject in enumerate(posterior.subjects):
        assert table.loc[(subject, 1), "pass_at"] == pytest.approx(
            table.loc[(subject, 1), "pass_all"]
        )
        assert table.loc[(subject, 2), "pass_all"] == pytest.approx(square[i].mean(), abs=0.004)
        assert table.loc[(subject, 2), "pass_at"] == pytest.approx(1 - miss[i].mean(), abs=0.004)
    assert (table["pass_at_low"] < table["pass_at"]).all()
    assert (table["pass_all"] < table["pass_all_high"]).all()


def test_runs_that_share_nothing_follow_ability_alone():
    posterior, *_ = known_posterior(1e6)
    found = repeated_runs(posterior)
    assert found.correlation == pytest.approx(0, abs=1e-5)
    np.testing.assert_allclose(
        found.table["pass_all"], 0.5 ** found.table["runs"].to_numpy(float), atol=0.001
    )


def simulated(phi: float | None) -> Responses:
    rng = np.random.default_rng(2)
    mu = 1 / (1 + np.exp(-(rng.normal(size=(40, 1)) + rng.normal(size=30))))
    p = mu if phi is None else rng.beta(mu * phi, (1 - mu) * phi)
    trials = rng.integers(1, 6, mu.shape)
    return Responses.from_arrays(rng.binomial(trials, p), trials)


def test_the_correlation_of_runs_is_found_and_is_none_where_there_is_none():
    for phi, expected in ((None, 0.0), (3.0, 0.25)):
        responses = simulated(phi)
        found = run_correlation(responses, fit_point(responses))
        assert found.rho == pytest.approx(expected, abs=0.06)
        assert found.sure == (phi is not None)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (
            lambda: Repeats().suited_to(Responses.from_arrays([[1, 0], [0, 1]])),
            "no question was run more than once",
        ),
        (lambda: Repeats(link="probit"), "repeats has its own response curve"),
        (lambda: repeated_runs(known_posterior(1.0)[0], [0]), "from 1"),
        (lambda: Graded(n=3).suited_to(simulated(None)), "graded"),
    ],
)
def test_what_cannot_be_is_refused(act, sentence):
    with pytest.raises(ResponseError, match=sentence):
        act()
