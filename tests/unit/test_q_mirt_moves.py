"""The blocked moves of the Q-matrix model: each says what the NumPyro model says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import LKJCholesky
from numpyro.infer.util import log_density
from scipy.special import comb

from bayesirt.families import LOGIT
from bayesirt.inference import q_mirt_moves
from bayesirt.inference.q_mirt_passes import QMirtPasses
from bayesirt.inference.q_mirt_sites import Pattern, QMirtPrior, levels_shifted, scales_stretched
from bayesirt.inference.q_mirt_turns import (
    Turning,
    nested_pairs,
    turn_abilities,
    turned,
    turned_sites,
)
from bayesirt.likelihood import DenseLayout
from bayesirt.models.q_mirt import default_structure, q_mirt_model

NEEDS = np.array(
    [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 1], [1, 0, 1]], bool
)
PATTERN = Pattern.of(NEEDS)
N_SUBJECTS = 6
STRUCTURES = ("correlated", "general", "independent")

each_structure = pytest.mark.parametrize("structure", STRUCTURES)


def some_sites(structure: str) -> dict[str, jax.Array]:
    rng = np.random.default_rng(3)
    n_items, n_abilities = NEEDS.shape
    shapes = {
        "theta": (N_SUBJECTS, n_abilities), "a": (NEEDS.sum(),), "d": (n_items,),
        "beta": (n_abilities,), **dict.fromkeys(("mu_a", "sigma_a", "mu_d", "sigma_d"), ()),
        "sigma_beta": (),
    }  # fmt: skip
    if structure != "independent":
        shapes |= {"root" if structure == "correlated" else "gamma": (3,)}
    return {name: jnp.asarray(0.5 * rng.normal(size=shape)) for name, shape in shapes.items()}


def some_layout() -> DenseLayout:
    rng = np.random.default_rng(4)
    trials = rng.integers(0, 3, (N_SUBJECTS, len(NEEDS)))
    successes = rng.binomial(trials, 0.6)
    return DenseLayout(jnp.asarray(successes, jnp.int8), jnp.asarray(trials, jnp.int8))


@pytest.mark.slow
@each_structure
def test_prior_and_passes_together_are_the_models_density(structure):
    prior, sites, layout = QMirtPrior(PATTERN, structure), some_sites(structure), some_layout()
    terms = prior.terms(sites)
    sampled = {k: v for k, v in terms.values.items() if k != "correlation"}
    counts = (layout.trials.astype(int), NEEDS, layout.successes.astype(int))
    expected, _ = log_density(q_mirt_model, counts, {"structure": structure}, sampled)
    passes = QMirtPasses(layout, PATTERN, LOGIT, jnp.float64)
    found = passes.item_sums(sites["theta"], prior.coefficients(sites, prior.packed(sites)))
    of_transforms = sum(sites[f"sigma_{x}"] for x in ("a", "d", "beta")) + sites["a"].sum()
    if structure == "general":
        gamma = terms.values["gamma"]
        of_transforms += jnp.log(gamma * (1 - gamma)).sum()
    elif structure == "correlated":
        density = LKJCholesky(3, 1).log_prob(terms.values["root"])
        of_transforms += terms.each["root"].sum() - density
    orders = np.log(comb(*counts[::2])).sum()
    total = terms.total() + found.log_likelihood.sum()
    assert float(total) == pytest.approx(float(expected + of_transforms - orders), rel=1e-10)


@pytest.mark.slow
def test_sums_of_items_are_the_derivatives_by_their_coefficients():
    sites, layout = some_sites("independent"), some_layout()
    prior = QMirtPrior(PATTERN, "independent")
    passes = QMirtPasses(layout, PATTERN, LOGIT, jnp.float64)
    coefficients = prior.coefficients(sites, prior.packed(sites))

    def log_likelihood(coefficients):
        return passes.item_sums(sites["theta"], coefficients).log_likelihood.sum()

    found = passes.item_sums(sites["theta"], coefficients)
    used = np.column_stack([PATTERN.filled, np.ones(len(NEEDS), bool)])
    np.testing.assert_allclose(
        found.score, jax.grad(log_likelihood)(coefficients) * used, atol=1e-12
    )
    hessian = jax.hessian(log_likelihood)(coefficients)
    own = -np.einsum("jajb->jab", hessian)
    np.testing.assert_allclose(found.information, own, atol=1e-12)
    assert np.all(np.asarray(found.information)[~used] == 0)


def test_blocks_of_rows_say_what_one_block_says():
    sites, layout = some_sites("independent"), some_layout()
    prior = QMirtPrior(PATTERN, "independent")
    coefficients = prior.coefficients(sites, prior.packed(sites))
    whole, cut = (
        QMirtPasses(layout, PATTERN, LOGIT, jnp.float64, cells).item_sums(
            sites["theta"], coefficients
        )
        for cells in (10**6, 1)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), whole, cut)


@pytest.mark.slow
@each_structure
def test_levels_are_drawn_from_their_normal(structure, monkeypatch):
    prior, sites = QMirtPrior(PATTERN, structure), some_sites(structure)
    seen = {}

    def note(_key, score, precision):
        seen.update(score=score, precision=precision)
        return jnp.zeros_like(score)

    monkeypatch.setattr(q_mirt_moves, "joint_normal_draw", note)
    q_mirt_moves.draw_levels(prior, jax.random.key(0), sites)

    def density(t):
        return prior.terms(levels_shifted(PATTERN, sites, t)).total()

    zero = jnp.zeros(7)
    np.testing.assert_allclose(seen["score"], jax.grad(density)(zero), atol=1e-10)
    np.testing.assert_allclose(seen["precision"], -jax.hessian(density)(zero), atol=1e-10)


@pytest.mark.slow
def test_levels_and_scales_keep_every_predictor():
    prior, sites = QMirtPrior(PATTERN, "correlated"), some_sites("correlated")

    def predictor(sites):
        terms = prior.terms(sites)
        return terms.values["theta"] @ PATTERN.slopes(terms.values["a"]).T + terms.values["d"]

    t = jnp.asarray(np.random.default_rng(5).normal(size=7))
    shifted = levels_shifted(PATTERN, sites, t)
    stretched, log_jacobian = scales_stretched(PATTERN, sites, t[:4])
    for moved in (shifted, stretched):
        np.testing.assert_allclose(predictor(moved), predictor(sites), rtol=1e-10)
        assert not np.allclose(moved["theta"], sites["theta"])
    assert float(log_jacobian) == pytest.approx(N_SUBJECTS * float(t[:3].sum()))


@pytest.mark.parametrize(
    "structure",
    [pytest.param("correlated", marks=pytest.mark.slow), "general", "independent"],
)
def test_scales_know_their_density(structure, monkeypatch):
    prior, sites = QMirtPrior(PATTERN, structure), some_sites(structure)
    seen = {}

    def note(_chance, position, evaluate):
        seen["evaluate"] = evaluate
        raise StopIteration

    monkeypatch.setattr(q_mirt_moves, "newton_move", note)
    with pytest.raises(StopIteration):
        q_mirt_moves.move_scales(prior, jax.random.key(0), sites)

    def density(t):
        moved, log_jacobian = scales_stretched(PATTERN, sites, t)
        return prior.terms(moved).total() + log_jacobian

    zero, t = jnp.zeros(4), jnp.asarray([0.2, -0.3, 0.1, 0.4])
    here, there = (seen["evaluate"](x[None])[0] for x in (zero, t))
    change = float(there.value[0] - here.value[0])
    assert change == pytest.approx(float(density(t) - density(zero)), rel=1e-9)
    np.testing.assert_allclose(there.score[0], jax.grad(density)(t), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["correlated", "general"])
def test_correlations_that_carry_abilities_know_their_density(structure, monkeypatch):
    """With the abilities' independent parts held: prior of the correlations, and all answers."""
    prior, sites, layout = QMirtPrior(PATTERN, structure), some_sites(structure), some_layout()
    passes = QMirtPasses(layout, PATTERN, LOGIT, jnp.float64)
    name = "root" if structure == "correlated" else "gamma"
    seen = {}

    def note(_chance, position, evaluate, *, gain):
        seen.update(evaluate=evaluate, gain=gain, here=position)
        raise StopIteration

    monkeypatch.setattr(q_mirt_moves, "newton_move", note)
    with pytest.raises(StopIteration):
        q_mirt_moves.move_with_abilities(prior, passes, jax.random.key(0), sites)
    held = jnp.linalg.solve(jnp.linalg.cholesky(prior.correlation(sites)), sites["theta"].T)

    def density(value):
        there = sites | {name: value}
        theta = (jnp.linalg.cholesky(prior.correlation(there)) @ held).T
        eta = theta @ PATTERN.slopes(jnp.exp(sites["a"])).T + sites["d"]
        right = layout.successes * eta - layout.trials * jnp.logaddexp(0, eta)
        return prior.terms(there).each[name].sum() + right.sum()

    there = sites[name] + jnp.asarray([0.2, -0.1, 0.3])
    (one, noted), (other, noted_there) = map(seen["evaluate"], (seen["here"], there[None]))
    change = other.value - one.value + seen["gain"](noted, noted_there)
    assert float(change[0]) == pytest.approx(float(density(there) - density(sites[name])))
    np.testing.assert_allclose(other.score[0], jax.grad(density)(there), atol=1e-9)
    assert (np.linalg.eigvalsh(other.precision[0]) > 0).all()


NESTED = Pattern.of(np.array([[1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1], [0, 0, 1]], bool))


def nested_sites() -> dict[str, jax.Array]:
    rng = np.random.default_rng(6)
    sizes = {"theta": (4, 3), "a": 9, "d": 5, "beta": 3, "root": 3, "mu_a": (), "sigma_a": ()}
    sizes |= dict.fromkeys(("mu_d", "sigma_d", "sigma_beta"), ())
    return {name: jnp.asarray(0.3 * rng.normal(size=size)) for name, size in sizes.items()}


def all_turned(prior: QMirtPrior, sites: dict[str, jax.Array], angle: float):
    """Sites after one turn of ability 0 away from ability 1, and the log ratio."""
    start = Turning(prior.correlation(sites), NESTED.slopes(jnp.exp(sites["a"])), jnp.eye(3))
    end, ratio = turned(NESTED, sites, start, jnp.array([0, 1]), jnp.asarray(angle))
    return turned_sites(NESTED, sites, end), ratio


@pytest.mark.slow
@pytest.mark.parametrize("angle", [0.2, -0.3])
def test_turns_keep_predictors_and_know_their_ratio(angle):
    prior, sites = QMirtPrior(NESTED, "correlated"), nested_sites()
    moved, ratio = all_turned(prior, sites, angle)
    flat, unravel = jax.flatten_util.ravel_pytree(sites)

    def flat_move(x):
        return jax.flatten_util.ravel_pytree(all_turned(prior, unravel(x), angle)[0])[0]

    jacobian = jnp.linalg.slogdet(jax.jacfwd(flat_move)(flat))[1]
    expected = prior.terms(moved).total() - prior.terms(sites).total() + jacobian
    assert float(ratio) == pytest.approx(float(expected), abs=1e-10)
    eta, new_eta = (s["theta"] @ NESTED.slopes(jnp.exp(s["a"])).T for s in (sites, moved))
    np.testing.assert_allclose(new_eta, eta, atol=1e-12)
    assert abs(moved["theta"] - sites["theta"]).max() > 0.01
    back, _ = all_turned(prior, moved, -angle)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), back, sites)


def test_turns_that_would_make_a_slope_negative_are_refused():
    prior, sites = QMirtPrior(NESTED, "correlated"), nested_sites()
    steep = sites | {"a": sites["a"].at[0].set(3.0)}
    assert float(all_turned(prior, steep, -1.0)[1]) == -jnp.inf
    kept, _ = turn_abilities(prior, jax.random.key(0), steep)
    assert all(np.isfinite(x).all() for x in kept.values())


def test_only_abilities_inside_another_are_turned():
    assert nested_pairs(NESTED).tolist() == [[0, 1]]
    assert nested_pairs(PATTERN).tolist() == []
    prior, sites = QMirtPrior(PATTERN, "correlated"), some_sites("correlated")
    assert turn_abilities(prior, jax.random.key(0), sites)[0] is sites


def test_a_general_ability_is_the_default_beyond_ten():
    assert [default_structure(k) for k in (1, 10, 11)] == ["correlated", "correlated", "general"]
