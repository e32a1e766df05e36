"""Seconds and peak memory of the joint Laplace posterior at the sizes of public leaderboards.

Each size runs in a process of its own, so that the peak is its own. The intervals are made twice,
to tell compilation from work. On a shared machine processor seconds say more than the clock.
"""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, sys, time
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
from bayesirt.data.cells import DenseCells
from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.estimators.joint.information import joint_problem
from bayesirt.estimators.joint.mode import find_mode
from bayesirt.inference.laplace import draw_sites
from bayesirt.models import TwoPL
from bayesirt.data.responses import Responses

def gigabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6

n, j = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
theta, a, d = rng.normal(size=n), np.exp(0.4 * rng.normal(size=j)), rng.normal(size=j)
y = np.empty((n, j), np.int8)
for i in range(n):
    y[i] = rng.uniform(size=j) < 1 / (1 + np.exp(-(theta[i] * a + d)))
names = tuple(f"s{i}" for i in range(n)), tuple(f"i{k}" for k in range(j))
responses = Responses(*names, DenseCells(y, np.ones_like(y)))
found = {"empty": gigabytes()}
point = fit_cbmm(responses)
found["point estimate"] = gigabytes()
for run in ("first", "second"):
    began, worked = time.perf_counter(), time.process_time()
    problem = joint_problem(responses.cells, TwoPL(), dtype=jnp.float32)
    start = {x: point[x] for x in ("theta", "a", "d")}
    settings = {"centre": "mean", "tol": 0.01, "max_iterations": 20, "dense_up_to": 8000}
    mode = find_mode(problem, start, **settings)
    of_theta, of_items, _ = mode.curvature.covariances
    sd = [np.sqrt(np.asarray(v)) for v in (of_theta, np.einsum("jkk->jk", of_items))]
    found[f"{run}, intervals"] = time.perf_counter() - began
    found[f"{run}, of processors"] = time.process_time() - worked
    found["intervals"] = gigabytes()
began = time.perf_counter()
sites = draw_sites(problem, mode, TwoPL(), jax.random.key(1), 4000)
found["4000 draws, compilation included"] = time.perf_counter() - began
found["draws"] = gigabytes()
found["finite"] = bool(all(np.isfinite(x).all() for x in sd))
found["parameters"] = sum(x.size for x in sd)
truth = (theta, np.stack([np.log(a), d], 1))
for name, own, s, true in zip(("theta", "items"), mode.point, sd, truth):
    found[f"{name} covered"] = float(np.mean(np.abs(own - true) < 1.645 * s))
print(json.dumps(found))
"""


@pytest.mark.bench
@pytest.mark.parametrize("size", ["2211 x 5761", "2212 x 12032"])
def test_all_intervals_at_once(size: str, capsys):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *size.split(" x ")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    with capsys.disabled():
        print(f"\n{size}: {found.pop('parameters')} parameters")
        for name, value in found.items():
            print(f"  {name:34} {value:8.2f}")
    assert found["finite"]
    assert found["draws"] < 6
    assert 0.8 < found["theta covered"] < 0.97
    assert 0.87 < found["items covered"] < 0.93
