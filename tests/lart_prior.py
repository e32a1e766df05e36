"""LaRT's sites and prior, written independently with SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import halfnorm, lognorm, norm

from bayesirt.data.responses import Responses

Sites = dict[str, np.ndarray]

OF_MU = {"a": 0.5, "d": 2, "phi": 0.5, "omega": 10, "lam": 2, "delta": 0.5}
OF_SIGMA = {"a": 0.5, "d": 2, "phi": 0.5, "omega": 2, "lam": 1, "delta": 0.5}
OF_LEAN = 2
LEANS = {"d": ("mu_b", "a", -1), "omega": ("mu_tau", "phi", 1)}
"""For each item parameter whose mean depends on slopes: hyperparameter, slopes, and sign."""
WITHOUT_WRONG = tuple(name for name in OF_MU if name != "delta")


def log_lengths(responses: Responses) -> np.ndarray:
    """Return the log lengths as a matrix, NaN where missing."""
    matrix = np.full(responses.cells.shape, np.nan)
    listed = responses.cells.listed()
    matrix[listed.subject, listed.item] = np.log(responses.latency)
    return matrix


def some_sites(
    seed: int, shape: tuple[int, int], of_items: tuple[str, ...] = WITHOUT_WRONG
) -> Sites:
    """Return constrained values of all sites, with a negative slope among them."""
    rng = np.random.default_rng(seed)
    n, j = shape
    sites = {"rho": np.array(-0.4), "theta": rng.normal(size=n), "tau": rng.normal(size=n)}
    for name in of_items:
        sites |= {f"mu_{name}": rng.normal(), f"sigma_{name}": np.exp(rng.normal())}
        sites[name] = rng.normal(size=j)
    sites |= {"mu_b": rng.normal(), "mu_tau": rng.normal()}
    for name in ("a", "phi"):
        sites[name] = np.append(-0.5, 1 + np.abs(sites[name][1:]))
    sites["lam"] = np.exp(sites["lam"])
    return sites


def unconstrained(sites: Sites) -> dict[str, jax.Array]:
    """Return the unconstrained sites, as NumPyro moves them."""
    free = dict(sites)
    free["rho"] = np.log((1 + sites["rho"]) / (1 - sites["rho"]))
    for name in sites:
        if name.startswith("sigma_") or name == "lam":
            free[name] = np.log(sites[name])
    return jax.tree.map(jnp.asarray, free)


def log_prior(s: Sites) -> float:
    """Return the log prior density."""
    total = -np.log(2) + norm.logpdf(s["theta"]).sum()
    total += norm.logpdf(s["tau"], s["rho"] * s["theta"], np.sqrt(1 - s["rho"] ** 2)).sum()
    total += norm.logpdf([s["mu_b"], s["mu_tau"]], 0, OF_LEAN).sum()
    for name in (name for name in OF_MU if name in s):
        mu, sigma = s[f"mu_{name}"], s[f"sigma_{name}"]
        total += norm.logpdf(mu, 0, OF_MU[name]) + halfnorm.logpdf(sigma, scale=OF_SIGMA[name])
        if name == "lam":
            total += lognorm.logpdf(s["lam"], sigma, scale=np.exp(mu)).sum()
        else:
            total += norm.logpdf(s[name], mean_of(name, s), sigma).sum()
    return float(total)


def mean_of(name: str, s: Sites) -> np.ndarray:
    """Return the prior mean of an item parameter, which may depend on the items' slopes."""
    if name not in LEANS:
        return np.asarray(s[f"mu_{name}"])
    lean, slopes, sign = LEANS[name]
    return s[f"mu_{name}"] + sign * s[lean] * s[slopes]


def log_jacobian(s: Sites) -> float:
    """Return the log Jacobian of the map from unconstrained to constrained sites."""
    of_spreads = sum(np.log(v) for name, v in s.items() if name.startswith("sigma_"))
    return float(np.log((1 - s["rho"] ** 2) / 2) + np.log(s["lam"]).sum() + of_spreads)
