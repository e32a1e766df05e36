"""Other libraries' fits of the 2PL and ours, compared in alternating runs, as ratios.

Libraries run with their default number of threads; `taskset -c 0` and `OMP_NUM_THREADS=1` limit
all of them to one. The first call of each compiles and is not counted.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from peers import PEERS, Estimate, Peer, installed
from scipy.stats import spearmanr

from bayesirt import PointEstimate, Responses, fit_cbmm, fit_marginal

SIZES = ["200 x 200", "1000 x 1000", "lart_math500"]
ENOUGH = 20.0
"""Seconds after which a call is not repeated."""


class Matrix(NamedTuple):
    """Responses, and their true parameters if they are simulated."""

    y: np.ndarray
    truth: Estimate | None


@pytest.fixture(params=SIZES)
def matrix(request: pytest.FixtureRequest) -> Matrix:
    if request.param == "lart_math500":
        stored = np.load(request.getfixturevalue("shared") / "data" / "lart_math500.npz")
        return Matrix(stored["Y"][~stored["dropped_by_authors"]], None)
    n, j = map(int, request.param.split(" x "))
    rng = np.random.default_rng(7)
    theta, a, d = rng.normal(size=n), rng.uniform(0.5, 1, j), rng.normal(0, 0.5, j)
    p = 1 / (1 + np.exp(-(theta[:, None] * a + d)))
    return Matrix((rng.uniform(size=p.shape) < p).astype(np.int8), (theta, a, d))


OURS: dict[str, Callable[[Responses], PointEstimate]] = {
    "cbmm": fit_cbmm,
    "mml": partial(fit_marginal, model="2pl", shrink=False, errors="own"),
    "mml, errors": partial(fit_marginal, model="2pl", shrink=False),
}


@pytest.mark.bench
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PEERS)
def test_peer_beside_ours(name: str, matrix: Matrix, capsys):
    peer, responses = installed(PEERS[name]), Responses.from_arrays(matrix.y)
    calls = {k: partial(fit, responses) for k, fit in OURS.items()}
    found, seconds = alternately(calls, peer, matrix.y)
    estimates = {k: tuple(found[k][p] for p in ("theta", "a", "d")) for k in OURS}
    estimates["peer"] = peer.read(found["peer"], matrix.y)
    with capsys.disabled():
        print(f"\n{name}, {' x '.join(map(str, matrix.y.shape))}: {seconds['peer']:.3f} s")
        for k, estimate in estimates.items():
            ratio = seconds["peer"] / seconds[k]
            print(f"  {k:12} {seconds[k]:8.3f} s   {ratio:8.1f} x   {accuracy(estimate, matrix)}")
    assert seconds["mml"] < seconds["peer"]


def alternately(
    ours: dict[str, Callable[[], Any]], peer: Peer, y: np.ndarray
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return each result and its time: the shortest of up to three runs after the first."""
    found: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {}
    for run in range(4):
        calls = ours | {"peer": partial(peer.fit, peer.prepare(y))}
        for name, call in calls.items():
            if name == "peer" and run > 0 and seconds[name][0] > ENOUGH:
                continue
            began = time.perf_counter()
            found[name] = call()
            seconds.setdefault(name, []).append(time.perf_counter() - began)
    return found, {name: min(each[1:] or each) for name, each in seconds.items()}


def accuracy(estimate: Estimate, matrix: Matrix) -> str:
    """Return Spearman correlations of θ and a with the truth, and the RMSE of d.

    d is compared after both sets of abilities are centred.
    """
    if matrix.truth is None:
        return ""
    (theta, a, d), (true_theta, true_a, true_d) = estimate, matrix.truth
    correlations = (spearmanr(x, z).statistic for x, z in ((theta, true_theta), (a, true_a)))
    errors = (d + a * np.mean(theta)) - (true_d + true_a * np.mean(true_theta))
    of_theta, of_a = correlations
    return f"θ {of_theta:.4f}  a {of_a:.4f}  d {np.sqrt(np.mean(errors**2)):.4f}"
