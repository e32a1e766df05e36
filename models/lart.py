"""Latency-response theory (LaRT): accuracy and length of the answer together.

    successes_ij ~ Binomial(trials_ij, Φ(a_j θ_i + d_j))
    log T_ij ~ N(ω_j - φ_j τ_i, λ_j)
    (θ_i, τ_i) ~ N(0, [[1, ρ], [ρ, 1]])
    a_j ~ N(μ_a, σ_a),  d_j ~ N(μ_d - μ_b a_j, σ_d)
    φ_j ~ N(μ_φ, σ_φ),  ω_j ~ N(μ_ω + μ_τ φ_j, σ_ω),  log λ_j ~ N(μ_λ, σ_λ)

θ is ability and τ is speed: who is faster by one unit takes exp(φ_j) times fewer tokens, or
seconds, for item j. λ_j is a variance. Single items may have negative slopes, and Σa > 0 and
Σφ > 0 say which way is up. μ_b and μ_τ move along where abilities and speeds have another level, so
that the items' prior leaves that to (θ, τ). A cell with no trials, and a length that is NaN, was
not observed and says nothing.

An option gives wrong answers a length of their own, with w_ij the share of wrong trials:

    log T_ij ~ N(ω_j - φ_j τ_i + δ_j w_ij, λ_j)

exp(δ_j) is how many times as long a wrong answer to item j is as a right one of the same subject.
The speed then means something else. Without the option it is how short the answers of a subject
are; with it, how short they are beside other answers that are as right. Who is often wrong, where
wrong answers ramble, is no longer slow for that, and ρ is what ability and speed have in common
beyond it. A subject's average length is of both: its speed, and how often it is wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
import numpyro
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float, Int
from numpyro import plate, sample
from numpyro.distributions import Binomial, HalfNormal, LogNormal, Normal, Uniform

from bayesirt.likelihood.families import family_named
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.latencies import wrong_share
from bayesirt.models.priors import Priors
from bayesirt.models.response_model import Line, Method, ResponseModel, Values
from bayesirt.models.two_pl import DIMS as TWO_PL_DIMS
from bayesirt.models.two_pl import hierarchical_items

Link = Literal["probit", "logit"]

DIMS = {
    **TWO_PL_DIMS,
    "tau": ["subject"],
    **{name: ["item"] for name in ("phi", "omega", "lam", "delta")},
}


class LaRTParameters(NamedTuple):
    """What LaRT draws before it sees data."""

    # Ability and speed.
    theta: Float[Array, " subject"]
    tau: Float[Array, " subject"]
    # Discrimination and intercept.
    a: Float[Array, " item"]
    d: Float[Array, " item"]
    # Speed discrimination, intensity and residual variance of the log length.
    phi: Float[Array, " item"]
    omega: Float[Array, " item"]
    lam: Float[Array, " item"]
    rho: Float[Array, ""]  # Correlation of ability and speed.
    # What a wrong answer adds to the log length; None where nothing is added.
    delta: Float[Array, " item"] | None = None


def lart_model(
    trials: Int[Array, "subject item"],
    log_latency: Float[Array, "subject item"] | None = None,
    successes: Int[Array, "subject item"] | None = None,
    *,
    link: Link = "probit",
    wrong_lengths: bool = False,
) -> None:
    """Define LaRT; without lengths or successes it draws them, lengths given answers.

    Parameters
    ----------
    trials : int array, shape (subject, item)
        0 where the item was not run.
    log_latency : float array, shape (subject, item), optional
        NaN where no length was seen.
    successes : int array, shape (subject, item), optional
    link : {"probit", "logit"}
    wrong_lengths : bool
        Give wrong answers a length of their own.
    """
    theta, tau, a, d, phi, omega, lam, _, delta = lart_parameters(
        *trials.shape, wrong_lengths=wrong_lengths
    )
    eta = theta[:, None] * a + d
    logits = eta if link == "logit" else log_ndtr(eta) - log_ndtr(-eta)
    answers = Binomial(trials, logits=logits).mask(trials > 0)
    successes = sample("successes", answers, obs=successes)
    mean = omega - tau[:, None] * phi
    if delta is not None:
        mean += delta * wrong_share(successes, trials)
    length = Normal(mean, jnp.sqrt(lam))
    if log_latency is None:
        sample("log_latency", length.mask(trials > 0))
    else:
        seen = ~jnp.isnan(log_latency)
        sample("log_latency", length.mask(seen), obs=jnp.where(seen, log_latency, 0))


def lart_parameters(
    n_subjects: int, n_items: int, *, wrong_lengths: bool = False
) -> LaRTParameters:
    """Draw subjects and items from their priors: LaRT without data.

    Parameters
    ----------
    n_subjects, n_items : int
    wrong_lengths : bool
        Give wrong answers a length of their own.

    Returns
    -------
    LaRTParameters
    """
    rho = sample("rho", Uniform(-1, 1))
    with plate("subject", n_subjects):
        theta = sample("theta", Normal(0, 1))
        tau = sample("tau", Normal(rho * theta, jnp.sqrt(1 - rho**2)))
    a, d = hierarchical_items(n_items, Priors(slopes="free"))
    phi, omega, lam = _lengths_of_items(n_items)
    delta = _of_wrong_answers(n_items) if wrong_lengths else None
    return LaRTParameters(theta, tau, a, d, phi, omega, lam, rho, delta)


def _lengths_of_items(n_items: int) -> tuple[Array, Array, Array]:
    mu_phi = sample("mu_phi", Normal(0, 0.5))
    sigma_phi = sample("sigma_phi", HalfNormal(0.5))
    mu_omega = sample("mu_omega", Normal(0, 10))
    mu_tau = sample("mu_tau", Normal(0, 2))
    sigma_omega = sample("sigma_omega", HalfNormal(2))
    mu_lam = sample("mu_lam", Normal(0, 2))
    sigma_lam = sample("sigma_lam", HalfNormal(1))
    with plate("item", n_items):
        phi = sample("phi", Normal(mu_phi, sigma_phi))
        omega = sample("omega", Normal(mu_omega + mu_tau * phi, sigma_omega))
        lam = sample("lam", LogNormal(mu_lam, sigma_lam))
    numpyro.factor("direction", jnp.where(phi.sum() > 0, 0.0, -jnp.inf))
    return phi, omega, lam


def _of_wrong_answers(n_items: int) -> Array:
    mu_delta = sample("mu_delta", Normal(0, 0.5))
    sigma_delta = sample("sigma_delta", HalfNormal(0.5))
    with plate("item", n_items):
        return sample("delta", Normal(mu_delta, sigma_delta))


def ability_level(values: Values, t: Array) -> dict[str, Array]:
    """Return abilities t higher, and speeds by what they have in common with them."""
    return speed_level(values, values["rho"] * t) | {
        "theta": values["theta"] + t,
        "d": values["d"] - values["a"] * t,
        "mu_b": values["mu_b"] + t,
    }


def speed_level(values: Values, t: Array) -> dict[str, Array]:
    """Return speeds t higher: the lengths' means stay."""
    return {
        "tau": values["tau"] + t,
        "omega": values["omega"] + values["phi"] * t,
        "mu_tau": values["mu_tau"] + t,
    }


def ability_unit(values: Values, t: Array) -> dict[str, Array]:
    """Return abilities in a unit that is e⁻ᵗ of what it was."""
    return _unit(values, t, grown=("theta", "mu_b"), shrunk=("a", "mu_a", "sigma_a"))


def speed_unit(values: Values, t: Array) -> dict[str, Array]:
    """Return speeds in a unit that is e⁻ᵗ of what it was."""
    return _unit(values, t, grown=("tau", "mu_tau"), shrunk=("phi", "mu_phi", "sigma_phi"))


def _unit(
    values: Values, t: Array, grown: tuple[str, ...], shrunk: tuple[str, ...]
) -> dict[str, Array]:
    up, down = jnp.exp(t), jnp.exp(-t)
    return {x: up * values[x] for x in grown} | {x: down * values[x] for x in shrunk}


@dataclass(frozen=True)
class LaRT(ResponseModel):
    """LaRT as the package takes it.

    Attributes
    ----------
    link : {"probit", "logit"}
    wrong_lengths : bool
        Give wrong answers a length of their own.
    """

    link: Link = "probit"
    wrong_lengths: bool = False

    name: ClassVar[str] = "lart"
    title: ClassVar[str] = "LaRT"
    lengths: ClassVar[bool] = True
    dims: ClassVar[Mapping[str, list[str]]] = DIMS

    @classmethod
    def chosen(cls, priors: Priors, *, wrong_lengths: bool = False) -> "LaRT":
        """Return the model with the options that people type."""
        cls._refuse(priors, wrong_lengths=False)
        return cls(wrong_lengths=wrong_lengths)

    @property
    def family(self) -> Family:
        """Binomial answers."""
        return family_named(self.link)

    @property
    def priors(self) -> Priors:
        """Hierarchical items with free slopes."""
        return Priors(slopes="free")

    @property
    def said(self) -> Mapping[str, Any]:
        """What is kept with draws of its options."""
        return {**super().said, "wrong_lengths": int(self.wrong_lengths)}

    @property
    def engines(self) -> tuple[Method, ...]:
        """Engines that draw from its posterior."""
        return ("blocked", "nuts") if self.wrong_lengths else ("blocked", "nuts", "laplace")

    def parameters(self, n_subjects: int, n_items: int, **_known: Any) -> LaRTParameters:
        """Draw from the prior."""
        return lart_parameters(n_subjects, n_items, wrong_lengths=self.wrong_lengths)

    @property
    def lines(self) -> tuple[Line, ...]:
        """Level and unit of abilities and of speeds."""
        return (
            Line("ability_level", ability_level, "theta", normal=True),
            Line("speed_level", speed_level, "tau", normal=True),
            Line("ability_unit", ability_unit, "theta"),
            Line("speed_unit", speed_unit, "tau"),
        )

    def describe(self) -> str:
        """Return the model and what it assumes in a few words."""
        own = ", wrong answers with lengths of their own" if self.wrong_lengths else ""
        return (
            f"LaRT: {self.link}, free slopes, log-normal lengths{own}, correlated ability and speed"
        )
