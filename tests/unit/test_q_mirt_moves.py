"""The blocked moves of the Q-matrix model agree with the NumPyro model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mirt_data import some_layout

from bayesirt.inference import q_mirt_moves
from bayesirt.inference.q_mirt_moves import ByQMatrix, scales_stretched
from bayesirt.inference.q_mirt_rotations import (
    Turning,
    nested_pairs,
    turn_abilities,
    turned,
    turned_sites,
)
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.likelihood.families import LOGIT
from bayesirt.likelihood.loadings import Loadings
from bayesirt.likelihood.passes import Passes
from bayesirt.models.q_mirt import QMirt, default_structure

NEEDS = np.array(
    [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 1], [1, 0, 1]], bool
)
PATTERN = Loadings.of(NEEDS)
N_SUBJECTS = 6
STRUCTURES = ("correlated", "general", "independent")

each_structure = pytest.mark.parametrize("structure", STRUCTURES)


def slopes_of(loadings: Loadings, sites: dict[str, jax.Array]) -> jax.Array:
    return loadings.slopes(loadings.in_slots(jnp.exp(sites["a"])))


def way_of(structure: str) -> ByQMatrix:
    return ByQMatrix(QMirt(PATTERN, structure))


def some_sites(structure: str) -> dict[str, jax.Array]:
    rng = np.random.default_rng(3)
    n_items, n_abilities = NEEDS.shape
    shapes = {
        "theta": (N_SUBJECTS, n_abilities), "a": (NEEDS.sum(),), "d": (n_items,),
        "beta": (n_abilities,), "mu_b": (n_abilities,),
        **dict.fromkeys(("mu_a", "sigma_a", "mu_d", "sigma_d"), ()),
        "sigma_beta": (),
    }  # fmt: skip
    if structure != "independent":
        shapes |= {"root" if structure == "correlated" else "general": (3,)}
    return {name: jnp.asarray(0.5 * rng.normal(size=shape)) for name, shape in shapes.items()}


@pytest.mark.slow
def test_sums_of_items_are_the_derivatives_by_their_coefficients():
    sites, layout = some_sites("independent"), some_layout(N_SUBJECTS, len(NEEDS))
    way = way_of("independent")
    passes = Passes(layout, LOGIT, PATTERN, jnp.float64)
    coefficients = way.coefficients(sites, way.packed(sites))

    def log_likelihood(coefficients):
        return passes.item_sums(sites["theta"], coefficients).log_likelihood.sum()

    found = jax.jit(lambda x: passes.item_sums(sites["theta"], x))(coefficients)
    used = np.column_stack([PATTERN.filled, np.ones(len(NEEDS), bool)])
    slope, hessian = jax.jit(
        lambda x: (jax.grad(log_likelihood)(x), jax.hessian(log_likelihood)(x))
    )(coefficients)
    np.testing.assert_allclose(found.score, slope * used, atol=1e-12)
    own = -np.einsum("jajb->jab", hessian)
    np.testing.assert_allclose(found.information, own, atol=1e-12)
    assert np.all(np.asarray(found.information)[~used] == 0)


def test_blocks_of_rows_say_what_one_block_says():
    sites, layout = some_sites("independent"), some_layout(N_SUBJECTS, len(NEEDS))
    way = way_of("independent")
    coefficients = way.coefficients(sites, way.packed(sites))
    whole, cut = (
        Passes(layout, LOGIT, PATTERN, jnp.float64, cells).item_sums(sites["theta"], coefficients)
        for cells in (10**6, 1)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), whole, cut)


@pytest.mark.slow
def test_scales_keep_every_predictor():
    way, sites = way_of("correlated"), some_sites("correlated")

    def predictor(sites):
        terms = way.terms(sites)
        return (
            terms.values["theta"] @ PATTERN.slopes(PATTERN.in_slots(terms.values["a"])).T
            + terms.values["d"]
        )

    t = jnp.asarray(np.random.default_rng(5).normal(size=4))
    stretched, log_jacobian = scales_stretched(PATTERN, sites, t)
    np.testing.assert_allclose(predictor(stretched), predictor(sites), rtol=1e-10)
    assert not np.allclose(stretched["theta"], sites["theta"])
    assert float(log_jacobian) == pytest.approx((N_SUBJECTS + 1) * float(t[:3].sum()))


@pytest.mark.parametrize(
    "structure",
    [pytest.param("correlated", marks=pytest.mark.slow), "general", "independent"],
)
def test_scales_know_their_density(structure, monkeypatch):
    way, seen = way_of(structure), {}

    def note(_chance, position, evaluate):
        seen["evaluate"] = evaluate
        raise StopIteration

    monkeypatch.setattr(q_mirt_moves, "newton_move", note)

    @jax.jit
    def found_and_expected(sites, zero, t):
        def density(t):
            moved, log_jacobian = scales_stretched(PATTERN, sites, t)
            return way.terms(moved).total() + log_jacobian

        with pytest.raises(StopIteration):
            q_mirt_moves.move_scales(way, RandomNumbers(jax.random.key(0)), sites)
        here, there = (seen["evaluate"](x[None])[0] for x in (zero, t))
        found = there.value[0] - here.value[0], there.score[0]
        return found, (density(t) - density(zero), jax.grad(density)(t))

    (change, score), (expected, slope) = found_and_expected(
        some_sites(structure), jnp.zeros(4), jnp.asarray([0.2, -0.3, 0.1, 0.4])
    )
    assert float(change) == pytest.approx(float(expected), rel=1e-9)
    np.testing.assert_allclose(score, slope, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["correlated", "general"])
def test_correlations_that_carry_abilities_know_their_density(structure, monkeypatch):
    """With the abilities' independent parts fixed: prior of the correlations, and all answers."""
    way, layout = way_of(structure), some_layout(N_SUBJECTS, len(NEEDS))
    name = "root" if structure == "correlated" else "general"
    seen = {}

    def note(_chance, position, evaluate, *, gain):
        seen.update(evaluate=evaluate, gain=gain, here=position)
        raise StopIteration

    monkeypatch.setattr(q_mirt_moves, "newton_move", note)

    @jax.jit
    def found_and_expected(sites):
        numbers = RandomNumbers(jax.random.key(0))
        with pytest.raises(StopIteration):
            q_mirt_moves.move_with_abilities(way, layout, jnp.float64, numbers, sites)
        held = jnp.linalg.solve(jnp.linalg.cholesky(way.correlation(sites)), sites["theta"].T)

        def density(value):
            there = sites | {name: value}
            theta = (jnp.linalg.cholesky(way.correlation(there)) @ held).T
            eta = theta @ slopes_of(PATTERN, sites).T + sites["d"]
            right = layout.successes * eta - layout.trials * jnp.logaddexp(0, eta)
            return way.terms(there).each[name].sum() + right.sum()

        there = sites[name] + jnp.asarray([0.2, -0.1, 0.3])
        (one, noted), (other, noted_there) = map(seen["evaluate"], (seen["here"], there[None]))
        change = (other.value - one.value + seen["gain"](noted, noted_there))[0]
        found = change, other.score[0], other.precision[0]
        return found, (density(there) - density(sites[name]), jax.grad(density)(there))

    (change, score, precision), (expected, slope) = found_and_expected(some_sites(structure))
    assert float(change) == pytest.approx(float(expected))
    np.testing.assert_allclose(score, slope, atol=1e-9)
    assert (np.linalg.eigvalsh(precision) > 0).all()


NESTED = Loadings.of(np.array([[1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1], [0, 0, 1]], bool))


NESTED_PRIOR = ByQMatrix(QMirt(NESTED, "correlated"))


def nested_sites() -> dict[str, jax.Array]:
    rng = np.random.default_rng(6)
    sizes = {"theta": (4, 3), "a": 9, "d": 5, "beta": 3, "mu_b": 3, "root": 3}
    sizes |= dict.fromkeys(("mu_a", "sigma_a", "mu_d", "sigma_d", "sigma_beta"), ())
    return {name: jnp.asarray(0.3 * rng.normal(size=size)) for name, size in sizes.items()}


@jax.jit
def all_turned(sites: dict[str, jax.Array], angle: float):
    """Return the sites after turning ability 0 away from ability 1, and the log ratio."""
    start = Turning(NESTED_PRIOR.correlation(sites), slopes_of(NESTED, sites), jnp.eye(3))
    end, ratio = turned(NESTED, sites, start, jnp.array([0, 1]), jnp.asarray(angle))
    return turned_sites(NESTED, sites, end), ratio


@jax.jit
def expected_ratio(sites: dict[str, jax.Array], angle: float) -> jax.Array:
    """Return the change in log density with a turn, plus the log Jacobian of all sites."""
    flat, unravel = jax.flatten_util.ravel_pytree(sites)

    def flat_move(x):
        return jax.flatten_util.ravel_pytree(all_turned(unravel(x), angle)[0])[0]

    total, new_total = (NESTED_PRIOR.terms(unravel(x)).total() for x in (flat, flat_move(flat)))
    return new_total - total + jnp.linalg.slogdet(jax.jacfwd(flat_move)(flat))[1]


@pytest.mark.slow
@pytest.mark.parametrize("angle", [0.2, -0.3])
def test_turns_keep_predictors_and_know_their_ratio(angle):
    sites = nested_sites()
    moved, ratio = all_turned(sites, angle)
    assert float(ratio) == pytest.approx(float(expected_ratio(sites, angle)), abs=1e-10)
    eta, new_eta = (s["theta"] @ slopes_of(NESTED, s).T for s in (sites, moved))
    np.testing.assert_allclose(new_eta, eta, atol=1e-12)
    assert abs(moved["theta"] - sites["theta"]).max() > 0.01
    back, _ = all_turned(moved, -angle)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), back, sites)


def test_turns_that_would_make_a_slope_negative_are_refused():
    sites = nested_sites()
    steep = sites | {"a": sites["a"].at[0].set(3.0)}
    assert float(all_turned(steep, -1.0)[1]) == -jnp.inf
    kept, _ = jax.jit(lambda x: turn_abilities(NESTED_PRIOR, RandomNumbers(jax.random.key(0)), x))(
        steep
    )
    assert all(np.isfinite(x).all() for x in kept.values())


def test_only_abilities_inside_another_are_turned():
    assert nested_pairs(NESTED).tolist() == [[0, 1]]
    assert nested_pairs(PATTERN).tolist() == []
    way, sites = way_of("correlated"), some_sites("correlated")
    assert turn_abilities(way, RandomNumbers(jax.random.key(0)), sites)[0] is sites


def test_a_general_ability_is_the_default_beyond_ten():
    assert [default_structure(k) for k in (1, 10, 11)] == ["correlated", "correlated", "general"]
