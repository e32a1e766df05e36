"""Latency-response theory (LaRT): a joint model of accuracy and answer length.

    successes_ij ~ Binomial(trials_ij, Φ(a_j θ_i + d_j))
    log T_ij ~ N(ω_j - φ_j τ_i, λ_j)
    (θ_i, τ_i) ~ N(0, [[1, ρ], [ρ, 1]])
    a_j ~ N(μ_a, σ_a),  d_j ~ N(μ_d - μ_b a_j, σ_d)
    φ_j ~ N(μ_φ, σ_φ),  ω_j ~ N(μ_ω + μ_τ φ_j, σ_ω),  log λ_j ~ N(μ_λ, σ_λ)

θ is ability and τ is speed: a subject one unit faster needs exp(φ_j) times fewer tokens, or
seconds, for item j. λ_j is a variance. Single items may have negative slopes; Σa > 0 and Σφ > 0
fix the directions. μ_b and μ_τ absorb shifts in the levels of ability and speed, so that only the
prior of (θ, τ) fixes these levels. Cells with no trials and lengths that are NaN are unobserved
and contribute nothing.

With clusters, abilities have the 2PL's prior, and so has the part of speed beyond ability:

    κ_τ ~ U(0, 1),  υ_c ~ N(0, √κ_τ)
    τ_i ~ N(ρ θ_i + √(1 - ρ²) υ_c, √((1 - ρ²) (1 - κ_τ)))

With `wrong_lengths`, the length also depends on w_ij, the proportion of trials that are wrong:

    log T_ij ~ N(ω_j - φ_j τ_i + δ_j w_ij, λ_j)

A wrong answer to item j is exp(δ_j) times as long as a right answer by the same subject. This
changes the meaning of speed. Without the option, speed measures how short a subject's answers are;
with it, how short they are compared with answers that are equally correct. Subjects whose wrong
answers ramble no longer count as slow for that reason, and ρ is the correlation of ability and
speed that remains. A subject's average length reflects its speed and how often it is wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpyro
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int
from numpyro import plate, sample
from numpyro.distributions import HalfNormal, LogNormal, Normal, Uniform

from bayesirt.likelihood.families import family_named
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.latencies import wrong_share
from bayesirt.models.priors import Priors
from bayesirt.models.response_model import Counts, Line, Method, ResponseModel, Values
from bayesirt.models.two_pl import DIMS as TWO_PL_DIMS
from bayesirt.models.two_pl import TwoPL, abilities, hierarchical_items, level, right_answers, unit

Link = Literal["probit", "logit"]

DIMS = {
    **TWO_PL_DIMS,
    "tau": ["subject"],
    "upsilon": ["cluster"],
    **{name: ["item"] for name in ("phi", "omega", "lam", "delta")},
}


def _speeds(
    theta: Float[Array, " subject"],
    rho: Float[Array, ""],
    clusters: Int[ArrayLike, " subject"] | None = None,
    n_clusters: int = 0,
) -> Float[Array, " subject"]:
    beyond, spread = rho * theta, jnp.sqrt(1 - rho**2)
    if clusters is not None:
        icc_tau = sample("icc_tau", Uniform(0, 1))
        with plate("cluster", n_clusters):
            beyond += spread * sample("upsilon", Normal(0, jnp.sqrt(icc_tau)))[clusters]
        spread *= jnp.sqrt(1 - icc_tau)
    with plate("subject", len(theta)):
        return sample("tau", Normal(beyond, spread))


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
    """Shift abilities by t and speeds by ρ t; no predictor changes."""
    return level(values, t) | _faster(values, values["rho"] * t)


def speed_level(values: Values, t: Array) -> dict[str, Array]:
    """Shift speeds by t with abilities fixed; the expected log lengths do not change."""
    moved = _faster(values, t)
    if "upsilon" in values:
        moved["upsilon"] = values["upsilon"] + t / jnp.sqrt(1 - values["rho"] ** 2)
    return moved


def _faster(values: Values, t: Array) -> dict[str, Array]:
    raised = {name: values[name] + t for name in ("tau", "mu_tau")}
    return raised | {"omega": values["omega"] + values["phi"] * t}


def ability_unit(values: Values, t: Array) -> dict[str, Array]:
    """Multiply the unit of ability by e⁻ᵗ; no predictor changes."""
    return unit("free", values, t)


def speed_unit(values: Values, t: Array) -> dict[str, Array]:
    """Multiply the unit of speed by e⁻ᵗ; no predictor changes."""
    grown, shrunk = ("tau", "upsilon", "mu_tau"), ("phi", "mu_phi", "sigma_phi")
    moved = {name: jnp.exp(t) * values[name] for name in grown if name in values}
    return moved | {name: jnp.exp(-t) * values[name] for name in shrunk}


@dataclass(frozen=True)
class LaRT(ResponseModel):
    """Latency-response model: accuracy and answer length with correlated ability and speed.

    Attributes
    ----------
    link : {"probit", "logit"}
        Response curve.
    wrong_lengths : bool
        Whether wrong answers have a different expected length from right ones.
    """

    link: Link = "probit"
    wrong_lengths: bool = False

    name: ClassVar[str] = "lart"
    title: ClassVar[str] = "LaRT"
    meaning: ClassVar[str] = (
        f"{TwoPL.meaning}; lengths are log-normal and depend on each subject's speed, which "
        "correlates with its ability (Xu, Liu, Wang and Gu, 2026; van der Linden, 2007)"
    )
    covers: ClassVar[str] = "85% to 93% of the truth with 100 x 20 and 100 x 100 responses"
    lengths: ClassVar[bool] = True
    dims: ClassVar[Mapping[str, list[str]]] = DIMS

    @classmethod
    def chosen(cls, priors: Priors, *, wrong_lengths: bool = False) -> "LaRT":
        """Return the model with the options given by the user."""
        cls._refuse(priors, wrong_lengths=False)
        return cls(wrong_lengths=wrong_lengths)

    @property
    def family(self) -> Family:
        """Binomial responses."""
        return family_named(self.link)

    @property
    def priors(self) -> Priors:
        """Hierarchical items with free slopes."""
        return Priors(slopes="free")

    @property
    def said(self) -> Mapping[str, Any]:
        """Options that are stored with the draws."""
        return {**super().said, "wrong_lengths": int(self.wrong_lengths)}

    @property
    def engines(self) -> tuple[Method, ...]:
        """Engines that can sample the posterior."""
        return ("blocked", "nuts") if self.wrong_lengths else ("blocked", "nuts", "laplace")

    def __call__(
        self,
        trials: Counts,
        successes: Counts | None = None,
        log_latency: Float[Array, "subject item"] | None = None,
        **known: Any,
    ) -> None:
        """Define LaRT in NumPyro; missing answers or log lengths are drawn.

        The arguments are those of other models and `log_latency`, NaN where no length was observed.
        """
        drawn = self.parameters(*trials.shape, **known)
        self.answers(drawn, jnp.asarray(trials), successes, log_latency)

    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> tuple[Array, ...]:
        """Draw ability, speed, discrimination, intercept, φ, ω, λ and, if it is used, δ."""
        rho = sample("rho", Uniform(-1, 1))
        theta = abilities(n_subjects, **known)
        tau = _speeds(theta, rho, **known)
        of_answers = hierarchical_items(n_items, self.priors)
        of_lengths = _lengths_of_items(n_items)
        delta = (_of_wrong_answers(n_items),) if self.wrong_lengths else ()
        return theta, tau, *of_answers, *of_lengths, *delta

    def answers(
        self,
        drawn: tuple[Array, ...],
        trials: Counts,
        successes: Counts | None,
        log_latency: Float[Array, "subject item"] | None = None,
    ) -> None:
        """Draw the number of right answers, then their log lengths."""
        theta, tau, a, d, phi, omega, lam, *delta = drawn
        right = right_answers(self.link, theta[:, None] * a + d, trials, successes)
        mean = omega - tau[:, None] * phi
        if delta:
            mean += delta[0] * wrong_share(right, trials)
        length = Normal(mean, jnp.sqrt(lam))
        if log_latency is None:
            sample("log_latency", length.mask(trials > 0))
        else:
            seen = ~jnp.isnan(log_latency)
            sample("log_latency", length.mask(seen), obs=jnp.where(seen, log_latency, 0))

    @property
    def lines(self) -> tuple[Line, ...]:
        """The levels and units of ability and speed."""
        return (
            Line("ability_level", ability_level, "theta", normal=True),
            Line("speed_level", speed_level, "tau", normal=True),
            Line("ability_unit", ability_unit, "theta"),
            Line("speed_unit", speed_unit, "tau"),
        )

    def describe(self) -> str:
        """Return a short description of the model and its assumptions."""
        suffix = ", different lengths for wrong answers" if self.wrong_lengths else ""
        return (
            f"LaRT: {self.link}, free slopes, log-normal lengths{suffix}, "
            f"correlated ability and speed"
        )
