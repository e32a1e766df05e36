"""Rows sharded over devices and processes give the same numbers and the same draws."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import simulate
from jax.sharding import Mesh
from lart_data import simulate_lart, some_missing
from passes_of_one import one_ability
from small_data import as_sparse

from bayesirt import ResponseError, Responses, RunOptions, sample_posterior
from bayesirt.data.cells import SparseCells
from bayesirt.data.clusters import Clusters
from bayesirt.inference.block_steps import chance_for
from bayesirt.inference.lart_moves import WithLengths
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.inference.row_shards import put_everywhere, share_rows, spans_processes
from bayesirt.inference.subject_moves import Normals, move_subjects
from bayesirt.likelihood.cell_sums import layout_of, log_likelihood_of
from bayesirt.models import LaRT

KEY = jax.random.key(5)


def mesh_of(n_devices: int) -> Mesh:
    return Mesh(np.array(jax.devices()[:n_devices]), ("any name",))


def sparse(responses: Responses) -> Responses:
    """Return about half of the responses, stored as a list of cells."""
    listed = responses.cells.listed()
    kept = np.random.default_rng(1).uniform(size=len(listed.item)) < 0.5
    cells = SparseCells(*responses.cells.shape, type(listed)(*(x[kept] for x in listed)))
    return Responses(responses.subjects, responses.items, cells)


@pytest.fixture(scope="module", params=["dense", "sparse"])
def data(request):
    responses, theta, a, d = simulate(30, 20)
    responses = responses if request.param == "dense" else sparse(responses)
    return responses, *map(jnp.asarray, (theta, a, d))


@pytest.mark.parametrize("n_devices", [1, 3, 4])
def test_likelihood_and_gradient_are_those_of_one_device(data, n_devices):
    responses, *parameters = data

    @jax.jit
    def value_and_gradient(layout):
        return jax.value_and_grad(lambda parameters: log_likelihood_of(layout)(*parameters))(
            parameters
        )

    shared = value_and_gradient(share_rows(responses, mesh_of(n_devices)))
    alone = value_and_gradient(layout_of(responses))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12), shared, alone)


def test_a_step_of_every_subject_is_that_of_one_device(data):
    responses, theta, a, d = data
    chance = chance_for(RandomNumbers(KEY), theta[:, None])

    @jax.jit
    def step(layout, scale):
        pull, precision = jnp.zeros((len(theta), 1)), jnp.full((len(theta), 1, 1), scale**-2)
        passes, items = one_ability(layout, len(a), dtype=jnp.float64), jnp.stack([a, d], -1)
        moved = move_subjects(passes, chance, theta[:, None], items, Normals(pull, precision))
        return moved, passes.item_sums(moved.theta, items)

    one, many = step(layout_of(responses), 0.8), step(share_rows(responses, mesh_of(4)), 0.8)
    assert 0.5 < np.mean(one[0].accepted) < 1
    for mine, theirs in zip(many, one, strict=True):
        mine, theirs = (jax.tree.leaves(jax.tree.map(np.asarray, x)) for x in (mine, theirs))
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(x.sum(0), y.sum(0), rtol=1e-10)


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_lengths_and_their_gradient_are_those_of_one_device(layout, wrong):
    _, truth = simulate_lart(11, 6)
    responses = some_missing(11, 6)
    responses = as_sparse(responses) if layout == "sparse" else responses
    way = WithLengths(LaRT(wrong_lengths=wrong))
    values = {name: jnp.asarray(x) for name, x in truth.items()} | {"delta": jnp.arange(6.0)}

    @jax.jit
    def found(values, data):
        slopes = jax.grad(lambda at: way.log_likelihood(at, data))(values)
        return way.evidence(values, data), way.log_likelihood(values, data), slopes

    alone, shared = (found(values, way.data(responses, mesh)) for mesh in (None, mesh_of(4)))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10), shared, alone)


def test_more_devices_than_subjects():
    responses = Responses.from_arrays(np.tri(3, 5))
    theta, a, d = jnp.arange(3.0), jnp.ones(5), jnp.zeros(5)
    alone = jax.jit(log_likelihood_of(layout_of(responses)))(theta, a, d)
    shared = jax.jit(log_likelihood_of(share_rows(responses, mesh_of(4))))(theta, a, d)
    np.testing.assert_allclose(shared, alone, rtol=1e-12)


def test_whole_arrays_and_keys_go_to_every_device():
    mesh = mesh_of(4)
    numbers, keys = put_everywhere((np.arange(3.0), jax.random.split(KEY, 2)), mesh)
    assert numbers.sharding.is_fully_replicated
    assert numbers.sharding.device_set == set(mesh.devices.flat)
    np.testing.assert_array_equal(
        jax.random.key_data(keys), jax.random.key_data(jax.random.split(KEY, 2))
    )
    assert not spans_processes(mesh)
    assert put_everywhere(KEY, None) is KEY


def test_laplace_refuses_a_mesh(small):
    with pytest.raises(ResponseError, match="laplace works on one device; leave mesh out"):
        sample_posterior(small, key=KEY, engine="laplace", options=RunOptions(mesh=mesh_of(2)))


@pytest.mark.slow
def test_draws_with_clusters_are_those_of_one_device():
    """Use LaRT, whose cluster moves depend on lengths too."""
    of_each = Clusters.of([f"llm {i // 3}" for i in range(23)])
    responses = replace(simulate_lart(23, 15)[0], clusters=of_each)
    alone, shared = (
        sample_posterior(
            responses,
            key=KEY,
            model="lart",
            options=RunOptions(num_warmup=5, num_samples=5, num_chains=1, mesh=mesh),
        )
        for mesh in (None, mesh_of(4))
    )
    assert {"gamma", "icc"} <= set(alone.dataset)
    for name in alone.dataset:
        np.testing.assert_allclose(shared[name], alone[name], rtol=0, atol=1e-4, err_msg=name)
