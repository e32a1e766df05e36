"""A traced program is loaded from disk as long as nothing that it depends on has changed."""

import warnings
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt.kept_programs import FOLDER, kept


class Pair(NamedTuple):
    left: jax.Array
    right: jax.Array


traced = []


def scaled(factor, pair, more):
    traced.append(factor)
    key, x = more["key"], pair.left * factor
    return Pair(x + jax.random.normal(key, x.shape), pair.right), {"key": key, "x": x}


def another_process():
    """Return the function as in a process that has traced nothing yet."""
    traced.clear()
    return kept(scaled, constants=1)


ARGUMENTS = 2.0, Pair(np.arange(3.0), np.arange(2)), {"key": jax.random.key(0)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path / "programs"))
    return tmp_path / "programs"


def test_loaded_program_gives_the_same_and_is_not_traced():
    first = another_process()(*ARGUMENTS)
    assert traced == [2.0]
    again = another_process()(*ARGUMENTS)
    assert traced == []
    assert type(again[0]) is Pair
    assert jax.tree.structure(again) == jax.tree.structure(first)
    for got in zip(*map(jax.tree.leaves, (first, again, scaled(*ARGUMENTS))), strict=True):
        assert len({x.dtype for x in got}) == 1
        kept_now, loaded, plain = map(numbers, got)
        np.testing.assert_array_equal(loaded, kept_now)
        np.testing.assert_allclose(loaded, plain, rtol=1e-14)


def numbers(x):
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


def test_without_a_folder_nothing_is_kept(folder, monkeypatch):
    monkeypatch.delenv(FOLDER)
    another_process()(*ARGUMENTS)
    assert not folder.exists()


@pytest.mark.parametrize("other", ["constant", "shape", "dtype", "structure", "setting", "source"])
def test_another_program_is_another_file(folder, monkeypatch, other):
    another_process()(*ARGUMENTS)
    factor, pair, more = ARGUMENTS
    if other == "constant":
        factor = 3.0
    if other == "shape":
        pair = pair._replace(left=np.arange(4.0))
    if other == "dtype":
        pair = pair._replace(right=np.arange(2.0))
    if other == "structure":
        more = more | {"z": np.zeros(1)}
    if other == "source":
        monkeypatch.setattr("bayesirt.kept_programs._versions", lambda: "another")
    with jax.default_matmul_precision("float32" if other == "setting" else "highest"):
        another_process()(factor, pair, more)
    assert traced == [factor]
    assert len(list(folder.iterdir())) == 2


def test_damaged_file_is_written_again(folder):
    first = another_process()(*ARGUMENTS)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    for damaged in (b"", b"[]", whole[:-1], whole[:-9] + b"?" + whole[-8:]):
        path.write_bytes(damaged)
        np.testing.assert_array_equal(another_process()(*ARGUMENTS)[1]["x"], first[1]["x"])
        assert traced == [2.0]
        another_process()(*ARGUMENTS)
        assert traced == []


def test_folder_that_cannot_be_written_stops_nothing(folder):
    folder.write_text("no folder")
    another_process()(*ARGUMENTS)
    assert folder.read_text() == "no folder"


@pytest.mark.parametrize("what", ["a constant without text", "a result of weak type"])
def test_what_cannot_be_kept_is_compiled(folder, what):
    def applied(function, x):
        return function(x)

    function = partial(jnp.full_like, fill_value=1.5) if "weak" in what else (lambda x: x + 1.5)
    x = 0.0 if "weak" in what else np.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(jnp.sum(kept(applied, constants=1)(function, x))) in (1.5, 3.0)
    assert not folder.exists()
