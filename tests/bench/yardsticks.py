"""Baselines that minimise the same penalised loss from the same start with NumPy and SciPy."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from bayesirt.estimators.weak_prior import WeakPrior

Start = tuple[np.ndarray, np.ndarray, np.ndarray]


def logits_start(y: np.ndarray) -> Start:
    def logit(axis: int) -> np.ndarray:
        right, n = y.sum(axis), y.shape[axis]
        return np.log((right + 0.5) / (n - right + 0.5))

    theta = logit(1)
    return (theta - theta.mean()) / theta.std(), np.ones(y.shape[1]), logit(0)


def algorithm_1(y: np.ndarray, start: Start, prior: WeakPrior, iterations: int) -> list[float]:
    """Run Algorithm 1 of Qu et al. (2026) without temporaries, with one exponential per cell."""
    signs = 2.0 * y - 1
    u, a, d = start
    work, g = np.empty_like(signs), np.empty_like(signs)

    def one_pass() -> float:
        np.multiply(u[:, None], a, out=work)
        np.add(work, d, out=work)
        np.multiply(work, signs, out=work)
        np.negative(work, out=work)
        np.minimum(work, 500, out=work)
        np.exp(work, out=g)
        loss = np.log1p(g).sum()
        np.add(g, 1, out=work)
        np.divide(g, work, out=g)
        np.multiply(g, signs, out=g)
        penalty = prior.theta_precision * u @ u + prior.a_precision * a @ a
        return float(loss + 0.5 * (penalty + prior.d_precision * d @ d))

    trace = [one_pass()]
    n, _j = y.shape
    for _ in range(iterations):
        uu, old_a, old_d = u @ u, a, d
        a = np.maximum((a * uu + 4 * (u @ g)) / (uu + 4 * prior.a_precision), 0)
        d = (n * d + (old_a - a) * u.sum() + 4 * g.sum(0)) / (n + 4 * prior.d_precision)
        u = (u * (a @ old_a) + a @ (old_d - d) + 4 * (g @ a)) / (a @ a + 4 * prior.theta_precision)
        trace.append(one_pass())
    return trace


def lbfgsb(y: np.ndarray, start: Start, prior: WeakPrior, iterations: int) -> list[float]:
    """Run SciPy's L-BFGS-B with the analytic gradient."""
    n, j = y.shape
    weights = np.repeat([prior.theta_precision, prior.a_precision, prior.d_precision], [n, j, j])

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        u, a, d = np.split(x, [n, n + j])
        eta = np.outer(u, a) + d
        value = np.logaddexp(0, eta).sum() - (y * eta).sum()
        s = expit(eta) - y
        gradient = np.concatenate([s @ a, u @ s, s.sum(0)])
        return value + 0.5 * weights @ x**2, gradient + weights * x

    trace: list[float] = []
    minimize(
        loss,
        np.concatenate(start),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * n + [(0, None)] * j + [(None, None)] * j,
        callback=lambda intermediate_result: trace.append(float(intermediate_result.fun)),
        options={"maxiter": iterations, "maxfun": 10**6, "ftol": 0, "gtol": 0},
    )
    return trace


Solver = Callable[[int], list[float]]
