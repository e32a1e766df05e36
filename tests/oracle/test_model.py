"""The model written for reading and the likelihood written for speed agree."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy.special import expit, gammaln
from scipy.stats import halfnorm, lognorm, norm
from small_data import PRIORS, as_sparse, each_prior, masked_counts

from bayesirt import Priors, fit_cbmm
from bayesirt.data.responses import Responses
from bayesirt.inference.nuts import posterior_target
from bayesirt.likelihood.cell_sums import DenseLayout, SparseLayout, layout_of, log_likelihood_of
from bayesirt.likelihood.families import LOGIT, logit_bound, logit_terms
from bayesirt.models import TwoPL

each_layout = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])


def layouts(responses: Responses, sparse: bool) -> DenseLayout | SparseLayout:
    layout = layout_of(as_sparse(responses) if sparse else responses)
    assert isinstance(layout, SparseLayout if sparse else DenseLayout)
    return layout


def random_sites(priors: Priors, n_subjects: int, n_items: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    sites = {"theta": rng.normal(size=n_subjects)}
    if priors.kind == "fixed":
        return sites | {"a": np.exp(rng.normal(size=n_items)), "b": 2 * rng.normal(size=n_items)}
    sites |= {"mu_d": rng.normal(), "sigma_d": 0.9, "d": rng.normal(size=n_items)}
    if priors.slopes == "positive":
        sites |= {"a": np.exp(rng.normal(size=n_items))}
    if priors.slopes == "free":
        sites |= {"a": rng.normal(size=n_items) + 0.5}
        assert (sites["a"] < 0).any()
        assert sites["a"].sum() > 0
    if priors.slopes != "rasch":
        sites |= {"mu_a": rng.normal() / 2, "sigma_a": 0.4, "mu_b": 2 * rng.normal()}
    return sites


def items_of(sites: dict[str, np.ndarray], n_items: int) -> tuple[np.ndarray, np.ndarray]:
    a = sites.get("a", np.ones(n_items))
    return a, sites["d"] if "d" in sites else -a * sites["b"]


def log_prior(priors: Priors, s: dict[str, np.ndarray]) -> float:
    value = norm.logpdf(s["theta"]).sum()
    if priors.kind == "fixed":
        return value + lognorm.logpdf(s["a"], 0.5).sum() + norm.logpdf(s["b"], 0, 2).sum()
    value += norm.logpdf(s["mu_d"], 0, 2) + halfnorm.logpdf(s["sigma_d"], 0, 2)
    lean = 0.0 if priors.slopes == "rasch" else s["mu_b"] * s["a"]
    value += norm.logpdf(s["d"], s["mu_d"] - lean, s["sigma_d"]).sum()
    if priors.slopes == "rasch":
        return value
    value += (
        norm.logpdf(s["mu_b"], 0, 2)
        + norm.logpdf(s["mu_a"], 0, 0.5)
        + halfnorm.logpdf(s["sigma_a"], 0, 0.5)
    )
    if priors.slopes == "free":
        return value + norm.logpdf(s["a"], s["mu_a"], s["sigma_a"]).sum()
    return value + lognorm.logpdf(s["a"], s["sigma_a"], scale=np.exp(s["mu_a"])).sum()


def log_binomial(responses: Responses) -> float:
    _, _, y, n = (x.astype(float) for x in responses.cells.listed())
    return float((gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)).sum())


@each_prior
def test_numpyro_density_less_the_priors_is_the_summed_likelihood(priors):
    responses = masked_counts(7, 6)
    assert 0.3 < responses.coverage < 0.9
    layout = layouts(responses, sparse=False)
    successes, trials = responses.cells.matrices()
    log_likelihood = jax.jit(log_likelihood_of(layout))
    cells = trials.astype(int), successes.astype(int)
    density = jax.jit(lambda v: log_density(TwoPL(priors), cells, {}, v)[0])
    for seed in range(5):
        sites = random_sites(priors, 7, 6, seed)
        joint = density(sites)
        a, d = items_of(sites, 6)
        terms = LOGIT.terms(
            layout.predictor(*map(jnp.asarray, (sites["theta"], a, d))),
            layout.successes,
            layout.trials,
        )
        expected = float(joint) - log_prior(priors, sites) - log_binomial(responses)
        assert float(terms.log_likelihood.sum()) == pytest.approx(expected, rel=0, abs=1e-10)
        assert float(log_likelihood(sites["theta"], a, d)) == pytest.approx(
            expected, rel=0, abs=1e-10
        )


def test_free_slopes_that_sum_below_zero_have_no_density():
    trials = np.ones((3, 2), int)
    sites = random_sites(Priors(slopes="free"), 3, 2, 4) | {"a": np.array([0.5, -0.6])}
    density, _ = log_density(TwoPL(Priors(slopes="free")), (trials, trials), {}, sites)
    assert density == -np.inf


TAILS = np.array([0.0, 1e-8, 0.3, 2.0, 17.0, 40.0, 100.0, 500.0])
ETA = np.concatenate([-TAILS[::-1], TAILS])


@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (2, 5), (0, 0)])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(jnp.float64, 1e-13), (jnp.float32, 1e-5)], ids=["f64", "f32"]
)
def test_score_and_information_are_the_derivatives_in_both_tails(
    successes, trials, dtype, tolerance
):
    eta = jnp.asarray(ETA, dtype)
    terms = logit_terms(eta, jnp.asarray(successes, jnp.int8), jnp.asarray(trials, jnp.int8))
    assert all(t.dtype == dtype for t in terms)
    assert all(bool(jnp.isfinite(t).all()) for t in terms)
    exact = np.asarray(eta, np.float64)
    small = expit(-np.abs(exact))
    for name, formula in (
        ("log_likelihood", successes * exact - trials * np.logaddexp(0, exact)),
        ("score", successes * expit(-exact) - (trials - successes) * expit(exact)),
        ("information", trials * small * (1 - small)),
    ):
        np.testing.assert_allclose(getattr(terms, name), formula, tolerance, tolerance, str(name))

    def log_likelihood(eta):
        return logit_terms(eta, jnp.asarray(successes, dtype), jnp.asarray(trials, dtype))[0]

    away = eta[eta != 0]  # |η| has no derivative at 0
    first, second = jax.grad(log_likelihood), jax.grad(jax.grad(log_likelihood))
    score, curvature = (jax.jit(jax.vmap(f))(away) for f in (first, second))
    kept = logit_terms(away, jnp.asarray(successes, dtype), jnp.asarray(trials, dtype))
    np.testing.assert_allclose(score, kept.score, tolerance, tolerance)
    np.testing.assert_allclose(-curvature, kept.information, tolerance, tolerance)
    assert bool((terms.information <= logit_bound(jnp.asarray(trials, dtype))).all())
    assert float(terms.information.max()) == float(logit_bound(jnp.asarray(trials, dtype)))


def test_information_keeps_its_digits_where_p_rounds_to_one():
    terms = logit_terms(jnp.array([50.0, -50.0]), jnp.array([1, 0]), jnp.array([1, 1]))
    np.testing.assert_allclose(terms.information, np.exp(-50.0), rtol=1e-14)
    np.testing.assert_allclose(terms.log_likelihood, -np.exp(-50.0), rtol=1e-14)


@each_layout
def test_hand_written_gradient_equals_automatic_differentiation(sparse):
    layout = layouts(masked_counts(7, 6), sparse)
    log_likelihood = log_likelihood_of(layout)

    def plain(theta, a, d):
        eta = layout.predictor(theta, a, d)
        return (layout.successes * eta - layout.trials * jnp.logaddexp(0, eta)).sum()

    rng = np.random.default_rng(0)
    by_hand, by_itself = (
        jax.jit(jax.value_and_grad(lambda *p, f=f: 2.5 * f(*p), argnums=(0, 1, 2)))
        for f in (log_likelihood, plain)
    )
    for size in (0.5, 3.0, 20.0):
        point = tuple(jnp.asarray(size * rng.normal(size=n)) for n in (7, 6, 6))
        value, gradient = by_hand(*point)
        expected, by_jax = by_itself(*point)
        assert float(value) == pytest.approx(float(expected), rel=1e-12)
        for own, other in zip(gradient, by_jax, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-11, atol=1e-11)


TINY = masked_counts(5, 4)


def flat(values: dict[str, jax.Array]) -> jax.Array:
    return jnp.concatenate([jnp.ravel(values[name]) for name in sorted(values)])


@pytest.mark.parametrize(("priors", "few"), [*product(PRIORS, (0, 20))], ids=str)
def test_sampler_sees_the_density_of_the_readable_model(priors, few, monkeypatch):
    monkeypatch.setattr("bayesirt.inference.start_coordinates.FEW_SUBJECTS", few)
    target = posterior_target(TINY, fit_cbmm(TINY), TwoPL(priors))
    successes, trials = (m.astype(int) for m in TINY.cells.matrices())
    derived = {"d"} if priors.kind == "fixed" else {"b"}
    derived |= {"a"} if priors.slopes == "rasch" else set()

    def sites(x):
        return {k: v for k, v in target.to_draw(x).items() if k not in derived}

    def negative_log_density(x):
        joint, _ = log_density(TwoPL(priors), (trials, successes), {}, sites(x))
        return -joint - jnp.linalg.slogdet(jax.jacobian(lambda x: flat(sites(x)))(x))[1]

    points = jnp.asarray(np.random.default_rng(0).normal(size=(12, target.size)))
    potentials = np.asarray(jax.jit(jax.vmap(target.potential))(points))
    gaps = (potentials - jax.jit(jax.vmap(negative_log_density))(points))[np.isfinite(potentials)]
    assert len(gaps) >= (5 if priors.slopes == "free" else 12)
    np.testing.assert_allclose(gaps, gaps[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("priors", PRIORS[::2], ids=Priors.describe)
def test_coordinates_start_at_the_point_estimate(priors):
    """There are so many items that no single one determines an ability."""
    rng = np.random.default_rng(5)
    theta, a, d = rng.normal(size=150), np.exp(0.3 * rng.normal(size=40)), rng.normal(size=40)
    p = expit(theta[:, None] * a + d)
    responses = Responses.from_arrays((rng.uniform(size=p.shape) < p).astype(int))
    point = fit_cbmm(responses)
    target = posterior_target(responses, point, TwoPL(priors))
    draw = {k: np.asarray(v) for k, v in jax.jit(target.to_draw)(jnp.zeros(target.size)).items()}
    scale = point["a"].mean() if priors.slopes == "rasch" else 1.0
    np.testing.assert_allclose(draw["theta"], scale * point["theta"], rtol=0, atol=1e-10)
    eta = point["theta"][:, None] * point["a"] + point["d"]
    own = draw["theta"][:, None] * draw["a"] + draw["d"]
    # Items are shrunk as in the model, so the start is near the estimate, not at it.
    near = 0.4 if priors.slopes == "rasch" else 0.25
    assert np.sqrt(np.mean((own - eta) ** 2)) < near * eta.std()
    assert (np.abs(draw["d"] - point["d"]) < 3 * point["d_se"]).all()
    gradient = jax.jit(jax.grad(target.potential))(jnp.zeros(target.size))
    assert np.isfinite(gradient).all()
