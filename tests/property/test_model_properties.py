"""Properties for any parameters and responses; shapes are fixed, so that JAX compiles once."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bayesirt.data.responses import Responses
from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.likelihood.cell_sums import layout_of, log_likelihood_of
from bayesirt.ranking.subject_ranking import ranks_of_draws, tiers

N, J = 8, 6
few = settings(max_examples=25, deadline=None, derandomize=True)


def numbers(size: int, low: float, high: float) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, size, elements=st.floats(low, high))


@st.composite
def responses_of(draw) -> Responses:
    trials = draw(arrays(np.int64, (N, J), elements=st.integers(0, 4)))
    trials[0] = np.maximum(trials[0], 1)
    trials[:, 0] = np.maximum(trials[:, 0], 1)
    share = draw(arrays(np.float64, (N, J), elements=st.floats(0, 1)))
    return Responses.from_arrays(np.round(share * trials), trials)


thetas, slopes, intercepts = numbers(N, -5, 5), numbers(J, 0, 4), numbers(J, -8, 8)


@jax.jit
def value_of(successes, trials, theta, a, d):
    eta = theta[:, None] * a + d
    return (successes * eta - trials * jnp.logaddexp(0, eta)).sum()


@few
@given(responses_of(), thetas, slopes, intercepts, st.floats(-4, 4), st.floats(0.1, 10))
def test_likelihood_does_not_see_shift_and_scale(responses, theta, a, d, shift, scale):
    log_likelihood = log_likelihood_of(layout_of(responses))
    here = float(log_likelihood(theta, a, d))
    moved = float(log_likelihood((theta - shift) / scale, a * scale, d + a * shift))
    assert here <= 0
    assert moved == pytest.approx(here, rel=1e-11, abs=1e-9)
    flipped = float(log_likelihood(-theta, -a, d))
    assert flipped == pytest.approx(here, rel=1e-13)
    assert float(value_of(*responses.cells.matrices(), theta, a, d)) == pytest.approx(
        here, rel=1e-11, abs=1e-10
    )


@few
@given(responses_of(), st.permutations(range(N)), st.permutations(range(J)))
def test_estimates_move_with_their_names(responses, rows, columns):
    rows, columns = np.array(rows), np.array(columns)
    point, moved = fit_cbmm(responses), fit_cbmm(responses.select(rows, columns))
    for name, order in (("theta", rows), ("theta_se", rows), ("a", columns), ("d", columns)):
        np.testing.assert_allclose(moved[name], point[name][order], rtol=0, atol=1e-6)
    assert moved.parameters["subject"].values.tolist() == [responses.subjects[i] for i in rows]
    assert np.isfinite(point["theta"]).all()
    assert (point["a"] >= 0).all()
    assert np.diff(point.trace).max(initial=0) <= 1e-11 * point.trace[0]


@few
@given(arrays(np.float64, (5, N), elements=st.integers(-(10**6), 10**6), unique=True))
def test_ranks_are_permutations_in_the_order_of_ability(theta):
    ranks = ranks_of_draws(theta)
    np.testing.assert_array_equal(np.sort(ranks, 1), np.tile(np.arange(1, N + 1), (5, 1)))
    best_first = np.take_along_axis(theta, np.argsort(ranks, 1), 1)
    assert (np.diff(best_first) < 0).all()


@few
@given(arrays(bool, (N, N)))
def test_tiers_rise_by_at_most_one(sure):
    own = tiers(sure)
    assert own[0] == 1
    assert set(np.diff(own)) <= {0, 1}
    firsts = np.searchsorted(own, np.arange(1, own.max() + 1))
    assert all(sure[one, other] for one, other in pairwise(firsts))
