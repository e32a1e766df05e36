"""The No-U-Turn sampler, started from a point estimate."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from numpyro.infer.hmc import HMCState, hmc
from numpyro.infer.util import constrain_fn, potential_energy

from bayesirt.estimators.choice import fit_point
from bayesirt.inference.chains import Progress, run_chains
from bayesirt.inference.checkpoint import Checkpoint, Samples
from bayesirt.inference.row_shards import RowShards, place_rows, put_everywhere
from bayesirt.likelihood import Layout, log_likelihood_of
from bayesirt.models import TWO_PL, Priors, ResponseModel
from bayesirt.models.coordinates import TwoPLCoordinates, two_pl_coordinates
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.progress import in_words, least_seconds, rounds_of_chains
from bayesirt.responses import Responses

_STEPS_A_DRAW = 31
_WARMUP_COST = 1.5


class Target(Protocol):
    """A posterior as a sampler sees it: a density on coordinates near which it is standard."""

    @property
    def size(self) -> int:
        """Number of coordinates."""
        ...

    def potential(self, flat: Array) -> Array:
        """Return the negative log density at flat coordinates, up to a constant."""
        ...

    def to_draw(self, flat: Array) -> dict[str, Array]:
        """Return the model's sites and deterministics at flat coordinates."""
        ...


class Drawn(NamedTuple):
    """What NUTS brought.

    Attributes
    ----------
    samples : dict of float arrays, shape (chain, draw, ...)
        The model's sites and deterministics.
    statistics : dict of arrays, shape (chain, draw)
        Under ArviZ's names.
    complete : bool
        False if it was interrupted.
    seconds : float
    """

    samples: Samples
    statistics: Samples
    complete: bool
    seconds: float


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class TwoPLTarget:
    """A model's posterior as a sampler sees it: a density on whitened coordinates.

    Attributes
    ----------
    layout : Layout or RowShards
        The responses.
    coordinates : TwoPLCoordinates
    model : ResponseModel
    """

    layout: Layout | RowShards
    coordinates: TwoPLCoordinates
    model: ResponseModel = field(default=TWO_PL, metadata={"static": True})

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return sum(np.size(x) for x in self.coordinates.start.values())

    def potential(self, flat: Array) -> Array:
        """Return the negative log density at flat coordinates, up to a constant."""
        sites, log_jacobian = self.coordinates.to_sites(self._unflatten(flat))
        log_likelihood = log_likelihood_of(self.layout, self.model.family)

        def model() -> None:
            numpyro.factor("log_likelihood", log_likelihood(*self._prior_model()))

        return potential_energy(model, (), {}, sites) - log_jacobian

    def to_draw(self, flat: Array) -> dict[str, Array]:
        """Return the model's sites and deterministics at flat coordinates."""
        sites, _ = self.coordinates.to_sites(self._unflatten(flat))
        draw = constrain_fn(self._prior_model, (), {}, sites, return_deterministic=True)
        return {name: draw[name] for name in draw if name != "orientation"}

    def _prior_model(self) -> Any:
        coordinates = self.coordinates
        sizes = len(coordinates.theta_se), len(coordinates.centre)
        return self.model.parameters(*sizes, coordinates.priors)

    def _unflatten(self, flat: Array) -> dict[str, Array]:
        centre, unravel = ravel_pytree(jax.tree.map(jnp.asarray, dict(self.coordinates.start)))
        width, _ = ravel_pytree(jax.tree.map(jnp.asarray, dict(self.coordinates.scale)))
        return unravel(centre + width * flat)


@dataclass(frozen=True)
class NutsKernel:
    """NumPyro's No-U-Turn sampler as a `bayesirt.inference.chains.Kernel`.

    Attributes
    ----------
    num_warmup : int
        Steps in which step size and metric adapt.
    target_accept : float
    """

    num_warmup: int
    target_accept: float

    def init(self, key: Array, start: Array, data: Target) -> HMCState:
        """Return the state at a start."""
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
        """Return a first state and the step, which is defined only once there is a first state."""
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
    init: PointEstimate | None = None,
    priors: Priors | None = None,
    model: ResponseModel = TWO_PL,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    target_accept: float = 0.95,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
    mesh: Mesh | None = None,
) -> Posterior:
    """Draw from the posterior of a model of one ability with NUTS.

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
    model : ResponseModel
    num_chains, num_warmup, num_samples : int
        Warm-up and kept draws of each chain.
    target_accept : float
        Higher means smaller steps.
    progress : callable, optional
        Told steps done and steps in all.
    announce : callable, optional
        Told, before sampling starts, about how long it will take.
    checkpoint : Checkpoint, optional
        Where to save the chains, and to go on from.
    mesh : Mesh, optional
        Devices that share the responses out, row by row; see `run_chains`.

    Returns
    -------
    Posterior
        After Ctrl-C with the draws so far; its attribute ``complete`` is then 0.

    Raises
    ------
    ResponseError
        If the checkpoint is damaged or belongs to another run.

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> key = jax.random.key(0)
    >>> sample_nuts(responses, key=key, num_warmup=50, num_samples=20).theta.shape
    (80, 6)
    """
    priors = priors or Priors()
    init = fit_point(responses) if init is None else init
    drawn = run_nuts(
        posterior_target(responses, init, priors, mesh, model),
        key=key,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        target_accept=target_accept,
        progress=progress,
        announce=announce,
        checkpoint=checkpoint,
        mesh=mesh,
    )
    return Posterior.from_samples(
        drawn.samples,
        drawn.statistics,
        responses,
        {
            "model": model.title,
            "link": model.family.name,
            "engine": "nuts",
            "complete": int(drawn.complete),
            "priors": priors.describe(),
            "num_warmup": num_warmup,
            "target_accept": target_accept,
            "sampling_seconds": drawn.seconds,
        },
    )


def run_nuts(
    target: Target,
    *,
    key: Array,
    num_chains: int,
    num_warmup: int,
    num_samples: int,
    target_accept: float,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
    mesh: Mesh | None = None,
) -> Drawn:
    """Run chains of NUTS, each from a place of its own about the origin of the coordinates.

    Parameters
    ----------
    target : Target
        A pytree, so that other data of the same shape need no new compilation.
    key : jax.random.key
    num_chains, num_warmup, num_samples, target_accept, progress, announce, checkpoint, mesh
        As `sample_nuts` describes them.

    Returns
    -------
    Drawn

    Raises
    ------
    ResponseError
        If the checkpoint is damaged or belongs to another run.
    """
    start_key, run_key = jax.random.split(key)
    starts = jax.random.normal(start_key, (num_chains, target.size))
    if announce is not None:
        draws = num_samples + _WARMUP_COST * num_warmup
        announce(_forecast(target, starts, draws))
    began = time.perf_counter()
    chains = run_chains(
        NutsKernel(num_warmup, target_accept),
        target,
        starts,
        key=run_key,
        num_warmup=num_warmup,
        num_samples=num_samples,
        progress=progress,
        checkpoint=checkpoint,
        mesh=mesh,
    )
    statistics = dict(chains.samples)
    samples = jax.device_get(_to_draws(target, put_everywhere(statistics.pop("flat"), mesh)))
    return Drawn(samples, statistics, chains.complete, time.perf_counter() - began)


def posterior_target(
    responses: Responses,
    point: PointEstimate,
    priors: Priors,
    mesh: Mesh | None = None,
    model: ResponseModel = TWO_PL,
) -> TwoPLTarget:
    """Return a model's posterior over whitened coordinates around a point estimate.

    Parameters
    ----------
    responses : Responses
    point : PointEstimate
    priors : Priors
    mesh : Mesh, optional
        Devices that share the responses out.
    model : ResponseModel

    Returns
    -------
    TwoPLTarget
        Its potential at 0 is the point estimate's; one unit is about one standard deviation.
    """
    coordinates = two_pl_coordinates(point, priors, responses, model.learned(priors))
    return TwoPLTarget(place_rows(responses, mesh), put_everywhere(coordinates, mesh), model)


@jax.jit
def _to_draws(target: Target, flat: Array) -> dict[str, Array]:
    return jax.vmap(jax.vmap(target.to_draw))(flat)


def _forecast(target: Target, starts: Array, draws: float) -> str:
    gradient = jax.jit(jax.value_and_grad(lambda flat, target: target.potential(flat)))
    seconds = least_seconds(lambda: jax.block_until_ready(gradient(starts[0], target)))
    rounds = rounds_of_chains(len(starts), jax.local_device_count())
    return f"about {in_words(seconds * _STEPS_A_DRAW * draws * rounds)}"
