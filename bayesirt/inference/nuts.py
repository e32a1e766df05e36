"""The No-U-Turn sampler, started from a point estimate."""

import os
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from jax.flatten_util import ravel_pytree
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import constrain_fn, potential_energy

from bayesirt.estimators.choice import fit_point
from bayesirt.likelihood import layout_of, log_likelihood_of
from bayesirt.models import Priors, two_pl_parameters
from bayesirt.models.coordinates import two_pl_coordinates
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.responses import Responses

_STEPS_A_DRAW = 15
_WARMUP_COST = 2.0
_FACTORS = ("log_likelihood", "orientation")
_STATISTICS = {
    "diverging": "diverging",
    "energy": "energy",
    "num_steps": "n_steps",
    "accept_prob": "acceptance_rate",
    "adapt_state.step_size": "step_size",
}


class Target(NamedTuple):
    """The posterior as a sampler sees it: a density on whitened coordinates.

    Attributes
    ----------
    potential : callable
        Flat coordinates → negative log density.
    to_draw : callable
        Flat coordinates → the model's sites and deterministics.
    size : int
        Number of coordinates.
    """

    potential: Callable[[Array], Array]
    to_draw: Callable[[Array], dict[str, Array]]
    size: int


def sample_posterior(
    responses: Responses,
    *,
    key: Array,
    init: PointEstimate | None = None,
    priors: Priors | None = None,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    target_accept: float = 0.95,
    progress: bool = False,
    announce: Callable[[str], None] | None = None,
) -> Posterior:
    """Draw from the 2PL's posterior with NUTS.

    Chains start around the point estimate, overdispersed by its standard errors, in the
    coordinates of `bayesirt.models.coordinates`, which its information also scales. They run
    side by side where JAX has a device for each, else vectorised.

    Parameters
    ----------
    responses : Responses
    key : jax.random.key
        The same key gives the same draws on the same machine.
    init : PointEstimate, optional
        By default `fit_point`.
    priors : Priors, optional
    num_chains, num_warmup, num_samples : int
        Warm-up and kept draws of each chain.
    target_accept : float
        Higher means smaller steps.
    progress : bool
        Show NumPyro's progress bar.
    announce : callable, optional
        Told, before sampling starts, about how long it will take.

    Returns
    -------
    Posterior

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> key = jax.random.key(0)
    >>> sample_posterior(responses, key=key, num_warmup=50, num_samples=20).theta.shape
    (80, 6)
    """
    priors = priors or Priors()
    init = fit_point(responses) if init is None else init
    target = posterior_target(responses, init, priors)
    start_key, run_key = jax.random.split(key)
    starts = jax.random.normal(start_key, (num_chains, target.size))
    side_by_side = jax.local_device_count() >= num_chains > 1
    if announce is not None:
        draws = num_samples + _WARMUP_COST * num_warmup
        lanes = min(num_chains, os.cpu_count() or 1) if side_by_side else 1
        announce(_forecast(target, starts[0], draws * num_chains / lanes))
    began = time.perf_counter()
    mcmc = MCMC(
        NUTS(potential_fn=target.potential, target_accept_prob=target_accept),
        num_warmup=num_warmup,
        num_samples=num_samples,
        num_chains=num_chains,
        chain_method="parallel" if side_by_side else "vectorized",
        progress_bar=progress,
    )
    first = starts if num_chains > 1 else starts[0]
    mcmc.run(run_key, init_params=first, extra_fields=tuple(_STATISTICS))
    flat = jax.device_put(mcmc.get_samples(group_by_chain=True), jax.local_devices()[0])
    samples = jax.device_get(jax.jit(jax.vmap(jax.vmap(target.to_draw)))(flat))
    fields = mcmc.get_extra_fields(group_by_chain=True)
    return Posterior.from_samples(
        samples,
        {name: np.asarray(fields[field]) for field, name in _STATISTICS.items()},
        responses,
        {
            "model": "2PL",
            "engine": "nuts",
            "priors": priors.describe(),
            "num_warmup": num_warmup,
            "target_accept": target_accept,
            "sampling_seconds": time.perf_counter() - began,
        },
    )


def posterior_target(responses: Responses, point: PointEstimate, priors: Priors) -> Target:
    """Return the 2PL's posterior over whitened coordinates around a point estimate.

    Parameters
    ----------
    responses : Responses
    point : PointEstimate
    priors : Priors

    Returns
    -------
    Target
        Its potential at 0 is the point estimate's; one unit is about one standard deviation.
    """
    log_likelihood = log_likelihood_of(layout_of(responses))
    coordinates = two_pl_coordinates(point, priors, responses)
    sizes = (responses.n_subjects, responses.n_items, priors)

    def model() -> None:
        numpyro.factor("log_likelihood", log_likelihood(*two_pl_parameters(*sizes)))

    centre, unravel = ravel_pytree(jax.tree.map(jnp.asarray, dict(coordinates.start)))
    width, _ = ravel_pytree(jax.tree.map(jnp.asarray, dict(coordinates.scale)))

    def potential(flat: Array) -> Array:
        sites, log_jacobian = coordinates.to_sites(unravel(centre + width * flat))
        return potential_energy(model, (), {}, sites) - log_jacobian

    def to_draw(flat: Array) -> dict[str, Array]:
        sites, _ = coordinates.to_sites(unravel(centre + width * flat))
        draw = constrain_fn(model, (), {}, sites, return_deterministic=True)
        return {name: draw[name] for name in draw if name not in _FACTORS}

    return Target(potential, to_draw, len(centre))


def _forecast(target: Target, start: Array, draws: float) -> str:
    gradient = jax.jit(jax.value_and_grad(target.potential))
    jax.block_until_ready(gradient(start))
    times = []
    for _ in range(7):
        began = time.perf_counter()
        jax.block_until_ready(gradient(start))
        times.append(time.perf_counter() - began)
    return f"about {_in_words(min(times) * draws * _STEPS_A_DRAW)} and the compilation"


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
