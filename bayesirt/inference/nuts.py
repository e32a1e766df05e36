"""The No-U-Turn sampler, started from a point estimate: a cross-check that uses densities only."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
from jax import Array
from jax.sharding import Mesh
from numpyro.infer.hmc import HMCState, hmc

from bayesirt.data.responses import Responses
from bayesirt.estimators.registry import fit_point
from bayesirt.inference.chains import Length, in_threads, run_chains
from bayesirt.inference.options import RunOptions, watched
from bayesirt.inference.row_shards import put_everywhere
from bayesirt.inference.two_way import TwoWay
from bayesirt.inference.ways import way_of
from bayesirt.models import ResponseModel, TwoPL
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.progress import in_words, least_seconds, rounds_of_chains

_STEPS_A_DRAW = 31
_WARMUP_COST = 1.5


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Target:
    """A posterior density in coordinates in which it is roughly standard normal."""

    data: Any  # As returned by `TwoWay.data`.
    # Has `size`, and `at`: (flat coordinates, model) → sites and log Jacobian.
    coordinates: Any
    way: TwoWay = field(metadata={"static": True})

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.coordinates.size

    def potential(self, flat: Array) -> Array:
        """Return the negative log density at flat coordinates, up to a constant."""
        sites, log_jacobian = self.coordinates.at(flat, self.way)
        terms = self.way.terms(sites)
        seen = self.way.log_likelihood(terms.values, self.data)
        return -(terms.total() + seen + log_jacobian)

    def to_draw(self, flat: Array) -> dict[str, Array]:
        """Return the model's sites and deterministics at flat coordinates."""
        return self.way.terms(self.coordinates.at(flat, self.way)[0]).values


@dataclass(frozen=True)
class NutsKernel:
    """NumPyro's No-U-Turn sampler as a `bayesirt.inference.chains.Kernel`."""

    num_warmup: int  # Steps in which step size and metric adapt.
    target_accept: float

    def init(self, key: Array, start: Array, data: Target) -> HMCState:
        """Return the initial state."""
        return self._functions(key, start, data)[0]

    def advance(self, state: HMCState, data: Target) -> HMCState:
        """Return the next state."""
        _, step = self._functions(state.rng_key, state.z, data)
        return step(state, (data,))

    def collect(self, state: HMCState) -> dict[str, Array]:
        """Return the flat coordinates and the sampler's statistics."""
        return {
            "flat": state.z,
            "diverging": state.diverging,
            "energy": state.energy,
            "n_steps": state.num_steps,
            "acceptance_rate": state.accept_prob,
            "step_size": state.adapt_state.step_size,
        }

    def _functions(
        self, key: Array, start: Array, data: Target
    ) -> tuple[HMCState, Callable[..., HMCState]]:
        """Return a first state and the step function, which NumPyro defines with the state."""
        first, step = hmc(potential_fn_gen=lambda target: target.potential, algo="NUTS")
        state = first(
            start,
            self.num_warmup,
            target_accept_prob=self.target_accept,
            model_args=(data,),
            rng_key=key,
        )
        return state, step


def sample_nuts(
    responses: Responses,
    *,
    key: Array,
    model: ResponseModel | None = None,
    init: PointEstimate | None = None,
    options: RunOptions | None = None,
) -> Posterior:
    """Draw from a model's posterior with NUTS: a cross-check on small data.

    Chains start around the point estimate, overdispersed by its standard errors, in coordinates
    scaled by its information.
    """
    model, options = model or TwoPL(), options or RunOptions()
    init = init or fit_point(responses, model=model)
    target = posterior_target(responses, init, model, options.mesh)
    start_key, run_key = jax.random.split(key)
    starts = jax.random.normal(start_key, (options.num_chains, target.size))
    with watched(responses, model, "nuts", init, key, options) as seen:
        if seen.announce is not None:
            draws = options.num_samples + _WARMUP_COST * options.num_warmup
            seen.announce(_forecast(target, starts, draws, options.mesh))
        began = time.perf_counter()
        chains = run_chains(
            NutsKernel(options.num_warmup, options.target_accept),
            target,
            starts,
            key=run_key,
            length=Length(options.num_warmup, options.num_samples),
            watch=seen,
            mesh=options.mesh,
        )
    statistics = dict(chains.samples)
    flat = put_everywhere(statistics.pop("flat"), options.mesh)
    samples = jax.device_get(_to_draws(target, flat))
    attributes = {
        "engine": "nuts",
        "complete": int(chains.complete),
        "num_warmup": options.num_warmup,
        "target_accept": options.target_accept,
        "sampling_seconds": time.perf_counter() - began,
    }
    if chains.complete and seen.checkpoint is not None:
        seen.checkpoint.remove()
    return target.way.posterior(samples, statistics, responses, init, attributes)


def posterior_target(
    responses: Responses,
    point: PointEstimate,
    model: ResponseModel | None = None,
    mesh: Mesh | None = None,
) -> Target:
    """Return a model's posterior in coordinates around a point estimate.

    The origin is the point estimate; one unit is about one standard deviation.
    """
    way = way_of(model or TwoPL(), responses)
    data = way.data(responses, mesh)
    coordinates = way.coordinates(point, data)
    return Target(data, put_everywhere(coordinates, mesh), way)


@jax.jit
def _to_draws(target: Target, flat: Array) -> dict[str, Array]:
    return jax.vmap(jax.vmap(target.to_draw))(flat)


def _forecast(target: Target, starts: Array, draws: float, mesh: Mesh | None) -> str:
    gradient = jax.jit(jax.value_and_grad(lambda flat, target: target.potential(flat)))
    seconds = least_seconds(lambda: jax.block_until_ready(gradient(starts[0], target)))
    rounds = rounds_of_chains(len(starts), in_threads=in_threads(mesh))
    return f"about {in_words(seconds * _STEPS_A_DRAW * draws * rounds)}"
