"""Additional moves of LaRT: exact draws of all parameters that concern lengths.

The likelihood of an ability given lengths, with the speed integrated out, is added to its prior;
the speed is then drawn given the ability. Given speeds, each item's lengths follow a normal
regression, whose parameters are drawn exactly. If wrong answers have different lengths, their
effect is drawn by another such regression, and the other moves use lengths without this effect.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.estimators.cluster_shares import draw_clusters_given
from bayesirt.inference.block_steps import log_concave_move, newton_line_move
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.chain_starts import (
    SURE_SIGN,
    Start,
    place_leaning,
    place_population,
    usable,
)
from bayesirt.inference.cluster_moves import share_moved
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.inference.row_shards import put_everywhere, share_cells, share_rows
from bayesirt.inference.subject_moves import Normals
from bayesirt.inference.two_way import TwoWay
from bayesirt.likelihood.cell_sums import layout_of
from bayesirt.likelihood.latencies import (
    Beyond,
    Latencies,
    SpeedEvidence,
    WrongAnswers,
    latencies_of,
)
from bayesirt.models import LaRT
from bayesirt.point_estimate import PointEstimate

_LEAST_OF_SUBJECTS = 0.25
"""Least precision, per subject, of the proposal for the correlation."""
_LEAST_OF_SPREAD = 0.5
"""Least precision of the proposal that moves log σ_δ with all δ."""
_SPREAD_OF_DELTA = 0.5
_SPREAD_OF_SHARED = 0.3
"""Initial width of υ, times the root of the number of subjects in the cluster."""


class WithLengths(TwoWay):
    """LaRT at unconstrained sites; its data are the log lengths with the answers' layout."""

    model: LaRT

    def data(self, responses: Responses, mesh: Mesh | None = None) -> Latencies:
        """Put answers and log lengths on the device, or on the devices of a mesh."""
        wrong = self.model.wrong_lengths
        latencies = latencies_of(responses, layout_of(responses), wrong_lengths=wrong)
        if mesh is None:
            return latencies
        layout = share_rows(responses, mesh)
        return latencies.placed(
            layout, partial(share_cells, responses=responses, mesh=mesh),
            partial(put_everywhere, mesh=mesh),
        )  # fmt: skip

    def layout(self, data: Latencies) -> Any:
        """Return the layout of the answers."""
        return data.layout

    def evidence(self, values: Position, data: Latencies) -> SpeedEvidence:
        """Return the likelihood of each speed given the lengths."""
        return data.without_wrong(values.get("delta")).speed_evidence(*lengths_of(values))

    def beyond(self, values: Position) -> Beyond:
        """Return mean and variance of speeds beyond ρ times the abilities."""
        mean, variance = Beyond.of(values["rho"])
        if self.clusters:
            mean = jnp.sqrt(variance) * values["upsilon"][self.codes]
            variance = variance * (1 - values["icc_tau"])
        return Beyond(mean, variance)

    def beside(self, sites: Position, data: Latencies) -> Normals:
        """Return the likelihood of each ability given the lengths, with speed integrated out."""
        values = self.terms(sites).values
        evidence = self.evidence(values, data)
        pull, precision = evidence.of_ability(values["rho"], self.beyond(values))
        return Normals(pull[:, None], precision[:, None, None])

    def after_subjects(self, numbers: RandomNumbers, sites: Position, data: Latencies) -> Position:
        """Draw all speeds given abilities and lengths: a Gibbs step."""
        values = self.terms(sites).values
        evidence, beyond = self.evidence(values, data), self.beyond(values)
        mean, variance = evidence.speed(values["rho"], sites["theta"], beyond)
        noise = numbers.normal(mean.shape, mean.dtype)
        return sites | {"tau": mean + jnp.sqrt(variance) * noise}

    def log_likelihood(self, values: Position, data: Latencies) -> Float[Array, ""]:
        """Return the log likelihood of answers and lengths."""
        lengths = data.without_wrong(values.get("delta"))
        moments = lengths.moments(values["tau"], values["tau"] ** 2)
        of_lengths = lengths.log_likelihood(*lengths_of(values), moments)
        return super().log_likelihood(values, data) + of_lengths.sum()

    def own_moves(
        self,
        data: Latencies,
        dtype: DTypeLike,  # noqa: ARG002
    ) -> tuple[list[Move], list[Move]]:
        """Return the moves of length parameters and of the correlation."""
        wrong = (draw_wrong_lengths, move_wrong_spread) if self.model.wrong_lengths else ()
        of_lengths = (partial(move, self, data) for move in (*wrong, draw_lengths))
        shared = [partial(draw_shared_speeds, self)] if self.clusters else []
        return [], [*of_lengths, *shared, partial(move_correlation, self)]

    def start(self, point: PointEstimate, data: Latencies) -> Start:
        """Return centre and width of the chains' starts, at unconstrained sites."""
        lam, rho = point["lam"], point["rho"]
        values = {name: point[name] for name in ("theta", "tau", "a", "d", "phi", "omega")}
        errors = {name: usable(point[f"{name}_se"]) for name in values}
        values["lam"], errors["lam"] = np.log(lam), usable(point["lam_se"] / lam)
        if data.wrong is not None:
            values["delta"], errors["delta"], share = _start_of_wrong(point, data, data.wrong)
            values["omega"] = values["omega"] - values["delta"] * share
            errors["omega"] = np.hypot(errors["omega"], errors["delta"] * share)
        for name in ("a", "phi"):
            errors[name] = np.minimum(errors[name], SURE_SIGN * np.abs(values[name].mean()))
        centre = {"rho": np.log((1 + rho) / (1 - rho))}
        width = {"rho": 2 * point["rho_se"] / (1 - rho**2)}
        for name in ("theta", "tau"):
            centre[name], width[name] = values.pop(name), errors.pop(name)
        if self.clusters:
            n = np.bincount(self.codes)
            residual = (centre["tau"] - rho * centre["theta"]) / np.sqrt(1 - rho**2)
            centre |= {"upsilon": np.bincount(self.codes, residual) / n, "icc_tau": np.array(0.0)}
            width |= {"upsilon": _SPREAD_OF_SHARED / np.sqrt(n), "icc_tau": np.array(1.0)}
        lean = {"d": ("mu_b", values["a"]), "omega": ("mu_tau", -values["phi"])}
        for name, value in values.items():
            if name in lean:
                place_leaning((centre, width), name, value, errors[name], lean[name])
            else:
                place_population((centre, width), name, value, errors[name])
        return centre, width


def lengths_of(values: Position) -> tuple[Array, Array, Array]:
    """Return φ, ω and λ of the items."""
    return values["phi"], values["omega"], values["lam"]


def _start_of_wrong(
    point: PointEstimate, latencies: Latencies, wrong: WrongAnswers
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return δ and its error, by regressing each item's residuals on w, and the mean of w."""
    tau, over = jnp.asarray(point["tau"]), latencies.layout.over_subjects
    level = point["omega"] - latencies.centre
    residual = latencies.total - level * latencies.n + point["phi"] * over(latencies.seen, tau)
    crossed = wrong.wx - level * wrong.w + point["phi"] * over(wrong.share, tau)
    mean_share = wrong.w / jnp.maximum(latencies.n, 1)
    within = wrong.ww - mean_share * wrong.w
    precision = within / point["lam"] + _SPREAD_OF_DELTA**-2
    delta = (crossed - mean_share * residual) / point["lam"] / precision
    estimates = (np.asarray(x, np.float64) for x in (delta, 1 / jnp.sqrt(precision), mean_share))
    value, se, mean = estimates
    return value, usable(se), mean


def draw_lengths(
    way: WithLengths, latencies: Latencies, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Draw (φ, ω) of every item given speeds and λ, a Gibbs step; then move λ given the rest.

    If Σφ > 0 does not hold, all new φ and ω are rejected, so that their conditional is the
    truncated normal one.
    """
    latencies = latencies.without_wrong(sites.get("delta"))
    moments = latencies.moments(sites["tau"], sites["tau"] ** 2)
    values = way.terms(sites).values
    on_speed = Regression(moments.n, moments.x, -moments.tau, moments.tau_tau, -moments.tau_x)
    level = values["mu_omega"] - latencies.centre
    means = level, values["mu_tau"]
    phi, omega = _regression_draw(numbers, on_speed, "phi", values, means)
    omega = latencies.centre + omega
    upward = phi.sum() > 0
    sites = sites | {
        "phi": jnp.where(upward, phi, sites["phi"]),
        "omega": jnp.where(upward, omega, sites["omega"]),
    }
    squares = moments.residual_squares(sites["phi"], sites["omega"] - latencies.centre)

    def log_density(t: Array) -> Array:
        log_lam = sites["lam"] + t
        of_prior = way.terms(sites | {"lam": log_lam}).each["lam"]
        return of_prior - (moments.n * log_lam + squares * jnp.exp(-log_lam)) / 2

    by_squares = jnp.log((squares + jnp.exp(sites["mu_lam"])) / (moments.n + 1))
    t, accepted = log_concave_move(numbers, log_density, by_squares - sites["lam"])
    sites = sites | {"lam": sites["lam"] + t}
    lengths = lengths_of(way.terms(sites).values)
    return sites, {
        "acceptance_lam": accepted.mean(dtype=t.dtype),
        "length_log_likelihood": latencies.log_likelihood(*lengths, moments).sum(),
    }


def draw_wrong_lengths(
    way: WithLengths, latencies: Latencies, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Draw (δ, ω) of every item given speeds, φ and λ: a Gibbs step."""
    sums, values = _on_wrong(latencies, sites), way.terms(sites).values
    level = way.centre(sites, "omega") - latencies.centre
    delta, omega = _regression_draw(numbers, sums, "delta", values, (level, 0.0))
    omega = latencies.centre + omega
    return sites | {"delta": delta, "omega": omega}, {}


def move_wrong_spread(
    way: WithLengths, latencies: Latencies, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move log σ_δ with all δ, keeping each standardised δ fixed.

    If lengths hardly distinguish the items' δ, σ_δ may be close to 0, and would stay there for long
    if it moved given δ alone.
    """
    sums, values = _on_wrong(latencies, sites), way.terms(sites).values
    crossed = sums.zx - (sites["omega"] - latencies.centre) * sums.z
    deviations = sites["delta"] - sites["mu_delta"]

    def moved(t: Array) -> Position:
        delta = sites["mu_delta"] + jnp.exp(t) * deviations
        return sites | {"sigma_delta": sites["sigma_delta"] + t, "delta": delta}

    def log_density(t: Array) -> Array:
        position = moved(t)
        of_lengths = (crossed - sums.zz * position["delta"] / 2) * position["delta"] / values["lam"]
        return way.terms(position).total() + of_lengths.sum() + len(deviations) * t

    t, accepted = newton_line_move(numbers, log_density, _LEAST_OF_SPREAD)
    return moved(t), {"acceptance_sigma_delta": accepted.astype(t.dtype)}


def move_correlation(
    way: WithLengths, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move ρ given abilities and speeds."""

    def log_density(t: Array) -> Array:
        each = way.terms(sites | {"rho": sites["rho"] + t}).each
        return each["rho"] + each["tau"].sum()

    least = _LEAST_OF_SUBJECTS * len(sites["theta"]) / 4
    t, accepted = newton_line_move(numbers, log_density, least)
    return sites | {"rho": sites["rho"] + t}, {"acceptance_rho": accepted.astype(t.dtype)}


def draw_shared_speeds(
    way: WithLengths, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move the share of speed's residual variance between clusters, then draw υ."""
    rho = way.terms(sites).values["rho"]
    residual = (sites["tau"] - rho * sites["theta"]) / jnp.sqrt(1 - rho**2)
    logit, accepted = share_moved(numbers, way, sites["icc_tau"], residual)
    given = residual[None], jax.nn.sigmoid(logit)[None], way.codes, len(sites["upsilon"])
    upsilon = draw_clusters_given(*given, numbers.key())[0]
    return sites | {"icc_tau": logit, "upsilon": upsilon}, {"acceptance_shared_speeds": accepted}


class Regression(NamedTuple):
    """Sums of each item's regression of lengths x on a covariate z."""

    # shape (item,). The number of lengths, Σ x, Σ z, Σ z² and Σ z x.
    n: Array
    x: Array
    z: Array
    zz: Array
    zx: Array


def _on_wrong(latencies: Latencies, sites: Position) -> Regression:
    """Return the sums for regressing speed-corrected lengths on the proportion of wrong trials."""
    if latencies.wrong is None:
        raise ValueError("these lengths were made without `wrong_lengths`")
    share, w, ww, wx = latencies.wrong
    tau, phi, over = sites["tau"], sites["phi"], latencies.layout.over_subjects
    x, zx = latencies.total + phi * over(latencies.seen, tau), wx + phi * over(share, tau)
    return Regression(latencies.n, x, w, ww, zx)


def _regression_draw(
    numbers: RandomNumbers,
    sums: Regression,
    slope: str,
    values: Position,
    level: tuple[Array, Any],
) -> tuple[Array, Array]:
    """Draw slope and level of a normal regression with normal priors.

    `level` is the level's prior mean at slope 0, and the slope's coefficient in it.
    """
    slope_precision, level_precision = values[f"sigma_{slope}"] ** -2, values["sigma_omega"] ** -2
    mean, lean = level
    ss = sums.zz / values["lam"] + slope_precision + lean**2 * level_precision
    ll = sums.n / values["lam"] + level_precision
    sl = sums.z / values["lam"] - lean * level_precision
    of_slope = sums.zx / values["lam"] + slope_precision * values[f"mu_{slope}"]
    of_slope -= lean * level_precision * mean
    of_level = sums.x / values["lam"] + level_precision * mean
    given = ss - sl**2 / ll
    noise = numbers.normal((2, *ss.shape), ss.dtype)
    drawn = (of_slope - sl * of_level / ll) / given + noise[0] / jnp.sqrt(given)
    return drawn, (of_level - sl * drawn) / ll + noise[1] / jnp.sqrt(ll)
