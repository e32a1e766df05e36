"""A script of the docs in two processes, killed and restarted, draws what one process draws."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from arviz_stats.base import array_stats
from conftest import simulate

from bayesirt import Posterior, Responses, RunOptions, sample_posterior

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "python.md"
SETTINGS = {"num_chains": 2, "num_warmup": 100, "num_samples": 600, "thinning": 1}
ENGINE = "blocked"


@pytest.fixture
def start_both(tmp_path):
    """Return a function that starts the page's script in two processes."""
    started = []

    def start() -> list[subprocess.Popen]:
        page = PAGE.read_text("utf-8").split("## Many devices, many hosts")[1]
        script = re.search("```python\n(.*?)```", page, re.DOTALL)[1]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            script = script.replace("host-0:9876", f"127.0.0.1:{free.getsockname()[1]}")
        settings = "".join(f", {k}={v!r}" for k, v in SETTINGS.items())
        settings += ', checkpoint=pathlib.Path("kept")'
        script = script.replace("(mesh=mesh", "(mesh=mesh" + settings)
        script = script.replace("options=options", f"options=options, engine={ENGINE!r}")
        script += '    posterior.save(pathlib.Path("posterior.nc"))\n'
        (tmp_path / "together.py").write_text("import pathlib\n" + script)
        command = [sys.executable, "together.py"]
        both = [
            subprocess.Popen([*command, str(k)], cwd=tmp_path, env=environment(tmp_path))
            for k in (0, 1)
        ]
        started.extend(both)
        return both

    yield start
    for process in started:
        process.kill()


def environment(folder: Path) -> dict[str, str]:
    """Return the environment without the tests' four devices, with a compilation cache."""
    flags = [x for x in os.environ["XLA_FLAGS"].split() if "device_count" not in x]
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    }
    return os.environ | {"XLA_FLAGS": " ".join(flags)} | cache


def table(responses: Responses) -> str:
    rows = ["model,item,score"]
    successes, _ = responses.cells.matrices()
    for name, row in zip(responses.subjects, successes, strict=True):
        rows += [f"{name},{item},{x}" for item, x in zip(responses.items, row, strict=True)]
    return "\n".join(rows)


@pytest.mark.statistical
def test_two_processes_killed_and_resumed_draw_what_one_draws(tmp_path, start_both):
    """Use the engine that shares more among processes; `test_row_shards` checks NUTS's gradient."""
    responses = simulate(31, 20)[0]
    (tmp_path / "results.csv").write_text(table(responses))
    both = start_both()
    while not (tmp_path / "kept" / "draws_000002.npz").exists():
        assert all(process.poll() is None for process in both)
        time.sleep(0.05)
    for process in both:
        process.kill()
        process.wait()
    assert not (tmp_path / "posterior.nc").exists()

    for process in start_both():
        assert process.wait(timeout=300) == 0
    assert not (tmp_path / "kept").exists()
    assert (tmp_path / "ranking.csv").exists()

    together = Posterior.load(tmp_path / "posterior.nc")
    options = RunOptions(**SETTINGS)
    alone = sample_posterior(responses, key=jax.random.key(0), engine=ENGINE, options=options)
    for name in ("theta", "a", "d"):
        sides = [posterior[name] for posterior in (together, alone)]
        errors = [array_stats.mcse(x, method="mean", chain_axis=0, draw_axis=1) for x in sides]
        z = (sides[0].mean((0, 1)) - sides[1].mean((0, 1))) / np.hypot(*errors)
        print(f"{name}: largest z {np.abs(z).max():.2f}")
        assert np.abs(z).max() < 4, name
