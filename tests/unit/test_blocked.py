"""The blocked kernel: its algebra, its single moves, its passes over the data, and its chains."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import MCMC
from passes_of_one import one_ability
from scipy.stats import kstest, loggamma, multivariate_normal
from small_data import PRIORS, as_sparse, each_prior, in_32_bits, masked_counts

from bayesirt import Priors, RunOptions, fit_cbmm
from bayesirt.data.responses import Responses
from bayesirt.estimators.cell_sums import cell_sums
from bayesirt.inference.block_steps import (
    Chance,
    Conditional,
    _width,
    chance_for,
    log_concave_move,
    log_return,
    newton_move,
    normal_draw,
    propose,
    towards,
)
from bayesirt.inference.blocked import BlockedNewton, start_chains
from bayesirt.inference.moves import moves_of
from bayesirt.inference.one_ability import OneAbility
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.inference.subject_moves import Normals, move_subjects
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.inference.ways import way_of
from bayesirt.likelihood.cell_sums import layout_of
from bayesirt.likelihood.families import FAMILIES, LOGIT
from bayesirt.models import ThreePL, TwoPL

N, J = 5, 4


COUNTS = masked_counts(N, J)


def some_sites(priors: Priors, seed: int = 0) -> dict[str, jax.Array]:
    centre, _ = OneAbility(TwoPL(priors)).start(fit_cbmm(COUNTS), None)
    rng = np.random.default_rng(seed)
    return {k: jnp.asarray(v + 0.3 * rng.normal(size=np.shape(v))) for k, v in centre.items()}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_return_ratio_is_that_of_two_normals(size):
    rng = np.random.default_rng(size)
    roots = rng.normal(size=(2, 7, size, size))
    precision = roots @ np.swapaxes(roots, -1, -2) + np.eye(size)
    x, score, new_score, noise = rng.normal(size=(4, 7, size))
    here, there = (
        Conditional(jnp.zeros(7), jnp.asarray(s), jnp.asarray(h))
        for s, h in zip((score, new_score), precision, strict=True)
    )
    proposal = propose(jnp.asarray(noise), jnp.asarray(x), here)
    found = log_return(jnp.asarray(x), proposal, there)
    for i in range(7):
        y = np.asarray(proposal.position[i])
        forth, back = (
            multivariate_normal(start + np.linalg.solve(h, g), _width(noise) * np.linalg.inv(h))
            for start, g, h in (
                (x[i], score[i], precision[0, i]),
                (y, new_score[i], precision[1, i]),
            )
        )
        assert float(found[i]) == pytest.approx(back.logpdf(x[i]) - forth.logpdf(y), rel=1e-9)


MEMBERS = 200_000
SHAPE = 1.5
"""Log-gamma draws of this shape are far from normal: their left tail is long."""


def log_gamma(x: jax.Array) -> jax.Array:
    return SHAPE * x - jnp.exp(x)


def log_gamma_block(x: jax.Array) -> tuple[Conditional, None]:
    grown = jnp.exp(x)
    return Conditional(log_gamma(x[:, 0]), SHAPE - grown, grown[:, :, None] + 0.3), None


def newton(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    step = newton_move(chance_for(RandomNumbers(key), x[:, None]), x[:, None], log_gamma_block)
    return step.position[:, 0], step.accepted


def along_a_line(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    t, accepted = log_concave_move(RandomNumbers(key), lambda t: log_gamma(x + t), -x)
    return x + t, accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("move", "least"), [(newton, 0.5), (along_a_line, 0.8)])
def test_a_move_leaves_its_distribution_as_it_is(move, least):
    """Exact draws stay exact draws; a correct move fails with a new key once in 10^6."""
    x = jnp.asarray(loggamma.rvs(SHAPE, size=MEMBERS, random_state=1))
    moved, accepted = jax.jit(move)(jax.random.key(2), x)
    assert least < float(accepted.mean()) < 1
    assert (moved != x).mean() > least
    assert kstest(np.asarray(moved), loggamma(SHAPE).cdf).pvalue > 1e-6
    for low, high in ((-np.inf, -2), (-2, 0), (0, 1), (1, np.inf)):
        flow = np.sum((x < high) & (x > low)) - np.sum((moved < high) & (moved > low))
        changed = np.sum(((x < high) & (x > low)) != ((moved < high) & (moved > low)))
        assert abs(flow) < 5 * np.sqrt(changed)


@pytest.mark.statistical
def test_a_quadratic_density_is_drawn_exactly_from_anywhere():
    """A correct draw fails with a new key once in 10^6."""
    draws = normal_draw(
        RandomNumbers(jax.random.key(1)),
        lambda t: -2 * (t - 3) ** 2,
        jnp.linspace(-9, 9, MEMBERS),
    )
    assert kstest(2 * (np.asarray(draws) - 3), "norm").pvalue > 1e-6


def test_what_is_no_number_or_has_no_density_is_refused():
    x = jnp.zeros((3, 1))

    def evaluate(y):
        value = jnp.where(y[:, 0] == 0, 0.0, jnp.array([jnp.nan, -jnp.inf, 0.0]))
        return Conditional(value, jnp.zeros_like(y), jnp.ones((3, 1, 1))), None

    step = newton_move(Chance(jnp.ones((3, 1)), jnp.full(3, -1e-9)), x, evaluate)
    np.testing.assert_array_equal(step.accepted, [False, False, True])
    np.testing.assert_array_equal(step.position[:, 0] == 0, [True, True, False])


@each_prior
def test_what_is_drawn_as_a_normal_is_one(priors):
    sites, way = some_sites(priors), OneAbility(TwoPL(priors))
    level = next(line for line in way.model.lines if line.name == "level")
    assert level.normal

    def along_shift(t):
        return way.terms(way.along(level, sites, t)[0]).total()

    def along_mean(t):
        return way.terms(sites | {"mu_d": sites["mu_d"] + t}).total()

    def along_both(t):
        there = sites | {"mu_d": sites["mu_d"] - 0.7 * t}
        if "mu_b" in sites:
            there["mu_b"] = sites["mu_b"] + 0.4 * t
        return way.terms(way.along(level, there, t)[0]).total()

    of_means = [] if priors.kind == "fixed" else [along_mean, along_both]
    for line in [along_shift, *of_means]:
        second = jax.jit(jax.grad(jax.grad(line)))
        curvature = [float(second(t)) for t in (-2.0, 0.0, 3.0)]
        np.testing.assert_allclose(curvature, curvature[0], rtol=1e-10)
        assert curvature[0] < 0


POINT = (np.linspace(-1, 1, 37), np.exp(np.linspace(-1, 0.5, 23)), np.linspace(2, -2, 23))


@pytest.mark.parametrize(
    ("sparse", "dtype", "block_cells", "tolerance"),
    [
        pytest.param(False, jnp.float64, 1, 1e-12, id="blocks of 16 rows, the last filled up"),
        pytest.param(False, jnp.float32, 1, 2e-5, id="32 bits"),
        pytest.param(True, jnp.float64, 1, 1e-12, id="sparse"),
    ],
)
def test_passes_say_what_plain_evaluation_says(sparse, dtype, block_cells, tolerance):
    responses = masked_counts(37, 23)
    layout = layout_of(as_sparse(responses) if sparse else responses)
    passes = one_ability(layout, 23, dtype=dtype, block_cells=block_cells)
    theta, a, d = map(jnp.asarray, POINT)
    close = partial(np.testing.assert_allclose, rtol=tolerance, atol=10 * tolerance)

    plainly = jax.jit(lambda theta: cell_sums(layout_of(responses), LOGIT, theta, a, d))

    def check(sums, theta):
        plain = plainly(theta)
        close(sums.log_likelihood, -plain.item_loss)
        close(sums.score, jnp.stack([plain.a_score, plain.d_score], -1))
        close(sums.information[:, 0], jnp.stack([plain.aa, plain.ad], -1))
        close(sums.information[:, 1], jnp.stack([plain.ad, plain.dd], -1))

    items = jnp.stack([a, d], -1)
    check(jax.jit(passes.item_sums)(theta[:, None], items), theta)
    chance = chance_for(RandomNumbers(jax.random.key(1)), theta[:, None])
    standard = Normals(jnp.zeros((len(theta), 1)), jnp.ones((len(theta), 1, 1)))
    step = jax.jit(partial(move_subjects, passes))(chance, theta[:, None], items, standard)
    assert 0.5 < float(step.accepted.mean()) < 1
    check(step.sums, step.theta[:, 0])

    trials = jnp.asarray(responses.cells.matrices()[1])

    def evaluate(position):
        plain = plainly(position[:, 0])
        value = -plain.subject_loss - position[:, 0] ** 2 / 2
        score = plain.theta_score - position[:, 0]
        p = jax.nn.sigmoid(position * a + d)
        away = (score / (plain.theta_information + 1))[:, None] * a / 2
        growth = (1 + jnp.maximum((1 - 2 * p) * away, -2) / 4) ** 4
        precision = 1 + (trials * jnp.minimum(growth * p * (1 - p), 1 / 4)) @ a**2
        return Conditional(value, score[:, None], precision[:, None, None]), None

    expected = jax.jit(lambda x: newton_move(chance, x, evaluate))(theta[:, None])
    np.testing.assert_array_equal(step.accepted, expected.accepted)
    close(step.theta, expected.position)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_slope_of_information_is_its_derivative(link):
    responses, (theta, a, d) = masked_counts(37, 23), map(jnp.asarray, POINT)
    family = FAMILIES[link]
    passes = one_ability(layout_of(responses), 23, family, dtype=jnp.float64, block_cells=200)
    items = jnp.stack([a, d], -1)

    @jax.jit
    def both(items):
        def information(items):
            return passes.item_sums(theta[:, None], items).information.sum(0)

        return passes.item_sums(theta[:, None], items), jax.jacfwd(information)(items)

    sums, slopes = both(items)
    np.testing.assert_allclose(
        sums.information_slope, jnp.moveaxis(slopes, 2, 0), rtol=1e-9, atol=1e-9
    )


def test_a_precision_goes_towards_another_as_far_as_it_stays_one():
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(2, 50, 2, 2))
    here, other = roots @ roots.swapaxes(-1, -2) + 0.1 * np.eye(2)
    other[:25] -= 3 * here[:25]
    found = np.asarray(towards(jnp.asarray(here), jnp.asarray(other)))
    assert np.linalg.eigvalsh(other).min() < 0 < np.linalg.eigvalsh(found).min()
    near = here + 0.01 * (other - here)
    np.testing.assert_allclose(towards(jnp.asarray(here), jnp.asarray(near)), near)


def test_subjects_far_out_in_a_tail_find_back():
    """Far below steep items wrong answers tell little, so Newton's step overshoots the mode."""
    a, d = jnp.full(40, 4.0), jnp.linspace(3, 5, 40)
    right = np.zeros((200, 40), int)
    right[:, -2:] = 1
    passes = one_ability(layout_of(Responses.from_arrays(right)), 40)
    standard = Normals(jnp.zeros((200, 1)), jnp.ones((200, 1, 1)))
    items, start = jnp.stack([a, d], -1), jnp.full((200, 1), -3.0)

    def step(theta, key):
        moved = move_subjects(passes, chance_for(RandomNumbers(key), theta), theta, items, standard)
        return moved.theta, moved.theta[:, 0]

    keys = jax.random.split(jax.random.key(0), 100)
    drawn = jax.jit(lambda start: jax.lax.scan(step, start, keys)[1])(start)[50:]
    nodes = jnp.linspace(-8, 3, 2000)
    eta = nodes[:, None] * a + d
    density = (right[0] * eta - jax.nn.softplus(eta)).sum(1) - nodes**2 / 2
    distribution = np.interp(drawn.ravel(), nodes, jnp.cumsum(jax.nn.softmax(density)))
    assert kstest(distribution, "uniform").statistic < 0.02


@pytest.mark.slow
def test_everything_works_in_32_bits():
    with in_32_bits():
        layout = layout_of(COUNTS)
        way = OneAbility(TwoPL())
        moves = moves_of(way, layout)
        around = way.start(fit_cbmm(COUNTS), layout)
        starts = {k: x[0] for k, x in start_chains(jax.random.key(0), *around, 1).items()}
        position, statistics = jax.jit(BlockedNewton(moves).sweep)(jax.random.key(1), starts)
        for value in (*position.values(), *statistics.values()):
            assert value.dtype == jnp.float32
            assert bool(jnp.isfinite(value).all())
        assert float(jnp.abs(position["theta"] - starts["theta"]).max()) > 0


def chains(method: str) -> MCMC:
    way, layout = OneAbility(TwoPL(Priors(kind="fixed"))), layout_of(COUNTS)
    moves = moves_of(way, layout)
    starts = start_chains(jax.random.key(0), *way.start(fit_cbmm(COUNTS), layout), 2)
    mcmc = MCMC(
        BlockedNewton(moves),
        num_warmup=3,
        num_samples=12,
        thinning=3,
        num_chains=2,
        chain_method=method,
        progress_bar=False,
    )
    mcmc.run(jax.random.key(5), init_params=starts, extra_fields=("statistics",))
    return mcmc


@pytest.mark.slow
def test_numpyro_runs_the_kernel_with_every_kind_of_chains():
    found = {}
    for method in ("vectorized", "sequential", "parallel"):
        mcmc = chains(method)
        found[method] = jax.device_get(mcmc.get_samples(group_by_chain=True))
        if method == "sequential":
            said = mcmc.sampler.get_diagnostics_str(mcmc.last_state)
            assert said.startswith("accepted: items ")
            assert "theta" in said
        statistics = mcmc.get_extra_fields(group_by_chain=True)["statistics"]
        assert found[method]["theta"].shape == (2, 4, N)
        assert statistics["acceptance_theta"].shape == (2, 4)
        assert np.ptp(found[method]["theta"], axis=1).min() > 0
    for method in ("sequential", "parallel"):
        for name, values in found["vectorized"].items():
            np.testing.assert_allclose(found[method][name], values, rtol=1e-6, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("priors", [PRIORS[1], PRIORS[3]], ids=Priors.describe)
def test_posterior_holds_what_the_model_names(priors):
    told: list[str] = []
    sample = partial(
        sample_blocked,
        COUNTS,
        model=TwoPL(priors),
        options=RunOptions(
            num_warmup=5, num_samples=40, thinning=2, num_chains=2, announce=told.append
        ),
    )
    posterior = sample(key=jax.random.key(1))
    assert told[0].startswith("about ")
    assert posterior["theta"].shape == (2, 40, N)
    a, b, d = (posterior[k] for k in "abd")
    np.testing.assert_allclose(b, -d / a, rtol=1e-9)
    assert {"acceptance_theta", "acceptance_items", "lp"} <= set(posterior.tree["sample_stats"])
    assert posterior.tree.attrs["engine"] == "blocked"
    assert (a.sum(-1) > 0).all()
    assert (a < 0).any() == (priors.slopes == "free")
    np.testing.assert_array_equal(sample(key=jax.random.key(1))["theta"], posterior["theta"])
    assert not np.array_equal(sample(key=jax.random.key(2))["theta"], posterior["theta"])


@pytest.mark.parametrize(
    ("model", "n_subjects", "missing", "interweaves"),
    [
        (TwoPL(), 399, 0, True),
        (TwoPL(), 400, 0, False),
        (TwoPL(), 400, 5, True),
        (TwoPL(Priors(kind="fixed")), 5, 0, False),
        (ThreePL(), 400, 0, True),
    ],
)
def test_hyperparameters_move_with_items_that_have_few_answers(
    model, n_subjects, missing, interweaves
):
    trials = np.ones((n_subjects, J), np.int8)
    trials[:missing, 0] = 0
    responses = Responses.from_arrays(np.zeros_like(trials), trials)
    assert way_of(model, responses).interweaves == interweaves
