"""The two-parameter logistic model (2PL).

    successes_ij ~ Binomial(trials_ij, sigmoid(a_j θ_i + d_j))
    θ_i ~ N(0, 1),  log a_j ~ N(μ_a, σ_a),  d_j ~ N(μ_d - μ_b a_j, σ_d),  b_j = -d_j / a_j

A cell with no trials was not observed and says nothing. No response sees θ + c with d - a c, or
s θ with a / s. The items' prior does not see them either, since μ_b moves along: the level and the
unit of abilities are those of θ ~ N(0, 1), however many items there are.

Where subjects come in clusters, such as
several runs or prompts of one LLM, those of cluster c lie about an ability γ_c, and κ (`icc`, the
intraclass correlation) is the share of the abilities' variance that lies between clusters:

    κ ~ U(0, 1),  γ_c ~ N(0, √κ),  θ_i ~ N(γ_c, √(1 - κ))

Where something is known of items, such as how long each takes a human or which judge graded its
answers, their difficulty may be explained by it (De Boeck and Wilson 2004): of standardised numbers
z by slopes β, of levels by effects u with a spread of their own,

    d_j ~ N(μ_d - μ_b a_j - z_jᵀ β - Σ_f u_f[level_fj], σ_d)
    β ~ N(0, 2),  u_f ~ N(0, σ_f),  σ_f ~ HalfNormal(1)

and so may abilities be by what is known of subjects, such as the LLM and the scaffold of an agent:

    θ_i ~ N(w_iᵀ β_θ + Σ_f v_f[level_fi], σ_θ),  v_f ~ N(0, σ_f),  σ_θ, σ_f ~ HalfNormal(1)

With clusters too, that is so of γ_c, with a spread σ_γ ~ HalfNormal(1), and θ_i ~ N(γ_c, σ_θ).
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
    """Draw abilities of a standard population, about those of clusters where they come so."""
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
    """Draw abilities of subjects, or of their clusters, of which something is known."""
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
    """Draw discriminations and intercepts of items that learn their own centre and spread."""
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
    """Draw slopes of numbers and effects of levels, and return what they add for each member."""
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
    """Draw the number of right answers whose chances have a logistic or a normal curve."""
    logits = eta if link == "logit" else log_ndtr(eta) - log_ndtr(-eta)
    number = Binomial(trials, logits=logits).mask(trials > 0)
    return sample("successes", number, obs=successes)


def level(values: Values, t: Array) -> dict[str, Array]:
    """Return abilities, and items with them, t higher: η = a θ + d and its prior stay."""
    moved = {name: values[name] + t for name in ("theta", "gamma") if name in values}
    moved |= {name: values[name] + t for name in _skills(values)[:1]}
    if "mu_d" not in values:  # η = a (θ - b)
        return moved | {"b": values["b"] + t}
    if "a" in values:
        moved["d"] = values["d"] - values["a"] * t
        return moved | {"mu_b": values["mu_b"] + t}
    return moved | {name: values[name] - t for name in ("d", "mu_d")}  # all slopes are 1


def _skills(values: Values) -> list[str]:
    """Return the names of effects of levels on ability, the first first."""
    return sorted(name for name in values if name.startswith("skill_"))


def unit(slopes: str, values: Values, t: Array) -> dict[str, Array]:
    """Return abilities in a unit that is e⁻ᵗ of what it was: η = a θ + d stays."""
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
    """The 2PL as the package takes it.

    Attributes
    ----------
    priors : Priors
    link : {"logit", "probit"}
        A logistic or a normal response curve.
    hierarchical : bool
        Whether fixed priors are not for it.

    Raises
    ------
    ResponseError
        For a link where the model has a curve of its own, or fixed priors where it has none.
    """

    priors: Priors = Priors()  # noqa: RUF009
    link: Literal["logit", "probit"] = "logit"

    name: ClassVar[str] = "2pl"
    title: ClassVar[str] = "2PL"
    explained: ClassVar[bool] = True
    dims: ClassVar[Mapping[str, list[str]]] = DIMS
    hierarchical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._refuse(self.priors, wrong_lengths=False)
        if self.link not in ("logit", self.family.name):
            raise ResponseError(f"{self.name} has a response curve of its own; leave link out")
        if self.hierarchical and self.priors.kind == "fixed":
            raise ResponseError(f"{self.name} has hierarchical priors; leave out --priors fixed")

    @classmethod
    def chosen(cls, priors: Priors, *, wrong_lengths: bool = False) -> "TwoPL":
        """Return the model with the options that people type."""
        cls._refuse(priors, wrong_lengths=wrong_lengths)
        return cls(priors)

    @property
    def family(self) -> Family:
        """Binomial answers."""
        return family_named(self.link)

    @property
    def engines(self) -> tuple[Method, ...]:
        """Engines that draw from its posterior."""
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
        """The level of abilities, and their unit where slopes are free to follow."""
        of_level = Line("level", level, "theta", normal=True)
        if self.priors.slopes == "rasch":
            return (of_level,)
        return of_level, Line("unit", partial(unit, self.priors.slopes), "theta")
