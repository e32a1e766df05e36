"""The moves of LaRT for the blocked kernel.

Answers move as in the 2PL, with two differences: what lengths say of an ability, its speed
integrated out, stands in for its prior, and the speed is then drawn given the ability. Given
speeds, lengths are a normal regression for each item, drawn exactly. Where wrong answers have
lengths of their own, another such regression draws what they add, and all else sees the lengths
with that taken out.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array

from bayesirt.families import Family
from bayesirt.inference.block_steps import (
    chance_for,
    log_concave_move,
    newton_line_move,
)
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.lart_sites import (
    HIERARCHICAL,
    LaRTPrior,
    ability_scaled,
    ability_shifted,
    lengths_of,
    speed_scaled,
    speed_shifted,
)
from bayesirt.inference.two_pl_moves import (
    Line,
    draw_means,
    draw_shift,
    move_items,
    move_spreads,
    move_with_items,
)
from bayesirt.inference.two_pl_passes import Passes
from bayesirt.latencies import Latencies

_LEAST_OF_SUBJECTS = 0.25
"""Least precision, a subject, of what the correlation and the scale of traits propose."""
_LEAST_OF_SPREAD = 0.5
"""That of what a spread proposes with all that it is the spread of, on the log scale."""


def lart_moves(
    latencies: Latencies, family: Family, *, dtype: DTypeLike = jnp.float32
) -> list[Move]:
    """Return the moves of one sweep over LaRT's posterior.

    Parameters
    ----------
    latencies : Latencies
        With the layout of the answers.
    family : Family
    dtype : dtype
        Of what is computed for each answer of a matrix.

    Returns
    -------
    list of callables
        Each (key, position) → (position, statistics).
    """
    prior = LaRTPrior()
    passes = Passes(latencies.layout, family, dtype)
    plain, of_wrong = latencies.wrong is None, (draw_wrong_lengths, move_wrong_spread)
    names = [name for name in HIERARCHICAL if not (plain and name == "delta")]
    return [
        partial(move_answers, prior, passes, latencies),
        *([] if plain else [partial(move, prior, latencies) for move in of_wrong]),
        partial(draw_lengths, prior, latencies),
        partial(move_correlation, prior),
        partial(draw_means, prior, names=names),
        partial(move_spreads, prior, names=names),
        partial(draw_shift, prior, line=ability_shifted),
        partial(draw_shift, prior, line=speed_shifted),
        partial(move_scale_of, prior, "ability", ability_scaled),
        partial(move_scale_of, prior, "speed", speed_scaled),
    ]


def move_answers(
    prior: LaRTPrior, passes: Passes, latencies: Latencies, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Move all subjects, then the answers' part of all items, then its hyperparameters with it.

    Parameters
    ----------
    prior : LaRTPrior
    passes : Passes
    latencies : Latencies
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict of float scalars
        Shares accepted, and the answers' log likelihood.
    """
    keys = jax.random.split(key, 4)
    values = prior.terms(sites).values
    lengths, rho = lengths_of(values), values["rho"]
    evidence = latencies.without_wrong(values.get("delta")).speed_evidence(*lengths)
    chance = chance_for(keys[0], sites["theta"][:, None])
    step = passes.move_subjects(
        chance,
        sites["theta"],
        values["a"],
        values["d"],
        jax.tree_util.Partial(_log_normal),
        evidence.ability(rho),
    )
    mean, variance = evidence.speed(rho, step.theta)
    tau = mean + jnp.sqrt(variance) * jax.random.normal(keys[1], mean.shape, mean.dtype)
    sites = sites | {"theta": step.theta, "tau": tau}
    statistics = {"acceptance_theta": step.accepted.mean(dtype=tau.dtype)}
    sites, sums, statistics["acceptance_items"] = move_items(
        prior, passes, keys[2], sites, step.sums
    )
    sites, sums, statistics["acceptance_interweaving"] = move_with_items(
        prior, passes, keys[3], sites, sums
    )
    return sites, statistics | {"log_likelihood": sums.log_likelihood.sum()}


def draw_lengths(
    prior: LaRTPrior, latencies: Latencies, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Draw (φ, ω) of every item given speeds and λ: Gibbs steps; then move λ given the rest.

    Parameters
    ----------
    prior : LaRTPrior
    latencies : Latencies
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict of float scalars
        The share of λ that was accepted, and the lengths' log likelihood.

    Notes
    -----
    Σφ > 0 is kept by refusing all φ and ω where it would not hold: their conditional is then
    the normal one, cut.
    """
    normal_key, lam_key = jax.random.split(key)
    latencies = latencies.without_wrong(sites.get("delta"))
    moments = latencies.moments(sites["tau"], sites["tau"] ** 2)
    values = prior.terms(sites).values
    on_speed = Regression(moments.n, moments.x, -moments.tau, moments.tau_tau, -moments.tau_x)
    phi, omega = _regression_draw(normal_key, on_speed, "phi", values, latencies.centre)
    upward = phi.sum() > 0
    sites = sites | {
        "phi": jnp.where(upward, phi, sites["phi"]),
        "omega": jnp.where(upward, omega, sites["omega"]),
    }
    squares = moments.residual_squares(sites["phi"], sites["omega"] - latencies.centre)

    def log_density(t: Array) -> Array:
        log_lam = sites["lam"] + t
        of_prior = prior.terms(sites | {"lam": log_lam}).each["lam"]
        return of_prior - (moments.n * log_lam + squares * jnp.exp(-log_lam)) / 2

    by_squares = jnp.log((squares + jnp.exp(sites["mu_lam"])) / (moments.n + 1))
    t, accepted = log_concave_move(lam_key, log_density, by_squares - sites["lam"])
    sites = sites | {"lam": sites["lam"] + t}
    lengths = lengths_of(prior.terms(sites).values)
    return sites, {
        "acceptance_lam": accepted.mean(dtype=t.dtype),
        "length_log_likelihood": latencies.log_likelihood(*lengths, moments).sum(),
    }


def draw_wrong_lengths(
    prior: LaRTPrior, latencies: Latencies, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Draw (δ, ω) of every item given speeds, φ and λ: Gibbs steps.

    Parameters
    ----------
    prior : LaRTPrior
    latencies : Latencies
        With `wrong`.
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict
        Empty.
    """
    sums, values = _on_wrong(latencies, sites), prior.terms(sites).values
    delta, omega = _regression_draw(key, sums, "delta", values, latencies.centre)
    return sites | {"delta": delta, "omega": omega}, {}


def move_wrong_spread(
    prior: LaRTPrior, latencies: Latencies, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Move log σ_δ with all δ; parameters are those of `draw_wrong_lengths`.

    Notes
    -----
    Where the lengths hardly tell one item's δ from another's, σ_δ may be next to nothing, and
    would stay there long if it moved given δ alone.
    """
    sums, values = _on_wrong(latencies, sites), prior.terms(sites).values
    crossed = sums.zx - (sites["omega"] - latencies.centre) * sums.z
    away = sites["delta"] - sites["mu_delta"]

    def moved(t: Array) -> Position:
        delta = sites["mu_delta"] + jnp.exp(t) * away
        return sites | {"sigma_delta": sites["sigma_delta"] + t, "delta": delta}

    def log_density(t: Array) -> Array:
        there = moved(t)
        of_lengths = (crossed - sums.zz * there["delta"] / 2) * there["delta"] / values["lam"]
        return prior.terms(there).total() + of_lengths.sum() + len(away) * t

    t, accepted = newton_line_move(key, log_density, _LEAST_OF_SPREAD)
    return moved(t), {"acceptance_sigma_delta": accepted.astype(t.dtype)}


def move_correlation(prior: LaRTPrior, key: Array, sites: Position) -> tuple[Position, Statistics]:
    """Move ρ given abilities and speeds."""

    def log_density(t: Array) -> Array:
        each = prior.terms(sites | {"rho": sites["rho"] + t}).each
        return each["rho"] + each["tau"].sum()

    least = _LEAST_OF_SUBJECTS * len(sites["theta"]) / 4
    t, accepted = newton_line_move(key, log_density, least)
    return sites | {"rho": sites["rho"] + t}, {"acceptance_rho": accepted.astype(t.dtype)}


def move_scale_of(
    prior: LaRTPrior, trait: str, line: Line, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Move the common spread of a trait, which neither answers nor lengths see."""

    def log_density(t: Array) -> Array:
        moved, log_jacobian = line(prior, sites, t)
        return prior.terms(moved).total() + log_jacobian

    least = _LEAST_OF_SUBJECTS * len(sites["theta"])
    t, accepted = newton_line_move(key, log_density, least)
    return line(prior, sites, t)[0], {f"acceptance_{trait}_scale": accepted.astype(t.dtype)}


class Regression(NamedTuple):
    """Sums of a regression of lengths x on what is seen with them, z, for each item.

    Attributes
    ----------
    n, x, z, zz, zx : float array, shape (item,)
        The number of lengths, Σ x, Σ z, Σ z² and Σ z x.
    """

    n: Array
    x: Array
    z: Array
    zz: Array
    zx: Array


def _on_wrong(latencies: Latencies, sites: Position) -> Regression:
    """Return the sums of lengths at speed zero, regressed on the share of wrong trials."""
    if latencies.wrong is None:
        raise ValueError("these lengths do not know which answers are wrong")
    share, w, ww, wx = latencies.wrong
    tau, phi, over = sites["tau"], sites["phi"], latencies.layout.over_subjects
    x, zx = latencies.total + phi * over(latencies.seen, tau), wx + phi * over(share, tau)
    return Regression(latencies.n, x, w, ww, zx)


def _regression_draw(
    key: Array, sums: Regression, slope: str, values: Position, centre: Array
) -> tuple[Array, Array]:
    """Draw a slope and ω from a normal regression with normal priors; x counts from `centre`."""
    slope_precision, level_precision = values[f"sigma_{slope}"] ** -2, values["sigma_omega"] ** -2
    ss = sums.zz / values["lam"] + slope_precision
    ll = sums.n / values["lam"] + level_precision
    sl = sums.z / values["lam"]
    of_slope = sums.zx / values["lam"] + slope_precision * values[f"mu_{slope}"]
    of_level = sums.x / values["lam"] + level_precision * (values["mu_omega"] - centre)
    given = ss - sl**2 / ll
    noise = jax.random.normal(key, (2, *ss.shape), ss.dtype)
    drawn = (of_slope - sl * of_level / ll) / given + noise[0] / jnp.sqrt(given)
    level = (of_level - sl * drawn) / ll + noise[1] / jnp.sqrt(ll)
    return drawn, centre + level


def _log_normal(theta: Array, mean: Array, variance: Array) -> Array:
    """Return log N(θ; mean, variance) up to a constant; rows that fill up a block have none."""
    return -((theta - mean) ** 2) / (2 * jnp.where(variance > 0, variance, 1))
