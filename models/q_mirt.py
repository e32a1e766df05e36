"""The Q-matrix model: a multidimensional 2PL in which each item needs some of the abilities.

    successes_ij ~ Binomial(trials_ij, sigmoid(Σ_k q_jk a_jk θ_ik + d_j))
    θ_i ~ N(0, Ω); with clusters κ ~ U(0, 1), γ_c ~ N(0, κ Ω), θ_i ~ N(γ_c, (1 - κ) Ω)
    log a_jk ~ N(μ_a, σ_a) where q_jk = 1
    d_j ~ N(μ_d + Σ_k q_jk (β_k - μ_bk a_jk), σ_d),  β_k ~ N(0, σ_β),  μ_bk ~ N(0, 2)

θ_ik is subject i's level of ability k, in standard deviations of the population. The model is
compensatory: one ability can make up for another on an item that needs both. β_k is how much easier
items are that need ability k, so that the row of Q alone is informative about an item that nobody
has answered. Replacing θ_k by θ_k + c, d_j by d_j - c a_jk and μ_bk by μ_bk + c changes neither the
likelihood nor the items' prior: θ ~ N(0, Ω) fixes the levels for any number of items.

Ω is a correlation matrix. "correlated" has one correlation for each pair of abilities (LKJ prior),
which can be learned for about ten abilities at most. "general" is a one-factor structure with one
number per ability, Ω_kl = g_k g_l, so that forty subjects suffice for sixty abilities; it rules out
negative correlations. "independent" sets all correlations to 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import Array
from numpyro import deterministic, plate, sample
from numpyro.distributions import (
    HalfNormal,
    LKJCholesky,
    LogNormal,
    Normal,
    Uniform,
)

from bayesirt.data.q_matrix import QMatrix
from bayesirt.likelihood.loadings import Loadings
from bayesirt.models.mirt import MU_B_SD, abilities, levels
from bayesirt.models.response_model import Counts, Line, Method, ResponseModel, Values
from bayesirt.models.two_pl import right_answers

Structure = Literal["correlated", "general", "independent"]

MOST_CORRELATED = 10
"""Largest number of abilities for which "correlated" is the default (45 correlations)."""

DIMS = {
    "theta": ["subject", "ability"],
    "a": ["loading"],
    "d": ["item"],
    "beta": ["ability"],
    "mu_b": ["ability"],
    "general": ["ability"],
    "gamma": ["cluster", "ability"],
    "correlation": ["ability", "ability_other"],
}


def default_structure(n_abilities: int) -> Structure:
    """Return the default correlation structure of the abilities."""
    return "correlated" if n_abilities <= MOST_CORRELATED else "general"


def _root_of_correlations(n_abilities: int, structure: Structure) -> Array:
    """Draw the lower Cholesky factor of Ω."""
    if structure == "independent" or n_abilities == 1:
        return jnp.eye(n_abilities)
    if structure == "correlated":
        root = sample("root", LKJCholesky(n_abilities, 1))
        deterministic("correlation", root @ root.T)
        return root
    with plate("ability", n_abilities):
        general = sample("general", Uniform(0, 1))
    shared = jnp.outer(general, general)
    correlation = deterministic("correlation", shared + jnp.diag(1 - general**2))
    return jnp.linalg.cholesky(correlation)


def _levels(needs: Loadings, values: Values, t: Array) -> dict[str, Array]:
    return levels(needs.slopes(needs.in_slots(values["a"])), values, t)


@dataclass(frozen=True)
class QMirt(ResponseModel):
    """Q-matrix model: a multidimensional 2PL in which each item needs some of the abilities.

    Attributes
    ----------
    needs : Loadings
        The Q-matrix, with a row for each item of the responses.
    structure : {"correlated", "general", "independent"}
        Correlation structure of the abilities.
    q : QMatrix, optional
        The Q-matrix with the names of its items and abilities.
    """

    needs: Loadings
    structure: Structure
    q: QMatrix | None = field(default=None, compare=False, repr=False)

    name: ClassVar[str] = "q_mirt"
    title: ClassVar[str] = "Q-matrix 2PL"
    meaning: ClassVar[str] = (
        "The log odds of a right answer are a weighted sum of the abilities that the item needs"
    )
    dims: ClassVar[Mapping[str, list[str]]] = DIMS

    @classmethod
    def of(cls, q: QMatrix, structure: Structure | None = None) -> "QMirt":
        """Build the model from a Q-matrix; `structure` defaults to `default_structure`."""
        return cls(Loadings.of(q.needs), structure or default_structure(q.n_abilities), q)

    @property
    def said(self) -> Mapping[str, Any]:
        """Options that are stored with the draws."""
        return {"structure": self.structure}

    @property
    def engines(self) -> tuple[Method, ...]:
        """Engines that can sample the posterior."""
        return "blocked", "nuts"

    def parameters(
        self,
        n_subjects: int,
        n_items: int,
        **known: Any,
    ) -> tuple[Array, ...]:
        """Draw abilities, the matrix of slopes (0 where Q is 0) and intercepts."""
        needs = self.needs.needs
        n_items, n_abilities = needs.shape
        root = _root_of_correlations(n_abilities, self.structure)
        theta = abilities(n_subjects, root, **known)
        mu_a, sigma_a = sample("mu_a", Normal(0, 0.5)), sample("sigma_a", HalfNormal(0.5))
        with plate("loading", int(needs.sum())):
            a = sample("a", LogNormal(mu_a, sigma_a))
        slopes = jnp.zeros(needs.shape).at[needs.nonzero()].set(a)
        mu_d, sigma_d = sample("mu_d", Normal(0, 2)), sample("sigma_d", HalfNormal(2))
        sigma_beta = sample("sigma_beta", HalfNormal(1))
        with plate("ability", n_abilities):
            beta = sample("beta", Normal(0, sigma_beta))
            mu_b = sample("mu_b", Normal(0, MU_B_SD))
        with plate("item", n_items):
            mean = mu_d + jnp.asarray(needs, float) @ beta - slopes @ mu_b
            d = sample("d", Normal(mean, sigma_d))
        return theta, slopes, d

    def answers(self, drawn: tuple[Array, ...], trials: Counts, successes: Counts | None) -> None:
        """Draw the number of right answers."""
        theta, slopes, d = drawn
        right_answers("logit", theta @ slopes.T + d, trials, successes)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The levels of the abilities."""
        move = partial(_levels, self.needs)
        return (Line("levels", move, "theta", normal=True, shape=(self.needs.n_abilities,)),)

    def loadings(self, n_items: int) -> Loadings:  # noqa: ARG002
        """Return the Q-matrix."""
        return self.needs

    def describe(self) -> str:
        """Return a short description of the model and its assumptions."""
        return f"{self.title}, {self.structure} abilities"
