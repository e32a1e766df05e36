"""The joint Laplace engine: layouts, precisions, extremes, and its own reports."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import simulate
from laplace_algebra import start_of, variances_of
from small_data import PRIORS, as_sparse, each_extreme, in_32_bits

from bayesirt import (
    PointEstimate,
    Posterior,
    Priors,
    ResponseError,
    Responses,
    RunOptions,
    fit_cbmm,
    rank_subjects,
)
from bayesirt.checks.item_table import item_table
from bayesirt.estimators.iteration import ConvergenceWarning
from bayesirt.estimators.joint.arrow_system import inverse_factor
from bayesirt.estimators.joint.cell_pieces import cut_cells
from bayesirt.estimators.joint.curvature import curvature_at
from bayesirt.estimators.joint.density import JointPoint, expand
from bayesirt.estimators.joint.information import JointProblem, arrow_at, joint_problem
from bayesirt.estimators.joint.mode import Mode, find_mode
from bayesirt.inference.laplace import ApproximationWarning, Search, draw_sites, sample_laplace
from bayesirt.models import TwoPL

KEY = jax.random.key(0)
TALL = simulate(24, 20)[0]


def found(problem: JointProblem, **changes) -> Mode:
    options = {"centre": "mean", "tol": 1e-2, "max_iterations": 300, "dense_up_to": 8000}
    return find_mode(problem, start_of(usual_point()), **(options | changes))


def draws(problem: JointProblem, mode: Mode) -> dict[str, np.ndarray]:
    return draw_sites(problem, mode, TwoPL(), KEY, 6)


@cache
def usual_point() -> PointEstimate:
    return fit_cbmm(TALL)


@cache
def usual_problem() -> JointProblem:
    return joint_problem(TALL.cells, TwoPL(), eliminate="items")


@cache
def usual_mode() -> Mode:
    return found(usual_problem())


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("size", "sparse"), [(1, True), (4, False), (7, True), (None, False)])
def test_pieces_hold_every_cell_once(axis, size, sparse):
    cells = (as_sparse(TALL) if sparse else TALL).cells
    pieces = list(cut_cells(cells, axis, size))
    assert len({piece.trials.shape for piece in pieces}) == 1
    assert all(piece.trials.dtype == np.int8 for piece in pieces)
    for whole, name in zip(TALL.cells.matrices(), ("successes", "trials"), strict=True):
        joined = np.concatenate([getattr(piece, name) for piece in pieces], axis)
        live = np.concatenate([piece.live for piece in pieces])
        unit = np.concatenate([piece.unit for piece in pieces])
        np.testing.assert_array_equal(np.compress(live, joined, axis), whole)
        assert not np.compress(~live, joined, axis).any()
        np.testing.assert_array_equal(unit[live], np.arange(cells.shape[axis]))
        assert (unit < cells.shape[axis]).all()


@pytest.mark.parametrize(("piece_size", "sparse"), [(7, False), (9, True)])
def test_size_of_the_pieces_and_layout_of_the_responses_do_not_matter(piece_size, sparse):
    cells = (as_sparse(TALL) if sparse else TALL).cells
    problem = joint_problem(cells, TwoPL(), eliminate="items", piece_size=piece_size)
    own, other = draws(problem, found(problem)), draws(usual_problem(), usual_mode())
    assert own.keys() == other.keys()
    for name in own:
        np.testing.assert_allclose(own[name], other[name], rtol=1e-7, atol=1e-9)


def test_either_side_may_be_eliminated():
    problem = joint_problem(TALL.cells, TwoPL(), eliminate="subjects", piece_size=7)
    mode = found(problem)
    np.testing.assert_allclose(mode.spread, usual_mode().spread, rtol=1e-7)
    for own, other in zip(mode.point, usual_mode().point, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-8)
    for own, other in zip(
        variances_of(mode.curvature), variances_of(usual_mode().curvature), strict=True
    ):
        np.testing.assert_allclose(own, other, rtol=1e-6)


def test_larger_side_is_eliminated():
    assert joint_problem(TALL.cells, TwoPL()).eliminates_items
    few_items = simulate(15, 4)[0].cells
    assert not joint_problem(few_items, TwoPL()).eliminates_items
    assert joint_problem(simulate(15, 8)[0].cells, TwoPL()).eliminates_items
    rasch = TwoPL(Priors(slopes="rasch"))
    assert not joint_problem(simulate(15, 8)[0].cells, rasch).eliminates_items


def test_passes_in_float32_agree_with_float64():
    problem = joint_problem(TALL.cells, TwoPL(), eliminate="items", dtype=jnp.float32)
    mode = found(problem)
    for own, other in zip(mode.point, usual_mode().point, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-3)
    for own, other in zip(
        variances_of(mode.curvature), variances_of(usual_mode().curvature), strict=True
    ):
        np.testing.assert_allclose(own, other, rtol=1e-3)
    assert draws(problem, mode)["theta"].dtype == np.float32


@pytest.mark.slow
def test_float32_throughout_agrees_with_float64():
    with in_32_bits():
        problem = joint_problem(TALL.cells, TwoPL(), eliminate="items")
        mode = find_mode(
            problem,
            start_of(fit_cbmm(TALL)),
            centre="mean",
            tol=1e-2,
            max_iterations=300,
            dense_up_to=8000,
        )
        variances = variances_of(mode.curvature)
    assert mode.converged
    assert mode.point.theta.dtype == jnp.float32
    for own, other in zip(mode.point, usual_mode().point, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=0.02)
    for own, other in zip(variances, variances_of(usual_mode().curvature), strict=True):
        np.testing.assert_allclose(own, other, rtol=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:laplace")
@each_extreme
def test_extremes_have_finite_draws(priors, y):
    responses = Responses.from_arrays(y)
    posterior = sample_laplace(
        responses, key=KEY, model=TwoPL(priors), options=RunOptions(num_samples=100)
    )
    for name in posterior.dataset.data_vars:
        assert np.isfinite(posterior[str(name)]).all()
    assert posterior.theta.std(0).min() > 0.3
    assert np.abs(posterior.theta).max() < 20


def test_draws_lie_around_the_mode_with_the_curvatures_spread():
    sites = draw_sites(usual_problem(), usual_mode(), TwoPL(), KEY, 20_000)
    sd = np.sqrt(np.asarray(usual_mode().curvature.covariances.theta))
    off = (sites["theta"].mean(0) - np.asarray(usual_mode().point.theta)) / sd
    assert np.abs(off).max() < 5 / np.sqrt(20_000)
    np.testing.assert_allclose(sites["theta"].std(0), sd, rtol=0.03)
    log_a = np.log(sites["a"])
    sd = np.sqrt(np.asarray(variances_of(usual_mode().curvature).items))
    np.testing.assert_allclose(log_a.std(0), sd[:, 0], rtol=0.03)
    np.testing.assert_allclose(sites["d"].std(0), sd[:, 1], rtol=0.03)
    np.testing.assert_array_equal(sites["b"], -sites["d"] / sites["a"])


@pytest.mark.parametrize(
    "priors",
    [PRIORS[0], *(pytest.param(p, marks=pytest.mark.slow) for p in PRIORS[1:])],
    ids=Priors.describe,
)
def test_posterior_holds_the_models_sites_and_says_how_it_was_made(priors, tmp_path):
    told: list[str] = []
    posterior = sample_laplace(
        TALL,
        key=KEY,
        init=usual_point(),
        model=TwoPL(priors),
        options=RunOptions(announce=told.append),
    )
    sites, spreads = {"theta", "a", "d", "b"}, set()
    if priors.kind == "hierarchical":
        drawn = {"mu_a", "mu_d", "mu_b", "sigma_a", "sigma_d"}
        sites |= {"mu_d"} if priors.slopes == "rasch" else drawn
        spreads = {"sigma_d"} if priors.slopes == "rasch" else {"sigma_a", "sigma_d"}
    assert set(map(str, posterior.dataset.data_vars)) == sites
    assert posterior["theta"].shape == (4, 1000, 24)
    assert posterior["a"].shape == (4, 1000, 20)
    attrs = posterior.tree.attrs
    assert (attrs["engine"], attrs["approximate"], attrs["converged"]) == ("laplace", 1, 1)
    assert attrs["information"] == "observed"
    held = {name for name in attrs if name.startswith("sigma_")}
    assert held == spreads
    assert ("held fixed" in attrs["hyperparameters"]) == (priors.kind == "hierarchical")
    assert len(told) == attrs["iterations"]
    assert posterior.verdict.sound
    posterior.save(tmp_path / "posterior.nc")
    again = Posterior.load(tmp_path / "posterior.nc")
    np.testing.assert_array_equal(again.theta, posterior.theta)
    assert dict(again.tree.attrs).keys() == dict(attrs).keys()
    assert len(rank_subjects(again).summary) == 24
    assert len(item_table(again)) == 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:laplace")
def test_slopes_of_every_draw_point_the_same_way():
    y = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 0, 0]])
    posterior = sample_laplace(
        Responses.from_arrays(y),
        key=KEY,
        model=TwoPL(Priors(slopes="free")),
        options=RunOptions(num_samples=500),
    )
    assert (posterior.draws("a").sum(1) > 0).all()
    assert (posterior.draws("a") < 0).any()


def test_same_key_gives_the_same_draws():
    one, again, other = (
        sample_laplace(
            TALL, key=jax.random.key(k), init=usual_point(), options=RunOptions(num_samples=10)
        ).theta
        for k in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0.1


def test_too_few_steps_warn_and_are_recorded():
    with pytest.warns(
        ConvergenceWarning, match="joint mode: the steps are still long after 1 step"
    ):
        posterior = sample_laplace(
            TALL,
            key=KEY,
            init=usual_point(),
            options=RunOptions(num_samples=10),
            search=Search(tol=1e-12, max_iterations=1),
        )
    assert posterior.tree.attrs["converged"] == 0
    assert posterior.tree.attrs["stop_reason"].startswith("the steps are still long")


@pytest.mark.slow
def test_few_subjects_are_approximated_with_a_warning():
    responses = simulate(19, 25)[0]
    with pytest.warns(ApproximationWarning, match="rough for 19 subjects x 25 items"):
        posterior = sample_laplace(responses, key=KEY, options=RunOptions(num_samples=10))
    assert posterior.tree.attrs["few"]
    assert not posterior.verdict.sound
    assert posterior.verdict.to_text().endswith("Run again with --engine blocked.")


def bent_point() -> JointPoint:
    """Return a point where steep items contradict the responses."""
    means = jnp.array([0.5, 0.0])
    return JointPoint(jnp.linspace(3, -3, 24), jnp.tile(jnp.array([1.5, 0.0]), (20, 1)), means)


@pytest.mark.parametrize("eliminate", ["items", "subjects"])
def test_expected_information_stands_in_where_the_observed_is_not_positive(eliminate):
    ordered = np.sort(TALL.cells.matrices()[0], axis=0)
    cells = Responses.from_arrays(ordered).cells
    problem = joint_problem(cells, TwoPL(), eliminate=eliminate)
    point, spread = bent_point(), jnp.array([1.0, 1.0])
    sums, nothing = problem.sums(point), jax.tree.map(jnp.zeros_like, point)

    def at(*, observed: bool):
        return expand(problem.coordinates, spread, nothing, point, sums, observed=observed)

    arrow = arrow_at(problem, spread, point, at(observed=True), observed=True)
    assert inverse_factor(arrow) is None
    curvature = curvature_at(problem, spread, point, at, dense_up_to=8000)
    assert not curvature.observed
    assert all((np.asarray(v) > 0).all() for v in variances_of(curvature))


def test_curvature_that_is_no_number_is_refused_in_words():
    problem, point, spread = usual_problem(), usual_mode().point, usual_mode().spread * jnp.nan
    sums, nothing = problem.sums(point), jax.tree.map(jnp.zeros_like, point)

    def at(*, observed: bool):
        return expand(problem.coordinates, spread, nothing, point, sums, observed=observed)

    with pytest.raises(ResponseError, match="not positive definite, so it has no Laplace"):
        curvature_at(problem, spread, point, at, dense_up_to=8000)
