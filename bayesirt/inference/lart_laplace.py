"""Laplace approximation of LaRT: normal for the answers, exact for the lengths.

Given the length parameters of the items and the correlation of ability and speed, a subject's
lengths give its ability a normal prior. With this prior, abilities and items have the 2PL's joint
Laplace approximation. All other parameters are drawn by moves of the exact engine that do not
depend on the answers, started at each draw and repeated a few times.
"""

import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.estimators.joint.density import AbilityPrior
from bayesirt.estimators.joint.information import joint_problem
from bayesirt.estimators.joint.mode import Mode
from bayesirt.estimators.registry import fit_point
from bayesirt.inference.blocked import Move, Position, moved_by
from bayesirt.inference.laplace import (
    Samples,
    Search,
    draw_sites,
    how_found,
    in_chains,
    mode_found,
    warn_where_rough,
)
from bayesirt.inference.lart_moves import WithLengths, draw_lengths, move_correlation
from bayesirt.inference.moves import population_moves
from bayesirt.inference.options import RunOptions
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.latencies import Latencies
from bayesirt.models import LaRT
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.progress import in_words

ROUNDS = 4
"""Repetitions of the moves for each draw."""

_OF_POPULATIONS = 3
"""Repetitions, in each round, of the moves that need no pass over the lengths: ρ and the scales of
abilities and speeds are strongly correlated, and cheap to move."""

_NUMBERS = 64
"""Random numbers drawn at a time for these moves, which need few."""

_HELD = ("sigma_a", "sigma_d")

_COMPILED = 2
"""Number of the batch that is timed for the forecast; earlier ones include compilation."""

_LEAST_SHARE = 0.01
"""Least share of the variance of item estimates that is attributed to true differences."""

_MOST_NUMBERS = 1 << 20
"""Maximum count of numbers held in memory for a batch of draws."""


def sample_lart_laplace(
    responses: Responses,
    *,
    key: Array,
    model: LaRT | None = None,
    init: PointEstimate | None = None,
    options: RunOptions | None = None,
) -> Posterior:
    """Draw from an approximation of LaRT's posterior: Laplace for the answers, exact otherwise.

    θ_i | lengths ~ N(m_i, v_i) at the point estimate of (φ, ω, λ, ρ). Draws of (θ, a, d) are from
    the joint Laplace approximation under these priors. The subsequent moves leave the exact
    posterior invariant: τ given θ and lengths, (φ, ω) and λ given τ, ρ given θ and τ, all μ and σ,
    and the lines along which neither answers nor lengths change, which shift and scale θ, a and d.
    So only the relative positions of abilities and items are approximated, and each repetition
    brings the draws closer to the posterior. The dependence of these relative positions on the
    uncertainty in (φ, ω, λ, ρ) is neglected; it is small compared with the uncertainty from a
    single subject's answers. The spread of slopes is fixed at its mode: intervals of slopes are
    then 6% too wide with 60 x 60 responses, and 2% with 120 x 120.

    Xu et al. (2026) for the model; Tierney & Kadane 1986.
    """
    model, options, search = model or LaRT(), options or RunOptions(), Search()
    way = WithLengths(model)
    latencies, init = way.data(responses), init or fit_point(responses, model=model)
    before = abilities_from_lengths(latencies, init)
    began = time.perf_counter()
    problem = joint_problem(responses.cells, model, before=before, dtype=search.dtype)
    mode = mode_found(problem, init, leans=True, options=options, search=search)
    warn_where_rough(responses, mode)
    answers_key, lengths_key = jax.random.split(key)
    n_draws = options.num_chains * options.num_samples
    answers = draw_sites(problem, mode, model, answers_key, n_draws)
    answers["theta"] += mode.lean
    answers["d"] -= answers["a"] * mode.lean
    start = _start(way, init, latencies, mode)
    samples = draw_with_lengths(way, latencies, answers, start, lengths_key, options.announce)
    attributes = {
        "centre": search.centre,
        "rounds": ROUNDS,
        **how_found(responses, problem, mode),
        "lengths": "for abilities and items at their point estimate, then drawn",
        "sampling_seconds": time.perf_counter() - began,
    }
    return way.posterior(in_chains(samples, options), {}, responses, init, attributes)


def abilities_from_lengths(latencies: Latencies, point: PointEstimate) -> AbilityPrior:
    """Return the prior of abilities given lengths, at the point estimate of length parameters."""
    phi, omega, lam, rho = (jnp.asarray(point[name]) for name in ("phi", "omega", "lam", "rho"))
    mean, variance = latencies.speed_evidence(phi, omega, lam).ability(rho)
    return AbilityPrior(mean, 1 / variance)


def draw_with_lengths(
    way: WithLengths,
    latencies: Latencies,
    answers: Samples,
    start: Position,
    key: Array,
    announce: Callable[[str], None] | None,
) -> Samples:
    """Draw length and population parameters for each draw of abilities and items."""
    drawn = {name: answers[name] for name in ("theta", "a", "d", "mu_a", "mu_d")}
    shared = {name: value for name, value in start.items() if name not in drawn}
    n_draws = len(drawn["theta"])
    keys = jax.random.split(key, n_draws)
    batches = -(-n_draws // _draws_at_a_time(latencies))
    size = -(-n_draws // batches)
    parts = []
    for first in range(0, n_draws, size):
        began = time.perf_counter()
        at = np.minimum(np.arange(first, first + size), n_draws - 1)
        batch = {name: jnp.asarray(values[at]) for name, values in drawn.items()}
        batch_draws = _settled(way, latencies, shared, batch, keys[at])
        parts.append({k: np.asarray(x)[: n_draws - first] for k, x in batch_draws.items()})
        if announce is not None and len(parts) == _COMPILED and batches > _COMPILED:
            seconds = (time.perf_counter() - began) * (batches - _COMPILED)
            announce(f"lengths: about {in_words(seconds)} left")
    names = [name for name in parts[0] if name not in _HELD]
    return {name: np.concatenate([part.pop(name) for part in parts]) for name in names}


@partial(jax.jit, static_argnums=0)
def _settled(
    way: WithLengths, latencies: Latencies, shared: Position, drawn: Position, keys: Array
) -> Position:
    """Repeat the moves that do not depend on the answers from each draw, and return the values."""
    of_populations: list[Move] = [partial(move_correlation, way), *population_moves(way)]

    def one(position: Position, key: Array) -> Position:
        def again(round_: Array, sites: Position) -> Position:
            lengths_key, key_ = jax.random.split(jax.random.fold_in(key, round_))

            def settle(time_: Array, sites: Position) -> Position:
                numbers = RandomNumbers(jax.random.fold_in(key_, time_), _NUMBERS)
                return moved_by(of_populations, numbers, sites)[0]

            numbers = RandomNumbers(lengths_key)
            sites = way.after_subjects(numbers, sites, latencies)
            sites, _ = draw_lengths(way, latencies, numbers, sites)
            return jax.lax.fori_loop(0, _OF_POPULATIONS, settle, sites)

        sites = jax.tree.map(lambda x: x.astype(latencies.x.dtype), shared | position)
        return way.terms(jax.lax.fori_loop(0, ROUNDS, again, sites)).values

    return jax.vmap(one)(drawn, keys)


def _draws_at_a_time(latencies: Latencies) -> int:
    """Return the batch size; with a dense matrix, sums need no memory per cell."""
    cells = 0 if isinstance(latencies.layout, DenseLayout) else latencies.x.size
    return max(1, _MOST_NUMBERS // (sum(latencies.layout.shape) + cells))


def _start(way: WithLengths, point: PointEstimate, latencies: Latencies, mode: Mode) -> Position:
    """Return the start of the moves: the point estimate, with spreads corrected for its errors."""
    centre, _ = way.start(point, latencies)
    sites = {name: jnp.asarray(value, float) for name, value in centre.items()}
    errors = {"phi": point["phi_se"], "omega": point["omega_se"]}
    errors["lam"] = point["lam_se"] / point["lam"]
    for name, error in errors.items():
        seen, noise = sites[name].var(), jnp.mean(jnp.asarray(error) ** 2)
        sites[f"sigma_{name}"] = jnp.log(jnp.maximum(seen - noise, _LEAST_SHARE * seen)) / 2
    sites["sigma_a"], sites["sigma_d"] = jnp.log(mode.spread)
    return sites
