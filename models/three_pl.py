"""The 2PL with guessing (3PL), for multiple-choice questions.

    successes_ij ~ Binomial(trials_ij, c_j + (1 - c_j) sigmoid(a_j θ_i + d_j))
    logit c_j ~ N(μ_c, σ_c),  μ_c ~ N(-1.4, .7),  σ_c ~ HalfNormal(.5)

The rest is as in the 2PL. c_j is the proportion correct of a subject who knows nothing: .25 for
guessing among four options, also for LLMs, unless a wrong option is more tempting than the right
one. The prior puts sigmoid(μ_c) between .07 and .44 with probability 90%. It has to be informative,
because only the answers of subjects for whom an item is too hard are informative about its c. Where
the number of options is known, c may be fixed. A subject who guesses all answers has an ability
without a lower bound, hence a wide interval.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array
from numpyro import deterministic, plate, sample
from numpyro.distributions import Binomial, HalfNormal, Normal, TransformedDistribution
from numpyro.distributions.transforms import SigmoidTransform

from bayesirt.likelihood.families import GUESSING
from bayesirt.likelihood.family import Family
from bayesirt.models.priors import Priors
from bayesirt.models.response_model import Counts, Method
from bayesirt.models.two_pl import DIMS, TwoPL

MU_C_MEAN, MU_C_SD, SIGMA_C_SCALE = -1.4, 0.7, 0.5


@dataclass(frozen=True)
class ThreePL(TwoPL):
    """Three-parameter logistic model: a 2PL with a guessing floor for each item.

    Raises
    ------
    ResponseError
        If the link is probit.
    """

    name: ClassVar[str] = "3pl"
    title: ClassVar[str] = "3PL"
    meaning: ClassVar[str] = (
        "The probability of a right answer rises with the subject's ability according to the "
        "three-parameter logistic model, which allows for guessing (Birnbaum, 1968)"
    )
    covers: ClassVar[str] = (
        "91% of true abilities, 94% of slopes and 91% of floors with 200 x 60 responses"
    )
    simpler: ClassVar[str | None] = "2pl"
    dims: ClassVar[Mapping[str, list[str]]] = DIMS | {"c": ["item"]}

    @classmethod
    def _refuse(cls, priors: Priors, *, wrong_lengths: bool) -> None:
        super()._refuse(replace(priors, guessing=None), wrong_lengths=wrong_lengths)

    @property
    def family(self) -> Family:
        """Binomial responses with a guessing floor."""
        return GUESSING

    @property
    def engines(self) -> tuple[Method, ...]:
        """Engines that can sample the posterior."""
        return super().engines if self.priors.kind == "hierarchical" else ("blocked", "nuts")

    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> tuple[Array, ...]:
        """Draw ability, discrimination, intercept and guessing floor."""
        theta, a, d = super().parameters(n_subjects, n_items, **known)
        if self.priors.guessing is not None:
            return theta, a, d, deterministic("c", jnp.full(n_items, self.priors.guessing))
        mu_c = sample("mu_c", Normal(MU_C_MEAN, MU_C_SD))
        sigma_c = sample("sigma_c", HalfNormal(SIGMA_C_SCALE))
        with plate("item", n_items):
            c = sample("c", TransformedDistribution(Normal(mu_c, sigma_c), SigmoidTransform()))
        return theta, a, d, c

    def answers(self, drawn: tuple[Array, ...], trials: Counts, successes: Counts | None) -> None:
        """Draw the number of right answers."""
        theta, a, d, c = drawn
        p = c + (1 - c) / (1 + jnp.exp(-(theta[:, None] * a + d)))
        sample("successes", Binomial(trials, p).mask(trials > 0), obs=successes)

    @property
    def usual(self) -> Mapping[str, tuple[float, float]]:
        """Typical (μ, σ) of logit c, unless c is fixed."""
        return {} if self.priors.guessing is not None else {"c": (MU_C_MEAN, SIGMA_C_SCALE)}
