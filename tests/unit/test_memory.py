"""The memory that a run needs is estimated, and too large a run is refused before it starts."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from bayesirt import ResponseError, Responses, RunOptions, sample_posterior
from bayesirt.data import free_memory
from bayesirt.inference import memory
from bayesirt.inference.memory import bytes_needed, bytes_there, check_memory
from bayesirt.models import Mirt, TwoPL

RUN = RunOptions(num_chains=4, num_samples=1000)


def test_files_that_were_read_leave_a_container_its_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(free_memory, "_GROUP", tmp_path)
    monkeypatch.setattr(
        free_memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=9e9)
    )
    assert free_memory.host_bytes_free() == 9e9
    (tmp_path / "memory.max").write_text("4000000000\n")
    (tmp_path / "memory.current").write_text("3900000000\n")
    (tmp_path / "memory.stat").write_text(
        "anon 900000000\nfile 3000000000\ninactive_file 2900000000\n"
    )
    assert free_memory.host_bytes_free() == 3e9
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory.host_bytes_free() == 9e9


@pytest.fixture(scope="module")
def large() -> Responses:
    return Responses.from_arrays(np.tri(200, 3000, 100))


def test_exact_engines_need_more_with_cells_chains_and_draws(large):
    small = Responses.from_arrays(np.tri(20, 30))
    for method in ("nuts", "blocked"):
        needed = bytes_needed(method, large, TwoPL(), RUN)
        assert needed > bytes_needed(method, small, TwoPL(), RUN)
        assert needed > bytes_needed(method, large, TwoPL(), replace(RUN, num_chains=1))
        assert needed > bytes_needed(method, large, TwoPL(), replace(RUN, num_samples=100))
    needed = bytes_needed("nuts", large, TwoPL(), RUN)
    assert needed > bytes_needed("blocked", large, TwoPL(), RUN)


def test_a_host_that_holds_a_share_needs_less(large):
    few = RunOptions(num_chains=4, num_samples=10)
    twice = SimpleNamespace(size=2 * jax.local_device_count())  # like a mesh over two hosts
    shared = replace(few, mesh=twice)
    whole = bytes_needed("nuts", large, TwoPL(), few)
    assert bytes_needed("nuts", large, TwoPL(), shared) < whole


def test_laplace_needs_more_with_draws_but_not_with_chains(large):
    needed = bytes_needed("laplace", large, TwoPL(), RUN)
    few, one = replace(RUN, num_samples=100), RunOptions(num_chains=1, num_samples=4000)
    assert needed > bytes_needed("laplace", large, TwoPL(), few)
    assert needed == bytes_needed("laplace", large, TwoPL(), one)


@pytest.mark.parametrize(
    ("free", "advice"),
    [
        (8e8, "keep fewer draws, or use engine blocked, which would fit"),
        (1e8, "keep fewer draws, no engine would fit"),
    ],
)
def test_what_will_not_fit_is_refused_with_figures(monkeypatch, free, advice):
    monkeypatch.setattr(memory, "bytes_there", lambda: free)
    data = Responses.from_arrays(np.tri(2000, 1000))
    few = RunOptions(num_chains=4, num_samples=10)
    with pytest.raises(
        ResponseError, match=rf"nuts needs about 0\.9 GB .* {free / 1e9:.1f} GB"
    ) as e:
        check_memory("nuts", data, model=TwoPL(), options=few)
    assert advice in str(e.value)
    assert "\n" not in str(e.value)


def test_no_engine_is_offered_that_the_model_refuses(monkeypatch):
    monkeypatch.setattr(memory, "bytes_there", lambda: 8e8)
    data = Responses.from_arrays(np.tri(2000, 1000))
    few = RunOptions(num_chains=4, num_samples=10)
    assert bytes_needed("laplace", data, Mirt(2), few) < 8e8
    with pytest.raises(ResponseError, match="no engine would fit"):
        check_memory("blocked", data, model=Mirt(2), options=few)


def test_nothing_is_fitted_before_memory_is_checked(monkeypatch, small):
    monkeypatch.setattr(memory, "bytes_there", lambda: 1.0)
    monkeypatch.setattr("bayesirt.inference.engines.fit_point", None)
    with pytest.raises(ResponseError, match="no engine would fit"):
        sample_posterior(small, key=jax.random.key(0))


def test_free_memory_is_a_sane_number(tmp_path):
    assert 1e8 < bytes_there() < 1e14
