"""Time until the loss is within 1e-6 of the optimum, from the same start, as ratios in one run."""

import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from yardsticks import Solver, algorithm_1, lbfgsb, logits_start

from bayesirt.data.cells import DenseCells
from bayesirt.data.responses import Responses
from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.estimators.weak_prior import WeakPrior

PRIOR = WeakPrior()
NEAR = 1e-6


def simulated(n_subjects: int, n_items: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    theta, a = rng.normal(size=n_subjects), rng.uniform(0.5, 1, n_items)
    d = rng.normal(size=n_items)
    eta = theta[:, None] * a + d / 2
    return (rng.uniform(size=eta.shape) < 1 / (1 + np.exp(-eta))).astype(np.int8)


def real(shared: Path) -> np.ndarray:
    stored = np.load(shared / "data" / "lart_math500.npz")
    return stored["Y"][~stored["dropped_by_authors"]]


def ours(responses: Responses, step: str) -> Solver:
    def solve(iterations: int) -> list[float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = fit_cbmm(
                responses, step=step, prior=PRIOR, start="logits", tol=0, max_iterations=iterations
            )
        return list(fit.trace)

    return solve


def seconds_to(target: float, solve: Solver, most: int) -> tuple[float, int]:
    trace = np.array(solve(most))
    assert trace.min() <= target, "never came near the optimum"
    needed = max(1, int(np.argmax(trace <= target)))
    times = []
    for _ in range(3):
        began = time.perf_counter()
        solve(needed)
        times.append(time.perf_counter() - began)
    return float(np.median(times)), needed


@pytest.mark.bench
@pytest.mark.parametrize("name", ["200 x 200", "1000 x 1000", "lart_math500"])
def test_time_to_the_optimum(name: str, request: pytest.FixtureRequest, capsys):
    if name == "lart_math500":
        y = real(request.getfixturevalue("shared"))
    else:
        y = simulated(*map(int, name.split(" x ")))
    responses, start, floats = Responses.from_arrays(y), logits_start(y), y.astype(float)
    solvers = {
        "newton": (ours(responses, "newton"), 60),
        "mm, compiled": (ours(responses, "mm"), 1500),
        "Algorithm 1, NumPy": (lambda k: algorithm_1(floats, start, PRIOR, k), 1500),
        "L-BFGS-B": (lambda k: lbfgsb(floats, start, PRIOR, k), 1500),
    }
    best = min(solvers["newton"][0](100))
    found = {k: seconds_to(best * (1 + NEAR), *solver) for k, solver in solvers.items()}
    newton = found["newton"][0]
    with capsys.disabled():
        print(f"\n{name}: newton {1e3 * newton:.1f} ms")
        for solver, (seconds, needed) in found.items():
            print(f"  {solver:20} {seconds / newton:8.1f} x   {needed} iterations")
    assert newton < found["Algorithm 1, NumPy"][0]


@pytest.mark.bench
def test_time_of_a_leaderboard(shared: Path, capsys):
    """Draw a matrix of a leaderboard's size from factors that were fitted to one."""
    stored = np.load(shared / "data" / "surrogate_openllm2_mmlupro_factors.npz")
    rng = np.random.default_rng(0)
    y = np.stack(
        [rng.uniform(size=len(stored["V"])) < expit(u @ stored["V"].T) for u in stored["U"]]
    )
    names = (tuple(f"{kind} {k}" for k in range(n)) for kind, n in zip("si", y.shape, strict=True))
    cells = DenseCells(y.astype(np.int8), np.ones(y.shape, np.int8))
    responses = Responses(*names, cells)
    seconds = []
    for _ in range(3):  # the first compiles
        began = time.perf_counter()
        fit = fit_cbmm(responses)
        seconds.append(time.perf_counter() - began)
    near = int(np.argmax(fit.trace <= fit.trace[-1] * (1 + NEAR)))
    with capsys.disabled():
        print(
            f"\n{y.shape[0]} x {y.shape[1]}: {min(seconds):.2f} s (first call {seconds[0]:.2f} s), "
            f"{fit.iterations} iterations, within 1e-6 of the optimum after {near}"
        )
    assert fit.converged
