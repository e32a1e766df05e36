"""The two-parameter logistic model (2PL).

    successes_ij ~ Binomial(trials_ij, sigmoid(a_j θ_i + d_j))
    θ_i ~ N(0, 1),  log a_j ~ N(μ_a, σ_a),  d_j ~ N(μ_d - μ_b a_j, σ_d),  b_j = -d_j / a_j

A cell with no trials is unobserved and contributes nothing. Replacing θ by θ + c and d by d - a c,
or θ by s θ and a by a / s, changes no response probability and, since μ_b moves along, not the
items' prior either: θ ~ N(0, 1) fixes the level and the unit of abilities for any number of items.

Subjects may form clusters, such as several runs or prompts of one LLM. Abilities in cluster c are
centred on γ_c, and κ (`icc`, the intraclass correlation) is the share of the abilities' variance
that is between clusters:

    κ ~ U(0, 1),  γ_c ~ N(0, √κ),  θ_i ~ N(γ_c, √(1 - κ))

Item covariates, such as the time that a human takes or the judge that graded the answers, may
explain difficulty (De Boeck and Wilson 2004). Standardised numbers z have slopes β, and the levels
of each factor f have effects u_f:

    d_j ~ N(μ_d - μ_b a_j - z_jᵀ β - Σ_f u_f[level_fj], σ_d)
    β ~ N(0, 2),  u_f ~ N(0, σ_f),  σ_f ~ HalfNormal(1)

Likewise, subject covariates, such as the LLM and the scaffold of an agent, may explain ability:

    θ_i ~ N(w_iᵀ β_θ + Σ_f v_f[level_fi], σ_θ),  v_f ~ N(0, σ_f),  σ_θ, σ_f ~ HalfNormal(1)

If there are clusters too, the covariates explain γ_c, with spread σ_γ ~ HalfNormal(1), and
θ_i ~ N(γ_c, σ_θ).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpyro
from jax.scipy.special import log_ndtr
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int
from numpyro import deterministic, plate, sample
from numpyro.distributions import Binomial, HalfNormal, LogNormal, Normal, Uniform

from bayesirt.data.difficulty import Design
from bayesirt.errors import ResponseError
from bayesirt.likelihood.families import family_named
from bayesirt.likelihood.family import Family
from bayesirt.models.priors import Priors
from bayesirt.models.response_model import Counts, Line, Method, ResponseModel, Values

DIMS = {"theta": ["subject"], "gamma": ["cluster"], "a": ["item"], "d": ["item"], "b": ["item"]}


def abilities(
    n_subjects: int,
    clusters: Int[ArrayLike, " subject"] | None = None,
    n_clusters: int = 0,
) -> Float[Array, " subject"]:
    """Draw abilities from a standard normal population, which may be clustered."""
    centre, spread = jnp.zeros(()), jnp.ones(())
    if clusters is not None:
        icc = sample("icc", Uniform(0, 1))
        with plate("cluster", n_clusters):
            centre = sample("gamma", Normal(0, jnp.sqrt(icc)))[clusters]
        spread = jnp.sqrt(1 - icc)
    with plate("subject", n_subjects):
        return sample("theta", Normal(centre, spread))


def explained_abilities(
    n_subjects: int,
    skills: Design,
    clusters: Int[ArrayLike, " subject"] | None = None,
    n_clusters: int = 0,
) -> Float[Array, " subject"]:
    """Draw abilities that subject covariates explain; with clusters they explain γ."""
    mean = explained(skills, "beta_theta", [x.skill for x in skills.factors])
    if clusters is not None:
        sigma_gamma = sample("sigma_gamma", HalfNormal(1))
        with plate("cluster", n_clusters):
            mean = sample("gamma", Normal(mean, sigma_gamma))[clusters]
    sigma_theta = sample("sigma_theta", HalfNormal(1))
    with plate("subject", n_subjects):
        return sample("theta", Normal(mean, sigma_theta))


def hierarchical_items(
    n_items: int,
    priors: Priors,
    design: Design = Design(),  # noqa: B008
) -> tuple[Array, Array]:
    """Draw discriminations and intercepts from the hierarchical prior."""
    if priors.slopes != "rasch":
        mu_a = sample("mu_a", Normal(0, 0.5))
        sigma_a = sample("sigma_a", HalfNormal(0.5))
    mu_d = sample("mu_d", Normal(0, 2))
    mu_b = sample("mu_b", Normal(0, 2)) if priors.slopes != "rasch" else 0.0
    sigma_d = sample("sigma_d", HalfNormal(2))
    harder = explained(design, "beta", [x.site for x in design.factors])
    with plate("item", n_items):
        if priors.slopes == "positive":
            a = sample("a", LogNormal(mu_a, sigma_a))
        elif priors.slopes == "free":
            a = sample("a", Normal(mu_a, sigma_a))
        else:
            a = deterministic("a", jnp.ones(n_items))
        d = sample("d", Normal(mu_d - mu_b * a - harder, sigma_d))
        deterministic("b", -d / a)
    if priors.slopes == "free":
        numpyro.factor("orientation", jnp.where(a.sum() > 0, 0.0, -jnp.inf))
    return a, d


def explained(design: Design, slopes: str, effects: Sequence[str]) -> Array | float:
    """Draw covariate slopes and factor effects, and return their sum for each member."""
    total: Array | float = 0.0
    if design.covariates:
        with plate(f"{slopes}_covariate", len(design.covariates)):
            total = jnp.asarray(design.z) @ sample(slopes, Normal(0, 2))
    for name, factor in zip(effects, design.factors, strict=True):
        sigma = sample(f"sigma_{name}", HalfNormal(1))
        with plate(f"{name}_level", len(factor.levels.names)):
            effect = sample(name, Normal(0, sigma))
        total += effect[jnp.array(factor.levels.codes)]
    return total


def _fixed_items(n_items: int) -> tuple[Array, Array]:
    with plate("item", n_items):
        a = sample("a", LogNormal(0, 0.5))
        b = sample("b", Normal(0, 2))
        d = deterministic("d", -a * b)
    return a, d


def right_answers(
    link: str, eta: Float[Array, "subject item"], trials: Counts, successes: Counts | None
) -> Array:
    """Draw the number of right answers under a logistic or normal response curve."""
    logits = eta if link == "logit" else log_ndtr(eta) - log_ndtr(-eta)
    number = Binomial(trials, logits=logits).mask(trials > 0)
    return sample("successes", number, obs=successes)


def level(values: Values, t: Array) -> dict[str, Array]:
    """Shift abilities by t, and items such that η = a θ + d and its prior stay."""
    moved = {name: values[name] + t for name in ("theta", "gamma") if name in values}
    moved |= {name: values[name] + t for name in _skills(values)[:1]}
    if "mu_d" not in values:  # η = a (θ - b)
        return moved | {"b": values["b"] + t}
    if "a" in values:
        moved["d"] = values["d"] - values["a"] * t
        return moved | {"mu_b": values["mu_b"] + t}
    return moved | {name: values[name] - t for name in ("d", "mu_d")}  # all slopes are 1


def _skills(values: Values) -> list[str]:
    """Return the names of the factor effects on ability, sorted."""
    return sorted(name for name in values if name.startswith("skill_"))


def unit(slopes: str, values: Values, t: Array) -> dict[str, Array]:
    """Multiply the unit of ability by e⁻ᵗ, and items such that η = a θ + d stays."""
    grown, shrunk = jnp.exp(t), jnp.exp(-t)
    moved = {name: grown * values[name] for name in ("theta", "gamma", "mu_b") if name in values}
    if "sigma_theta" in values:
        also = [
            "sigma_theta",
            "sigma_gamma",
            "beta_theta",
            *(f"sigma_{x}" for x in _skills(values)),
        ]
        names = [x for x in (*also, *_skills(values)) if x in values]
        moved |= {name: grown * values[name] for name in names}
    moved["a"] = shrunk * values["a"]
    if "mu_d" not in values:
        return moved | {"b": grown * values["b"]}
    if slopes == "positive":
        return moved | {"mu_a": values["mu_a"] - t}
    return moved | {name: shrunk * values[name] for name in ("mu_a", "sigma_a")}


@dataclass(frozen=True)
class TwoPL(ResponseModel):
    """Two-parameter logistic model: an ability per subject, a slope and an intercept per item.

    Attributes
    ----------
    priors : Priors
    link : {"logit", "probit"}
        A logistic or a normal response curve.
    hierarchical : bool
        Whether the model requires hierarchical priors.

    Raises
    ------
    ResponseError
        If the model does not support the link, or fixed priors.
    """

    priors: Priors = Priors()  # noqa: RUF009
    link: Literal["logit", "probit"] = "logit"

    name: ClassVar[str] = "2pl"
    title: ClassVar[str] = "2PL"
    meaning: ClassVar[str] = (
        "The probability of a right answer rises with the subject's ability according to the "
        "two-parameter logistic model (Birnbaum, 1968)"
    )
    covers: ClassVar[str] = (
        "89% to 92% of true abilities, 90% to 92% of difficulties and 85% to 90% of slopes with "
        "20 x 15 to 1000 x 2000 responses"
    )
    explained: ClassVar[bool] = True
    dims: ClassVar[Mapping[str, list[str]]] = DIMS
    hierarchical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._refuse(self.priors, wrong_lengths=False)
        if self.link not in ("logit", self.family.name):
            raise ResponseError(f"{self.name} has its own response curve; leave link out")
        if self.hierarchical and self.priors.kind == "fixed":
            raise ResponseError(f"{self.name} needs hierarchical priors; leave out --priors fixed")

    @classmethod
    def chosen(cls, priors: Priors, *, wrong_lengths: bool = False) -> "TwoPL":
        """Return the model with the options given by the user."""
        cls._refuse(priors, wrong_lengths=wrong_lengths)
        return cls(priors)

    @property
    def family(self) -> Family:
        """Binomial responses."""
        return family_named(self.link)

    @property
    def engines(self) -> tuple[Method, ...]:
        """Engines that can sample the posterior."""
        return "blocked", "nuts", "laplace"

    def parameters(
        self,
        n_subjects: int,
        n_items: int,
        *,
        design: Design = Design(),  # noqa: B008
        skills: Design = Design(),  # noqa: B008
        **clusters: Any,
    ) -> tuple[Array, ...]:
        """Draw ability, discrimination and intercept."""
        if skills:
            theta = explained_abilities(n_subjects, skills, **clusters)
        else:
            theta = abilities(n_subjects, **clusters)
        if self.priors.kind == "fixed":
            return theta, *_fixed_items(n_items)
        return theta, *hierarchical_items(n_items, self.priors, design)

    def answers(self, drawn: tuple[Array, ...], trials: Counts, successes: Counts | None) -> None:
        """Draw the number of right answers."""
        theta, a, d = drawn
        right_answers(self.link, theta[:, None] * a + d, trials, successes)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The level of abilities and, unless slopes are fixed, their unit."""
        of_level = Line("level", level, "theta", normal=True)
        if self.priors.slopes == "rasch":
            return (of_level,)
        return of_level, Line("unit", partial(unit, self.priors.slopes), "theta")
