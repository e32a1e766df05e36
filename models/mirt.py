"""The exploratory multidimensional 2PL (MIRT), in which every item may need every ability.

    successes_ij ~ Binomial(trials_ij, sigmoid(a_j · θ_i + d_j))
    θ_i ~ N(0, I); with clusters κ ~ U(0, 1), γ_c ~ N(0, κ I), θ_i ~ N(γ_c, (1 - κ) I)
    a_j ~ N(μ_a, Λ⁻¹),  μ_a ~ N(0, I),  Λ ~ Wishart(K + 2, I / s²),  s = .5
    d_j ~ N(μ_d - a_j · μ_b, σ_d),  μ_d ~ N(0, 2),  μ_b ~ N(0, 4 I),  σ_d ~ HalfNormal(2)

a_j and θ_i are vectors of length K. Rotating all θ, all a, μ_a, μ_b and Λ together changes neither
the likelihood nor the prior, so the axes are a convention that data cannot determine. Replacing θ
by θ + c and d_j by d_j - a_j · c changes no response probability and, since μ_b shifts with them,
not the items' prior either: θ ~ N(0, I) fixes the levels of abilities for any number of items. The
prior of the slopes' covariance Λ⁻¹ is proper and rotation invariant, has mean s² I and weighs as
much as one item. A full matrix, rather than one spread for all directions, shrinks the slopes of
abilities that the items hardly need towards 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int
from numpyro import plate, sample
from numpyro.distributions import (
    HalfNormal,
    MultivariateNormal,
    Normal,
    Uniform,
    Wishart,
)

from bayesirt.likelihood.loadings import Loadings
from bayesirt.models.response_model import Counts, Line, ResponseModel, Values
from bayesirt.models.two_pl import right_answers

USUAL_SPREAD = 0.5
"""s, the prior spread of slopes about their mean."""
MU_A_SD, MU_D_SD, MU_B_SD, SIGMA_D_SCALE = 1.0, 2.0, 2.0, 2.0
"""Prior scales of each element of μ_a, of μ_d, of each element of μ_b, and of σ_d."""

IDENTIFICATION = "each draw rotated or reflected to the point estimate's slopes (Procrustes)"
"""Convention that fixes the axes, which data cannot identify."""

DIMS = {
    "theta": ["subject", "ability"],
    "gamma": ["cluster", "ability"],
    "a": ["item", "ability"],
    "d": ["item"],
    "mu_a": ["ability"],
    "mu_b": ["ability"],
    "precision_a": ["ability", "ability_other"],
}


def abilities(
    n_subjects: int,
    root: Float[Array, "ability ability"],
    clusters: Int[ArrayLike, " subject"] | None = None,
    n_clusters: int = 0,
) -> Float[Array, "subject ability"]:
    """Draw abilities whose covariance has the Cholesky factor `root`; clusters share part of it."""
    centre, spread = jnp.zeros(len(root)), root
    if clusters is not None:
        icc = sample("icc", Uniform(0, 1))
        with plate("cluster", n_clusters):
            of_clusters = MultivariateNormal(centre, scale_tril=jnp.sqrt(icc) * root)
            centre = sample("gamma", of_clusters)[clusters]
        spread = jnp.sqrt(1 - icc) * root
    with plate("subject", n_subjects):
        return sample("theta", MultivariateNormal(centre, scale_tril=spread))


def levels(slopes: Float[Array, "item ability"], values: Values, t: Array) -> dict[str, Array]:
    """Shift abilities by the vector t, and items such that η = a · θ + d and its prior stay."""
    raised = {name: values[name] + t for name in ("theta", "gamma", "mu_b") if name in values}
    return raised | {"d": values["d"] - slopes @ t}


def _levels(values: Values, t: Array) -> dict[str, Array]:
    return levels(values["a"], values, t)


@dataclass(frozen=True)
class Mirt(ResponseModel):
    """Exploratory multidimensional 2PL: every item may need every ability.

    Attributes
    ----------
    n_abilities : int
        Number of abilities, K.
    """

    n_abilities: int

    name: ClassVar[str] = "mirt"
    title: ClassVar[str] = "MIRT 2PL"
    meaning: ClassVar[str] = (
        "The log odds of a right answer are a weighted sum of the subject's abilities"
    )
    dims: ClassVar[Mapping[str, list[str]]] = DIMS

    @property
    def said(self) -> Mapping[str, Any]:
        """Options that are stored with the draws."""
        return {"n_abilities": self.n_abilities, "identification": IDENTIFICATION}

    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> tuple[Array, ...]:
        """Draw abilities, slopes and intercepts."""
        zero, identity = jnp.zeros(self.n_abilities), jnp.eye(self.n_abilities)
        theta = abilities(n_subjects, identity, **known)
        mu_a = sample("mu_a", MultivariateNormal(zero, MU_A_SD**2 * identity))
        spread = Wishart(self.n_abilities + 2, rate_matrix=USUAL_SPREAD**2 * identity)
        precision_a = sample("precision_a", spread)
        mu_d = sample("mu_d", Normal(0, MU_D_SD))
        mu_b = sample("mu_b", MultivariateNormal(zero, MU_B_SD**2 * identity))
        sigma_d = sample("sigma_d", HalfNormal(SIGMA_D_SCALE))
        with plate("item", n_items):
            a = sample("a", MultivariateNormal(mu_a, precision_matrix=precision_a))
            d = sample("d", Normal(mu_d - a @ mu_b, sigma_d))
        return theta, a, d

    def answers(self, drawn: tuple[Array, ...], trials: Counts, successes: Counts | None) -> None:
        """Draw the number of right answers."""
        theta, a, d = drawn
        right_answers("logit", theta @ a.T + d, trials, successes)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The levels of the abilities."""
        return (Line("levels", _levels, "theta", normal=True, shape=(self.n_abilities,)),)

    def loadings(self, n_items: int) -> Loadings:
        """Return full loadings: every item may need every ability."""
        return Loadings(n_items, self.n_abilities)

    def describe(self) -> str:
        """Return a short description of the model and its assumptions."""
        return f"{self.title}, {self.n_abilities} abilities"
