"""Chains that continue an earlier posterior start at its means."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from bayesirt.data.responses import Responses
from bayesirt.inference.earlier_start import start_from
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior

RNG = np.random.default_rng(5)
THETA, A, D = RNG.normal(size=9), RNG.lognormal(size=7), RNG.normal(size=7)
OLD_SUBJECTS, OLD_ITEMS = ["s4", "s1", "s0", "s7"], ["i6", "i2"]


def point_of(theta: np.ndarray, a: np.ndarray, d: np.ndarray) -> PointEstimate:
    own = {"theta": ("subject", theta), "a": ("item", a), "d": ("item", d)}
    errors = {f"{name}_se": (dim, np.full(len(x), 0.3)) for name, (dim, x) in own.items()}
    names = {
        "subject": [f"s{i}" for i in range(len(theta))],
        "item": [f"i{j}" for j in range(len(a))],
    }
    parameters = xr.Dataset(own | errors, names)
    return PointEstimate(parameters, 0.0, 1, True, "made up", np.zeros(2), {})


def earlier_of(theta: np.ndarray, a: np.ndarray, d: np.ndarray) -> Posterior:
    """Return a posterior whose draws have the given means."""
    rows, columns = ([int(n[1:]) for n in names] for names in (OLD_SUBJECTS, OLD_ITEMS))
    means = {"theta": theta[rows], "a": a[columns], "d": d[columns]}
    apart = np.array([[-1.0, 1.0], [2.0, -2.0]])[..., None]
    samples = {name: mean + apart for name, mean in means.items()}
    answers = RNG.integers(0, 2, (len(rows), len(columns)))
    responses = Responses.from_arrays(answers, subjects=OLD_SUBJECTS, items=OLD_ITEMS)
    return Posterior.from_samples(samples, {}, responses, {})


def test_a_mere_change_of_scale_is_found_for_the_new_ones_too():
    shift, scale = 0.7, 1.6
    there = shift + scale * THETA, A / scale, D - shift * A / scale
    start = start_from(earlier_of(*there), point_of(THETA, A, D))
    for name, values in zip(("theta", "a", "d"), there, strict=True):
        np.testing.assert_allclose(start[name], values, rtol=1e-12)
        assert (start[f"{name}_se"] == 0.3).all()


def test_known_ones_are_where_the_posterior_was():
    earlier = earlier_of(RNG.normal(size=9), RNG.lognormal(size=7), RNG.normal(size=7))
    point = point_of(THETA, A, D)
    start = start_from(earlier, point)
    for dim, name, names in (
        ("subject", "theta", OLD_SUBJECTS),
        ("item", "a", OLD_ITEMS),
        ("item", "d", OLD_ITEMS),
    ):
        found = start.parameters[name].sel({dim: names})
        np.testing.assert_allclose(found, earlier[name].mean((0, 1)), rtol=1e-12)
    np.testing.assert_array_equal(point["theta"], THETA)  # the input is unchanged


@pytest.mark.parametrize("known", ["one subject", "equal subjects"])
def test_without_a_scale_in_common_the_estimate_is_the_start(known: str):
    theta = np.zeros(9) if known == "equal subjects" else THETA
    point = point_of(theta, A, D)
    if known == "one subject":
        names = [
            n if n == "s0" else f"other {n}" for n in map(str, point.parameters["subject"].values)
        ]
        point = replace(point, parameters=point.parameters.assign_coords(subject=names))
    assert start_from(earlier_of(THETA, A, D), point) is point
