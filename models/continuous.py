"""The ordered beta model (Kubinec 2023) for scores in [0, 1], some of them exactly 0 or 1.

    η_ij = a_j θ_i + d_j
    P(y_ij > 0) = sigmoid(η_ij + shift_j + gap_j / 2)
    P(y_ij = 1) = sigmoid(η_ij + shift_j - gap_j / 2)
    y_ij | 0 < y_ij < 1 ~ Beta(μ_ij φ_j, (1 - μ_ij) φ_j),  μ_ij = sigmoid(η_ij)
    log gap_j ~ N(μ_gap, 1),  μ_gap ~ N(1, 1);  log φ_j ~ N(μ_φ, .5),  μ_φ ~ N(1.5, 1)
    shift_j ~ N(μ_shift, 1.5),  μ_shift ~ N(0, 1)

The rest is as in the 2PL. The gap determines how many of an item's scores lie between the ends, and
the shift which end gets more of the others. φ is the precision of scores between the ends: their
variance is μ (1 - μ) / (1 + φ). The spreads of gap and φ between items are fixed, not learned: an
item whose scores are all 0 or 1, or all equal in between, would drive them to infinity. Scores are
stored in ten-thousandths, and a score between the ends is never rounded to an end: the values next
to the ends carry the probability of all scores between the ends that are closest to them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro
from jax.scipy.special import betaln
from jaxtyping import Array
from numpyro import plate, sample
from numpyro.distributions import Beta, LogNormal, Normal

from bayesirt.data.scales import PARTS, Kind
from bayesirt.errors import ResponseError
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.ordered_beta import ORDERED_BETA
from bayesirt.models.response_model import Counts
from bayesirt.models.two_pl import DIMS, TwoPL

USUAL = {"gap": (1.0, 1.0), "phi": (1.5, 0.5), "shift": (0.0, 1.5)}
"""Prior mean of the items' mean, and spread between items, of log gap, log φ and shift."""
MU_SD = 1.0


@dataclass(frozen=True)
class Continuous(TwoPL):
    """Ordered beta model for scores in [0, 1]; the abilities and slopes are those of the 2PL.

    Raises
    ------
    ResponseError
        If the link is probit or the priors are fixed.
    """

    name: ClassVar[str] = "continuous"
    title: ClassVar[str] = "continuous response model"
    meaning: ClassVar[str] = (
        "The score on an item rises with the subject's ability according to an ordered beta "
        "regression, with probabilities of exactly zero and of the full score (Kubinec, 2023)"
    )
    covers: ClassVar[str] = "92% of true abilities and 91% of slopes with 60 x 40 responses"
    takes: ClassVar[Kind] = "continuous"
    simpler: ClassVar[str] = "normal"
    known_spreads: ClassVar[bool] = True
    hierarchical: ClassVar[bool] = True
    dims: ClassVar[Mapping[str, list[str]]] = DIMS | {name: ["item"] for name in USUAL}

    @property
    def family(self) -> Family:
        """Scores with mass at both ends."""
        return ORDERED_BETA

    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> tuple[Array, ...]:
        """Draw ability, discrimination, intercept, gap, φ and shift."""
        drawn = super().parameters(n_subjects, n_items, **known)
        values = []
        for name, (usual, sigma) in USUAL.items():
            mu = sample(f"mu_{name}", Normal(usual, MU_SD))
            with plate("item", n_items):
                values.append(sample(name, (Normal if name == "shift" else LogNormal)(mu, sigma)))
        return *drawn, *values

    def answers(self, drawn: tuple[Array, ...], trials: Counts, successes: Counts | None) -> None:
        """Condition on scores; this model cannot simulate them."""
        if successes is None:
            raise ResponseError("the continuous model cannot draw scores; pass successes")
        theta, a, d, gap, phi, shift = drawn
        eta = theta[:, None] * a + d
        inside = (successes > 0) & (successes < trials)
        some, whole = (1 / (1 + jnp.exp(-(eta + shift + x))) for x in (gap / 2, -gap / 2))
        y = jnp.where(inside, successes / jnp.maximum(1.0 * trials, 1), 0.5)
        mu = 1 / (1 + jnp.exp(-eta))
        beta = Beta(mu * phi, (1 - mu) * phi)
        alpha = jnp.where(successes == 1, mu, 1 - mu) * phi
        edge = alpha * jnp.log(1.5 / PARTS) - jnp.log(alpha) - betaln(mu * phi, (1 - mu) * phi)
        at_edge = (successes == 1) | (successes == trials - 1)
        between = jnp.where(at_edge, edge + jnp.log(PARTS), beta.log_prob(y))
        log_density = jnp.where(inside, jnp.log(some - whole) + between, jnp.log1p(-some))
        log_density = jnp.where(successes >= trials, jnp.log(whole), log_density)
        numpyro.factor("scores", jnp.where(trials > 0, log_density, 0))

    @property
    def usual(self) -> Mapping[str, tuple[float, float]]:
        """Typical (μ, σ) of log gap, log φ and shift."""
        return USUAL
