"""Simulated responses with lengths, as in Xu et al. (2026), section 5."""

from dataclasses import replace

import numpy as np

from bayesirt.data.responses import Responses

Truth = dict[str, np.ndarray]


def simulate_lart(
    n_subjects: int, n_items: int, seed: int = 0, rho: float = -0.8, delta: float = 0
) -> tuple[Responses, Truth]:
    """Return complete binary responses with lengths, and the parameters behind them.

    Wrong answers are longer by about `delta` in logs, more for some items and less for others.
    """
    rng = np.random.default_rng(seed)
    traits = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], n_subjects)
    truth = {
        "theta": traits[:, 0],
        "tau": traits[:, 1],
        "a": rng.uniform(0.5, 1, n_items),
        "d": rng.normal(0, np.sqrt(0.5), n_items),
        "phi": rng.uniform(0.5, 1.5, n_items),
        "omega": rng.normal(size=n_items),
        "lam": rng.uniform(0.5, 2, n_items),
        "rho": np.array(rho),
    }
    noise, residual = rng.normal(size=(2, n_subjects, n_items))
    answers = truth["theta"][:, None] * truth["a"] + truth["d"] + noise > 0
    x = truth["omega"] - truth["tau"][:, None] * truth["phi"] + residual * np.sqrt(truth["lam"])
    if delta:
        truth["delta"] = delta * np.linspace(0.5, 1.5, n_items)
        x += truth["delta"] * ~answers
    return with_lengths(Responses.from_arrays(answers.astype(int)), x), truth


def with_lengths(responses: Responses, log_latency: np.ndarray) -> Responses:
    """Return responses with lengths from a matrix of log lengths, NaN where missing."""
    listed = responses.cells.listed()
    return replace(responses, latency=np.exp(log_latency[listed.subject, listed.item]))


def some_missing(n_subjects: int, n_items: int, seed: int = 5) -> Responses:
    """Return counts with missing cells, and lengths with further missing values."""
    rng = np.random.default_rng(seed)
    trials = rng.integers(1, 4, (n_subjects, n_items))
    trials *= rng.uniform(size=trials.shape) < 0.8
    trials[0], trials[:, 0] = 2, 1
    x = 5 + rng.normal(size=trials.shape) - rng.normal(size=(n_subjects, 1))
    x[rng.uniform(size=x.shape) < 0.2] = np.nan
    return with_lengths(Responses.from_arrays(rng.binomial(trials, 0.6), trials), x)
