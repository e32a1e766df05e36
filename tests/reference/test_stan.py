"""bayesirt's likelihood and blocked moves with the priors of Stan's example 2PL, against Stan."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats
from numpyro import deterministic, plate, sample
from numpyro.distributions import HalfCauchy, LogNormal, Normal
from numpyro.infer import MCMC

from bayesirt.data.responses import Responses
from bayesirt.inference.blocked import BlockedNewton
from bayesirt.inference.moves import moves_of
from bayesirt.inference.ways import way_of
from bayesirt.likelihood.cell_sums import layout_of
from bayesirt.models import Line, ResponseModel
from bayesirt.models.two_pl import right_answers

STAN = json.loads((Path(__file__).parent / "stan_irt_2pl.json").read_text())
Y = np.array([list(map(int, row)) for row in STAN["responses"]]).T
LAYOUT = layout_of(Responses.from_arrays(Y))
AXES = {"chain_axis": 0, "draw_axis": 1}


def stan_parameters() -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draw (θ, a, d) from the priors of Stan's model, in its centred parametrisation."""
    sigma_theta, sigma_a = sample("sigma_theta", HalfCauchy(2)), sample("sigma_a", HalfCauchy(2))
    mu_b, sigma_b = sample("mu_b", Normal(0, 5)), sample("sigma_b", HalfCauchy(2))
    with plate("subject", Y.shape[0]):
        theta = sample("theta", Normal(0, sigma_theta))
    with plate("item", Y.shape[1]):
        a = sample("a", LogNormal(0, sigma_a))
        b = sample("b", Normal(mu_b, sigma_b))
    return theta, a, deterministic("d", -a * b)


def level(values: Mapping[str, jax.Array], t: jax.Array) -> dict[str, jax.Array]:
    """Return abilities and difficulties raised by t, which leaves η = a (θ - b) unchanged."""
    return {name: values[name] + t for name in ("theta", "b", "mu_b")}


def unit(values: Mapping[str, jax.Array], t: jax.Array) -> dict[str, jax.Array]:
    """Return abilities, difficulties and their spreads in another unit."""
    grown = ("theta", "sigma_theta", "b", "mu_b", "sigma_b")
    return {name: jnp.exp(t) * values[name] for name in grown} | {"a": jnp.exp(-t) * values["a"]}


@dataclass(frozen=True)
class StanModel(ResponseModel):
    """Stan's model for bayesirt's engine: its density, and lines along which η is constant."""

    name: ClassVar[str] = "stan"
    title: ClassVar[str] = "2PL of Stan's examples"
    dims: ClassVar[Mapping[str, list[str]]] = {"theta": ["subject"], "a": ["item"], "b": ["item"]}

    def parameters(self, n_subjects, n_items, **_clusters):  # noqa: ARG002
        """Draw from the prior."""
        return stan_parameters()

    def answers(self, drawn, trials, successes):
        """Draw the number of right answers."""
        theta, a, d = drawn
        right_answers("logit", theta[:, None] * a + d, trials, successes)

    @property
    def lines(self):
        """Return the lines that shift the level of abilities and rescale their unit."""
        return Line("level", level, "theta", normal=True), Line("unit", unit, "theta")


def draws_of_blocked() -> dict[str, np.ndarray]:
    """Sample with the blocked kernel and its generic moves in NumPyro's MCMC."""
    moves = moves_of(way_of(StanModel()), LAYOUT)
    hyper = ("sigma_theta", "sigma_a", "mu_b", "sigma_b")
    starts = dict(zip(("theta", "a", "b"), map(jnp.zeros, (len(Y), *2 * Y.shape[1:])), strict=True))
    starts |= dict.fromkeys(hyper, jnp.zeros(()))
    return sampled(BlockedNewton(moves), 1000, 20_000, thinning=4, starts=starts)


def sampled(kernel, warmup, steps, thinning=1, starts=None) -> dict[str, np.ndarray]:
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=steps,
        thinning=thinning,
        num_chains=4,
        chain_method="parallel" if jax.local_device_count() >= 4 else "vectorized",
        progress_bar=False,
    )
    several = starts and {k: jnp.stack([x] * 4) for k, x in starts.items()}
    mcmc.run(jax.random.key(0), init_params=several)
    return {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}


def largest(z: np.ndarray, label: str) -> float:
    print(
        f"{label}: largest |z| {np.abs(z).max():.2f} of {z.size}, rms {np.sqrt((z**2).mean()):.2f}"
    )
    return float(np.abs(z).max())


@pytest.mark.reference
@pytest.mark.statistical
def test_means_and_quantiles_are_stans():
    """90 comparisons at 4 standard errors: correct draws fail with a new key once in 180."""
    draws = draws_of_blocked()
    for name in ("theta", "b"):
        stan = {k: np.array(v) for k, v in STAN[name].items()}
        error = np.hypot(stan["mcse"], array_stats.mcse(draws[name], method="mean", **AXES))
        assert largest((draws[name].mean((0, 1)) - stan["mean"]) / error, name) < 4
    log_a = draws["a"]  # unconstrained
    for q in (0.05, 0.5, 0.95):
        own = array_stats.mcse(log_a, method="quantile", prob=q, **AXES)
        ratio = array_stats.ess(log_a, method="quantile", prob=q, **AXES) / STAN["a"]["ess"]
        error = own * np.sqrt(1 + ratio)
        expected = np.log(STAN["a"]["quantiles"][str(q)])
        z = (np.quantile(log_a, q, axis=(0, 1)) - expected) / error
        assert largest(z, f"{q:.0%} of log a") < 4
