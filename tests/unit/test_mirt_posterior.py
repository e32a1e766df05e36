"""MIRT's blocked moves agree with the NumPyro model; its posterior has the axes of the fit."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from mirt_data import simulated, some_layout
from numpyro.distributions import Wishart, WishartCholesky
from small_data import in_32_bits

from bayesirt import (
    KnownItems,
    PointEstimate,
    Posterior,
    ResponseError,
    RunOptions,
    fit_mirt,
    sample_mirt,
)
from bayesirt.estimators.subject_scores import score_subjects
from bayesirt.inference import memory, mirt_moves
from bayesirt.inference.block_steps import shortened
from bayesirt.inference.blocked import BlockedNewton
from bayesirt.inference.mirt_moves import (
    TO_PRECISION,
    Exploratory,
    aligned_draws,
    axes_changed,
)
from bayesirt.inference.moves import item_conditional, moves_of
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.families import LOGIT
from bayesirt.likelihood.loadings import Loadings
from bayesirt.likelihood.passes import Passes
from bayesirt.models import Mirt

N_SUBJECTS, N_ITEMS, K = 6, 5, 3
WAY = Exploratory(Mirt(K))
DATA = simulated(40, 12, 2, seed=3)
SHORT, KEY = RunOptions(num_warmup=40, num_samples=60, num_chains=2), jax.random.key(1)


def some_sites() -> dict[str, jax.Array]:
    rng = np.random.default_rng(3)
    shapes = {
        "theta": (N_SUBJECTS, K), "a": (N_ITEMS, K), "d": (N_ITEMS,), "mu_a": (K,),
        "precision_a": (K * (K + 1) // 2,), "mu_d": (), "mu_b": (K,), "sigma_d": (),
    }  # fmt: skip
    return {name: jnp.asarray(0.5 * rng.normal(size=shape)) for name, shape in shapes.items()}


SITES = some_sites()


def passes_over(layout: DenseLayout) -> Passes:
    return Passes(layout, LOGIT, Loadings(N_ITEMS, K), jnp.float64)


@jax.jit
def total(sites: dict[str, jax.Array]) -> jax.Array:
    return WAY.terms(sites).total()


def both_derivatives(function, at: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the gradient and the Hessian, compiled together."""
    return jax.jit(lambda x: (jax.grad(function)(x), jax.hessian(function)(x)))(at)


def test_items_know_their_density_and_its_derivatives():
    layout = some_layout(N_SUBJECTS, N_ITEMS)
    passes, rows, share = passes_over(layout), WAY.packed(SITES), 0.4

    @jax.jit
    def conditional(rows):
        sums = passes.item_sums(SITES["theta"], rows)
        shares = jnp.full(N_ITEMS, share)
        return shortened(item_conditional(WAY, SITES, rows, sums), shares)

    @jax.jit
    def density(rows):
        sites = SITES | WAY.unpacked(SITES, rows)
        eta = sites["theta"] @ sites["a"].T + sites["d"]
        right = layout.successes * eta - layout.trials * jnp.logaddexp(0, eta)
        own = WAY.terms(sites).each
        return right.sum(0) + own["a"] + own["d"]

    there = rows + 0.3
    found = conditional(there)
    change = found.value - conditional(rows).value
    np.testing.assert_allclose(change, density(there) - density(rows), rtol=1e-10)
    slope, hessian = both_derivatives(lambda x: density(x).sum(), there)
    precision = -np.einsum("jajb->jab", hessian)
    np.testing.assert_allclose(found.precision * share * (2 - share), precision, atol=1e-10)
    # the proposal's mean is a fraction of Newton's step away
    step = np.linalg.solve(precision, slope[:, :, None])
    proposed = np.linalg.solve(found.precision, found.score[:, :, None])
    np.testing.assert_allclose(proposed, share * step, rtol=1e-9)


def noted_normal(monkeypatch: pytest.MonkeyPatch) -> dict[str, jax.Array]:
    """Record the score and precision of a normal draw, and return a draw of zero."""
    seen: dict[str, jax.Array] = {}

    def note(_key, score, precision):
        seen.update(score=score, precision=precision)
        return jnp.zeros_like(score)

    monkeypatch.setattr(mirt_moves, "joint_normal_draw", note)
    return seen


@pytest.mark.slow
def test_slopes_population_is_drawn_from_its_conditionals(monkeypatch):
    seen, drawn_from = noted_normal(monkeypatch), []
    monkeypatch.setattr(
        mirt_moves, "Wishart", lambda *a, **k: drawn_from.append(Wishart(*a, **k)) or drawn_from[0]
    )
    mirt_moves.draw_slope_population(RandomNumbers(jax.random.key(0)), SITES)

    def of_mean(mu):
        return total(SITES | {"mu_a": mu})

    slope, hessian = both_derivatives(of_mean, SITES["mu_a"])
    np.testing.assert_allclose(seen["score"], slope, atol=1e-10)
    np.testing.assert_allclose(seen["precision"], -hessian, atol=1e-10)

    def beside_wishart(site):
        """Return the model's log density at a site of Λ minus the Wishart's at the same site."""
        precision = TO_PRECISION(site)
        of_site = TO_PRECISION.log_abs_det_jacobian(site, precision)
        return total(SITES | {"precision_a": site}) - drawn_from[0].log_prob(precision) - of_site

    here, there = SITES["precision_a"], SITES["precision_a"] + jnp.linspace(-0.4, 0.5, 6)
    assert float(beside_wishart(there)) == pytest.approx(float(beside_wishart(here)), rel=1e-10)


def test_changed_axes_keep_every_predictor():
    matrix = jnp.asarray(np.random.default_rng(5).normal(size=(K, K)))
    moved = axes_changed(SITES, matrix)
    eta, new = (s["theta"] @ s["a"].T + s["d"] for s in (SITES, moved))
    np.testing.assert_allclose(new, eta, rtol=1e-9)
    assert abs(moved["theta"] - SITES["theta"]).min() > 1e-3


@pytest.mark.slow
def test_axes_are_drawn_from_their_density(monkeypatch):
    """Jacobians by jacfwd, in the invariant measure of lower triangular M: Π m_kk^(-k)."""
    factors = jnp.asarray(np.tril(np.random.default_rng(6).uniform(0.5, 2, (2, K, K))))
    drawn, ratios, from_what = [], [], []

    class Noted(WishartCholesky):
        def sample(self, _key):
            from_what.append(self)
            return factors[len(drawn)]

    def accept(_key, ratio):
        ratios.append(ratio)
        return -jnp.inf

    monkeypatch.setattr(mirt_moves, "WishartCholesky", Noted)
    monkeypatch.setattr(mirt_moves, "log_uniform", accept)
    for _ in factors:
        drawn.append(mirt_moves.draw_axes(WAY, RandomNumbers(jax.random.key(0)), SITES)[0])
    flat, unravel = ravel_pytree(SITES)

    @jax.jit
    def derivatives(matrix):
        return jax.jacfwd(lambda x: ravel_pytree(axes_changed(unravel(x), matrix))[0])(flat)

    def density(moved):
        matrix = jnp.asarray(np.linalg.lstsq(SITES["theta"], moved["theta"])[0].T)
        assert np.abs(np.triu(matrix, 1)).max() < 1e-10
        jacobian = derivatives(matrix)
        invariant = -np.arange(1, K + 1) @ jnp.log(jnp.diag(matrix))
        return total(moved) + jnp.linalg.slogdet(jacobian)[1] + invariant

    proposed = [from_what[0].log_prob(factor) for factor in factors]
    expected = density(drawn[1]) - density(drawn[0]) - proposed[1] + proposed[0]
    assert float(ratios[1] - ratios[0]) == pytest.approx(float(expected), rel=1e-9)
    lengths = [float((s["mu_a"] ** 2).sum()) for s in (SITES, *drawn)]
    np.testing.assert_allclose(ratios, [(lengths[0] - x) / 2 for x in lengths[1:]], rtol=1e-9)


@pytest.mark.slow
def test_a_sweep_works_in_32_bits():
    with in_32_bits():
        sites = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), SITES)
        moves = moves_of(WAY, some_layout(N_SUBJECTS, N_ITEMS))
        position, statistics = jax.jit(BlockedNewton(moves).sweep)(jax.random.key(1), sites)
    for value in (*position.values(), *statistics.values()):
        assert value.dtype == jnp.float32
        assert np.isfinite(value).all()
    assert float(jnp.abs(position["mu_a"] - sites["mu_a"]).max()) > 0


def some_draws(n_abilities: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = {"theta": (7, n_abilities), "a": (9, n_abilities), "d": (9,)}
    shapes |= {"mu_a": (n_abilities,), "mu_b": (n_abilities,)}
    draws = {name: rng.normal(size=(2, 4, *shape)) for name, shape in shapes.items()}
    roots = rng.normal(size=(2, 4, n_abilities, n_abilities))
    return draws | {"precision_a": roots @ roots.swapaxes(-1, -2)}


@pytest.mark.parametrize("n_abilities", [1, 3])
def test_axes_of_draws_do_not_matter_after_alignment(n_abilities):
    rng, draws = np.random.default_rng(8), some_draws(n_abilities)
    target = rng.normal(size=(9, n_abilities))
    turns = np.linalg.qr(rng.normal(size=(2, 4, n_abilities, n_abilities)))[0]
    turns[0, :, :, 0] *= -1
    assert len(set(np.sign(np.linalg.det(turns)).ravel())) == 2
    turned = {
        "theta": draws["theta"] @ turns,
        "a": draws["a"] @ turns,
        **{x: np.einsum("cdk,cdkl->cdl", draws[x], turns) for x in ("mu_a", "mu_b")},
        "precision_a": turns.swapaxes(-1, -2) @ draws["precision_a"] @ turns,
        "d": draws["d"],
    }
    one, other = (aligned_draws(x, target) for x in (draws, turned))
    for name, values in one.items():
        np.testing.assert_allclose(other[name], values, atol=1e-12)
    for before, after in ((draws, one), (turned, one)):
        eta, new = (x["theta"] @ x["a"].swapaxes(-1, -2) for x in (before, after))
        np.testing.assert_allclose(new, eta, atol=1e-12)
        lengths, new = (np.linalg.norm(x["a"], axis=-1) for x in (before, after))
        np.testing.assert_allclose(new, lengths, rtol=1e-10)
        squares, new = (
            np.einsum("cdk,cdkl,cdl->cd", x["mu_a"], x["precision_a"], x["mu_a"])
            for x in (before, after)
        )
        np.testing.assert_allclose(new, squares, rtol=1e-9)
    away = ((one["a"] - target) ** 2).sum((-1, -2))
    for k in range(20):
        turn = np.linalg.qr(np.random.default_rng(k).normal(size=(n_abilities, n_abilities)))[0]
        assert (away <= ((one["a"] @ turn - target) ** 2).sum((-1, -2)) + 1e-9).all()


def test_alignment_follows_the_order_of_subjects_and_items():
    draws, order = some_draws(2), np.random.default_rng(9).permutation(9)
    target = np.random.default_rng(10).normal(size=(9, 2))
    mixed = draws | {"a": draws["a"][:, :, order], "theta": draws["theta"][:, :, ::-1]}
    one, other = aligned_draws(draws, target), aligned_draws(mixed, target[order])
    np.testing.assert_allclose(other["a"], one["a"][:, :, order], atol=1e-12)
    np.testing.assert_allclose(other["theta"], one["theta"][:, :, ::-1], atol=1e-12)
    np.testing.assert_allclose(other["precision_a"], one["precision_a"], atol=1e-12)
    narrow = aligned_draws({name: x.astype(np.float32) for name, x in draws.items()}, target)
    assert {values.dtype for values in narrow.values()} == {np.dtype(np.float32)}


@pytest.fixture(scope="module")
def point() -> PointEstimate:
    return fit_mirt(DATA.responses, n_abilities=2)


@pytest.fixture(scope="module")
def posterior(point) -> Posterior:
    return sample_mirt(DATA.responses, n_abilities=2, init=point, key=KEY, options=SHORT)


@pytest.mark.slow
def test_posterior_names_what_it_holds(posterior, tmp_path):
    assert posterior["theta"].shape == (2, 60, 40, 2)
    dims = {str(name): x.dims[2:] for name, x in posterior.dataset.data_vars.items()}
    assert dims["a"] == ("item", "ability")
    assert dims["precision_a"] == ("ability", "ability_other")
    assert ("a", "item 3, ability 2") in posterior.summary.index
    attrs = posterior.tree.attrs
    assert (attrs["model"], attrs["engine"], attrs["n_abilities"]) == ("MIRT 2PL", "blocked", 2)
    assert "Procrustes" in attrs["identification"]
    assert "R-hat" in posterior.verdict.to_text()
    posterior.save(tmp_path / "posterior.nc")
    again = Posterior.load(tmp_path / "posterior.nc")
    np.testing.assert_array_equal(again["a"], posterior["a"])
    assert again.tree.attrs["identification"] == attrs["identification"]


@pytest.mark.slow
def test_draws_have_the_axes_of_the_fit(posterior, point):
    """Aᵀ target of each draw is symmetric and positive definite."""
    products = np.swapaxes(posterior["a"], -1, -2) @ point["a"]
    np.testing.assert_allclose(products, np.swapaxes(products, -1, -2), atol=1e-9)
    assert np.linalg.eigvalsh(products).min() > 0


@pytest.mark.slow
def test_same_key_same_draws_and_a_finished_checkpoint_is_removed(posterior, tmp_path):
    folder = tmp_path / "chains"
    kept = replace(SHORT, checkpoint=folder)
    again = sample_mirt(DATA.responses, n_abilities=2, key=KEY, options=kept)
    np.testing.assert_array_equal(again["theta"], posterior["theta"])
    assert not folder.exists()


def test_chains_start_where_the_fit_is(point):
    way = Exploratory(Mirt(2))
    centre, width = way.start(point, None)
    assert centre.keys() == width.keys()
    values = jax.jit(way.terms)(jax.tree.map(jnp.asarray, centre)).values
    for name in ("theta", "a", "d", "mu_a", "precision_a"):
        np.testing.assert_allclose(values[name], point[name], rtol=1e-9, err_msg=name)
    for name, widths in width.items():
        assert np.shape(widths) == np.shape(centre[name])
        assert (np.asarray(widths) > 0).all()


def test_known_items_of_draws_have_their_moments():
    rng = np.random.default_rng(11)
    a, d = rng.normal(size=(50, 4, 2)), rng.normal(size=(50, 4))
    known = KnownItems.from_draws(["w", "x", "y", "z"], a, d)
    expected = np.cov(np.column_stack([a[:, 3], d[:, 3]]), rowvar=False)
    np.testing.assert_allclose(known.covariance[3], expected, rtol=1e-9)
    np.testing.assert_allclose(known.a, a.mean(0), rtol=1e-12)
    np.testing.assert_allclose(known.d, d.mean(0), rtol=1e-12)
    assert known.names == ("w", "x", "y", "z")


@pytest.mark.slow
def test_subjects_scored_by_items_of_a_posterior_are_where_it_has_them(posterior):
    known = KnownItems.from_draws(posterior.items, posterior.draws("a"), posterior.draws("d"))
    off = score_subjects(DATA.responses, known).theta - posterior.theta.mean(0)
    assert np.abs(off / posterior.theta.std(0)).mean() < 0.3


def test_known_items_need_draws_that_fit():
    with pytest.raises(ResponseError, match=r"\(4, 3\) and \(4, 3\)"):
        KnownItems.from_draws(["x"] * 3, np.ones((4, 3)), np.ones((4, 3)))
    with pytest.raises(ResponseError, match="at least two samples"):
        KnownItems.from_draws(["x"], np.ones((1, 1, 2)), np.ones((1, 1)))


def test_what_cannot_be_sampled_is_refused(point, monkeypatch):
    key = jax.random.key(0)
    for n_abilities in (0, 12):
        with pytest.raises(ResponseError, match="cannot be estimated from 12 items"):
            sample_mirt(DATA.responses, n_abilities=n_abilities, key=key)
    with pytest.raises(ResponseError, match=r"`init` has slopes of shape \(12, 2\)"):
        sample_mirt(DATA.responses, n_abilities=3, key=key, init=point)
    fewer = DATA.responses.select(np.arange(30), np.arange(12))
    with pytest.raises(ResponseError, match="of other subjects"):
        sample_mirt(fewer, n_abilities=2, key=key, init=point)
    bare = replace(point, parameters=point.parameters.drop_vars("precision_a"))
    with pytest.raises(ResponseError, match="`init` from mirt has no population of slopes"):
        sample_mirt(DATA.responses, n_abilities=2, key=key, init=bare)
    monkeypatch.setattr(memory, "bytes_there", lambda: 1000)
    with pytest.raises(ResponseError, match=r"blocked needs about .* no engine would fit"):
        sample_mirt(DATA.responses, n_abilities=2, key=key)
