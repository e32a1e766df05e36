"""Time and memory of point estimate, Laplace and blocked chains at the size of a leaderboard.

`python tests/bench/leaderboard_size.py 2212 12032 --sweeps 400` runs them on the device that JAX
finds and prints one line of JSON. Each runs twice, to separate compilation from work. On a shared
machine, processor time is more informative than wall-clock time.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base import array_stats

from bayesirt import RunOptions, fit_cbmm
from bayesirt.data.cells import DenseCells
from bayesirt.data.responses import Responses
from bayesirt.estimators.joint.information import joint_problem
from bayesirt.estimators.joint.mode import find_mode
from bayesirt.inference.laplace import draw_sites
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import TwoPL
from bayesirt.point_estimate import PointEstimate

CHAINS, DRAWS = 4, 4000

Truth = tuple[np.ndarray, np.ndarray]
Found = dict[str, Any]


def simulated(n: int, j: int) -> tuple[Responses, Truth]:
    """Draw 2PL responses row by row, so that no other array is as large as they are."""
    rng = np.random.default_rng(0)
    theta, a, d = rng.normal(size=n), np.exp(0.4 * rng.normal(size=j)), rng.normal(size=j)
    y = np.empty((n, j), np.int8)
    for i in range(n):
        y[i] = rng.uniform(size=j) < 1 / (1 + np.exp(-(theta[i] * a + d)))
    names = tuple(f"s{i}" for i in range(n)), tuple(f"i{k}" for k in range(j))
    return Responses(*names, DenseCells(y, np.ones_like(y))), (theta, np.stack([np.log(a), d], 1))


def twice(found: Found, name: str, work: Callable[[], Any]) -> Any:
    """Record time and memory of a first and a second call of `work`, and return its result."""
    result: Any = None
    for run in ("first", "again"):
        began, worked = time.perf_counter(), time.process_time()
        result = work()
        found[f"{name}, {run}"] = time.perf_counter() - began
        found[f"{name}, {run}, of processors"] = time.process_time() - worked
    found[f"{name}, GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if statistics := jax.local_devices()[0].memory_stats():
        found[f"{name}, GB of the device"] = statistics["peak_bytes_in_use"] / 1e9
    return result


def laplace(responses: Responses, point: PointEstimate, truth: Truth, found: Found) -> None:
    """Record time and memory of the joint Laplace posterior's intervals and draws, and coverage."""

    def intervals() -> tuple[Any, ...]:
        problem = joint_problem(responses.cells, TwoPL(), dtype=jnp.float32)
        start = {name: point[name] for name in ("theta", "a", "d")}
        settings = {"centre": "mean", "tol": 0.01, "max_iterations": 20, "dense_up_to": 8000}
        mode = find_mode(problem, start, **settings)
        of_theta, of_items, _ = mode.curvature.covariances
        sd = [np.sqrt(np.asarray(v)) for v in (of_theta, np.einsum("jkk->jk", of_items))]
        return problem, mode, sd

    problem, mode, sd = twice(found, "intervals", intervals)
    key = jax.random.key(1)
    twice(found, f"{DRAWS} draws", lambda: draw_sites(problem, mode, TwoPL(), key, DRAWS))
    found["finite"] = bool(all(np.isfinite(x).all() for x in sd))
    found["parameters"] = sum(x.size for x in sd)
    for name, own, s, true in zip(("theta", "items"), mode.point, sd, truth, strict=False):
        found[f"{name} covered"] = float(np.mean(np.abs(own - true) < 1.645 * s))


def chains(responses: Responses, point: PointEstimate, sweeps: int, found: Found) -> None:
    """Record time and memory of blocked chains, and their effective draws."""
    options = RunOptions(num_chains=CHAINS, num_warmup=sweeps // 7, num_samples=sweeps, thinning=1)
    few = replace(options, num_warmup=1, num_samples=2)
    key = jax.random.key(0)

    def sample(options: RunOptions) -> Any:
        return sample_blocked(responses, key=key, init=point, options=options)

    twice(found, "chains of 3 sweeps", lambda: sample(few))
    began = time.perf_counter()
    posterior = sample(options)
    seconds = time.perf_counter() - began - found["chains of 3 sweeps, again"]
    done = options.num_warmup + sweeps - 3
    found[f"a sweep of {CHAINS} chains, ms"] = 1e3 * seconds / done
    axes = {"chain_axis": 0, "draw_axis": 1, "method": "bulk"}
    for name in ("theta", "a", "d"):
        ess = array_stats.ess(np.asarray(posterior[name], float), **axes)
        found[f"effective draws of {name}, least and median"] = [ess.min(), float(np.median(ess))]
        found[f"a second, {name}"] = ess.min() / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subjects", type=int)
    parser.add_argument("items", type=int)
    parser.add_argument("--sweeps", type=int, default=0, help="none: without blocked chains")
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    responses, truth = simulated(asked.subjects, asked.items)
    found: Found = {"device": jax.local_devices()[0].device_kind}
    point = twice(found, "point", lambda: fit_cbmm(responses))
    found["correlation of abilities"] = np.corrcoef(point["theta"], truth[0])[0, 1]
    laplace(responses, point, truth, found)
    if asked.sweeps:
        chains(responses, point, asked.sweeps, found)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
