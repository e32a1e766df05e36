"""Chains in blocks are saved, killed, interrupted and resumed, with a kernel of known steps."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import CountCompilations

from bayesirt import ResponseError
from bayesirt.inference.chains import BLOCK, Length, Watch, run_chains
from bayesirt.inference.checkpoint import Checkpoint

STARTS = jnp.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
DATA = jnp.array(0.5)
WARMUP, DRAWS = BLOCK + 7, 2 * BLOCK + 3


@dataclass(frozen=True)
class Drift:
    """x → x + step + noise, with a count of steps."""

    noise: float = 0.1

    def init(self, key, start, _data):
        return key, start, jnp.array(0)

    def advance(self, state, data):
        key, x, count = state
        key, own = jax.random.split(key)
        return key, x + data + self.noise * jax.random.normal(own, x.shape), count + 1

    def collect(self, state):
        return {"x": state[1], "count": state[2]}


def run(progress=None, checkpoint=None, mesh=None, **length):
    watch, key = Watch(progress, checkpoint), jax.random.key(3)
    length = Length(**{"num_warmup": WARMUP, "num_samples": DRAWS} | length)
    return run_chains(Drift(), DATA, STARTS, key=key, length=length, watch=watch, mesh=mesh)


class KilledError(Exception):
    """Simulated end of the process."""


def stop_after(steps, error):
    def progress(done, total):
        if done >= steps:
            raise error

    return progress


@pytest.mark.parametrize("thinning", [1, 3])
def test_draws_are_those_of_a_plain_loop(thinning):
    chains = run(thinning=thinning)
    assert chains.complete
    assert chains.samples["x"].shape == (3, DRAWS, 2)
    counts = WARMUP + thinning * np.arange(1, DRAWS + 1)
    np.testing.assert_array_equal(chains.samples["count"], np.tile(counts, (3, 1)))
    key, x = jax.random.split(jax.random.key(3), 3)[1], STARTS[1]
    for step in range(1, counts[4] + 1):
        key, own = jax.random.split(key)
        x = x + DATA + 0.1 * jax.random.normal(own, x.shape)
        if step in counts:
            at = int(np.flatnonzero(counts == step)[0])
            np.testing.assert_allclose(chains.samples["x"][1, at], x, rtol=1e-12)


def nth_time(n):
    """Return a stopping rule that is satisfied when asked for the nth time with steps done."""
    asked = []

    def enough(samples, steps):
        asked.extend([samples["count"]] if steps else [])
        return len(asked) == n

    return enough


@pytest.mark.parametrize("draws", [DRAWS, DRAWS + 1])
def test_chains_go_on_with_twice_the_steps_until_draws_are_enough(draws, tmp_path):
    chains = run(num_samples=draws, enough=nth_time(3))
    counts = chains.samples["count"][0]
    assert chains.thinning == 4
    assert len(counts) == draws
    assert counts[-1] == WARMUP + draws + 3 * 2 * (draws // 2)
    steps = np.diff(counts)
    assert (steps[len(steps) // 2 :] == 4).all()
    assert set(steps) <= {2, 3, 4, 5, 6}
    plain = run(num_samples=len(range(WARMUP, counts[-1])))
    at = counts - WARMUP - 1
    np.testing.assert_array_equal(chains.samples["x"], plain.samples["x"][:, at])
    checkpoint = Checkpoint(tmp_path / "kept", "this run")
    with pytest.raises(KilledError):
        run(
            num_samples=draws,
            enough=lambda *_: False,
            checkpoint=checkpoint,
            progress=stop_after(WARMUP + draws + 90, KilledError),
        )
    resumed = run(num_samples=draws, enough=lambda *_: True, checkpoint=checkpoint)
    assert resumed.thinning == 2
    np.testing.assert_array_equal(
        resumed.samples["count"][0][-2:], WARMUP + draws + 2 * (draws // 2) - np.array([2, 0])
    )


def test_chains_that_go_on_for_long_keep_as_many_draws_as_were_asked_for():
    counts = run(num_samples=100, enough=nth_time(6)).samples["count"][0]
    assert len(counts) == 100
    assert counts[-1] == WARMUP + 100 + 50 * (2**6 - 2)


@pytest.mark.parametrize("asked", [150, 200])
def test_chains_end_with_half_of_the_draws_or_a_few_more_if_these_are_enough(asked):
    chains = run(num_samples=230, enough=lambda x, steps: not steps and len(x["x"][0]) == asked)
    assert chains.complete
    assert chains.thinning == 1
    short = run(num_samples=asked)
    np.testing.assert_array_equal(chains.samples["x"], short.samples["x"])


def test_chains_do_not_depend_on_how_they_run():
    in_threads = run()
    vectorised = run(mesh=jax.make_mesh((1,), ("rows",)))
    for name, values in in_threads.samples.items():
        np.testing.assert_allclose(vectorised.samples[name], values, rtol=1e-12)


def test_threads_have_the_precision_of_their_caller():
    with jax.enable_x64(False):
        draws = run_chains(
            Drift(), 0.5, np.zeros((2, 2), np.float32), key=jax.random.key(3), length=Length(3, 5)
        )
    assert draws.samples["x"].dtype == np.float32


def test_other_data_of_the_same_shape_need_no_compilation():
    run()
    other, key = jnp.array(0.7), jax.random.key(3)
    with CountCompilations() as compiled:
        run_chains(Drift(), other, STARTS, key=key, length=Length(3, 5))
    assert compiled() == 0


@pytest.mark.parametrize("steps", [1, WARMUP, WARMUP + 1, WARMUP + BLOCK + 1])
def test_killed_chains_go_on_as_if_nothing_had_been(steps, tmp_path):
    checkpoint = Checkpoint(tmp_path / "kept", "same")
    with pytest.raises(KilledError):
        run(checkpoint=checkpoint, progress=stop_after(steps, KilledError()))
    seen = []
    chains = run(checkpoint=checkpoint, progress=lambda *at: seen.append(at[0]))
    assert steps <= seen[0] < min(seen[1:])
    expected = run().samples
    for name, values in expected.items():
        np.testing.assert_array_equal(chains.samples[name], values)
    checkpoint.remove()
    assert not (tmp_path / "kept").exists()


def test_kill_between_draws_and_state_loses_nothing(tmp_path, monkeypatch):
    """The block of draws is written, but the state that counts it is not."""
    checkpoint = Checkpoint(tmp_path, "same")
    real = Checkpoint._write

    def write(self, name, arrays):
        if name == "state.npz" and (tmp_path / "draws_000002.npz").exists():
            raise KilledError
        real(self, name, arrays)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "_write", write)
        with pytest.raises(KilledError):
            run(checkpoint=checkpoint)
    chains = run(checkpoint=checkpoint)
    np.testing.assert_array_equal(chains.samples["x"], run().samples["x"])


def test_interrupted_chains_keep_their_draws():
    chains = run(progress=stop_after(WARMUP + BLOCK, KeyboardInterrupt()))
    assert not chains.complete
    np.testing.assert_array_equal(chains.samples["x"], run().samples["x"][:, :BLOCK])


def test_interrupt_before_the_first_draw_is_passed_on():
    with pytest.raises(KeyboardInterrupt):
        run(progress=stop_after(1, KeyboardInterrupt()))


def test_foreign_and_damaged_checkpoints_are_refused(tmp_path):
    with pytest.raises(KilledError):
        run(checkpoint=Checkpoint(tmp_path, "one"), progress=stop_after(WARMUP + 1, KilledError()))
    with pytest.raises(ResponseError, match="belongs to other data or other settings"):
        run(checkpoint=Checkpoint(tmp_path, "other"))
    (tmp_path / "draws_000001.npz").unlink()
    with pytest.raises(ResponseError, match="is damaged; remove it"):
        run(checkpoint=Checkpoint(tmp_path, "one"))
    for content in (b"", b"PK\x03\x04 and no more", b"not a checkpoint"):
        (tmp_path / "state.npz").write_bytes(content)
        with pytest.raises(ResponseError, match="is damaged; remove it"):
            run(checkpoint=Checkpoint(tmp_path, "one"))


def test_checkpoint_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ResponseError, match="cannot be written"):
        run(checkpoint=Checkpoint(tmp_path / "file" / "folder", "same"))
