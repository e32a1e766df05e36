"""The 2PL with guessing (3PL), for questions with a few options to choose from.

    successes_ij ~ Binomial(trials_ij, c_j + (1 - c_j) sigmoid(a_j θ_i + d_j))
    logit c_j ~ N(μ_c, σ_c),  μ_c ~ N(-1.4, .7),  σ_c ~ HalfNormal(.5)

and all else as in the 2PL. c_j is the proportion correct of those who know nothing: people who
guess among four options have .25, and so have LLMs, unless an option is more tempting than the
truth. μ_c lies between .06 and .43 with a probability of 90%, since little else tells: items say
what their c is only by the answers of subjects to whom they are too hard. Where the number of
options is known, c may be fixed. The ability of a subject in whose answers all is guessed has no
floor to stand on; its interval is wide for that reason.
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
    """The 3PL as the package takes it: what it has beside the 2PL.

    Raises
    ------
    ResponseError
        For a normal response curve.
    """

    name: ClassVar[str] = "3pl"
    title: ClassVar[str] = "3PL"
    simpler: ClassVar[str | None] = "2pl"
    dims: ClassVar[Mapping[str, list[str]]] = DIMS | {"c": ["item"]}

    @classmethod
    def _refuse(cls, priors: Priors, *, wrong_lengths: bool) -> None:
        super()._refuse(replace(priors, guessing=None), wrong_lengths=wrong_lengths)

    @property
    def family(self) -> Family:
        """Binomial answers with a floor."""
        return GUESSING

    @property
    def engines(self) -> tuple[Method, ...]:
        """Engines that draw from its posterior."""
        return super().engines if self.priors.kind == "hierarchical" else ("blocked", "nuts")

    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> tuple[Array, ...]:
        """Draw ability, discrimination, intercept and proportion correct by guessing."""
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
        """Of logit c, unless it is fixed."""
        return {} if self.priors.guessing is not None else {"c": (MU_C_MEAN, SIGMA_C_SCALE)}
