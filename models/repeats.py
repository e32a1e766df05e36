"""The 2PL for dependent runs of a question (beta-binomial); an agent's runs are often dependent.

    successes_ij ~ BetaBinomial(trials_ij, μ_ij φ_j, (1 - μ_ij) φ_j),  logit μ_ij = a_j θ_i + d_j
    log φ_j ~ N(μ_φ, σ_φ),  μ_φ ~ N(1, 1),  σ_φ ~ HalfNormal(.5)

The rest is as in the 2PL. A subject's success probability on an item varies about what its ability
predicts: a subject that knows how to solve the item does so in nearly every run. Two runs of one
item have correlation 1 / (1 + φ_j); for large φ they are practically independent, as in the 2PL.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array
from numpyro import plate, sample
from numpyro.distributions import BetaBinomial, HalfNormal, LogNormal, Normal

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.likelihood.beta_binomial import BETA_BINOMIAL
from bayesirt.likelihood.family import Family
from bayesirt.models.response_model import Counts
from bayesirt.models.two_pl import DIMS, TwoPL

MU_PHI_MEAN, MU_PHI_SD, SIGMA_PHI_SCALE = 1.0, 1.0, 0.5


@dataclass(frozen=True)
class Repeats(TwoPL):
    """2PL for dependent runs of the same question (beta-binomial).

    Raises
    ------
    ResponseError
        If the link is probit or the priors are fixed.
    """

    name: ClassVar[str] = "repeats"
    title: ClassVar[str] = "2PL with dependent runs"
    meaning: ClassVar[str] = (
        f"{TwoPL.meaning}; runs of one subject on one item share a probability that is "
        "beta-distributed about it (beta-binomial; Skellam, 1948)"
    )
    covers: ClassVar[str] = (
        "92% of true abilities and 94% of slopes with five runs each of 60 x 40 responses"
    )
    simpler: ClassVar[str | None] = "2pl"
    hierarchical: ClassVar[bool] = True
    dims: ClassVar[Mapping[str, list[str]]] = DIMS | {"phi": ["item"]}

    def suited_to(self, responses: Responses) -> "Repeats":
        """Return the model if any question was run more than once."""
        super().suited_to(responses)
        if responses.cells.totals(0).trials.sum() <= responses.n_observed:
            raise ResponseError(
                "no question was run more than once, so runs cannot depend on each other; leave "
                "out --repeats dependent"
            )
        return self

    @property
    def family(self) -> Family:
        """Beta-binomial responses."""
        return BETA_BINOMIAL

    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> tuple[Array, ...]:
        """Draw ability, discrimination, intercept and φ, the independence of runs."""
        theta, a, d = super().parameters(n_subjects, n_items, **known)
        mu_phi = sample("mu_phi", Normal(MU_PHI_MEAN, MU_PHI_SD))
        sigma_phi = sample("sigma_phi", HalfNormal(SIGMA_PHI_SCALE))
        with plate("item", n_items):
            phi = sample("phi", LogNormal(mu_phi, sigma_phi))
        return theta, a, d, phi

    def answers(self, drawn: tuple[Array, ...], trials: Counts, successes: Counts | None) -> None:
        """Draw the number of right runs."""
        theta, a, d, phi = drawn
        mu = 1 / (1 + jnp.exp(-(theta[:, None] * a + d)))
        runs = BetaBinomial(mu * phi, (1 - mu) * phi, trials).mask(trials > 0)
        sample("successes", runs, obs=successes)

    @property
    def usual(self) -> Mapping[str, tuple[float, float]]:
        """Typical (μ, σ) of log φ."""
        return {"phi": (MU_PHI_MEAN, SIGMA_PHI_SCALE)}
