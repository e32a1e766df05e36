"""A model of scores in [0, 1], some of them exactly 0 or 1 (ordered beta; Kubinec 2023).

    η_ij = a_j θ_i + d_j
    P(y_ij > 0) = sigmoid(η_ij + shift_j + gap_j / 2)
    P(y_ij = 1) = sigmoid(η_ij + shift_j - gap_j / 2)
    y_ij | 0 < y_ij < 1 ~ Beta(μ_ij φ_j, (1 - μ_ij) φ_j),  μ_ij = sigmoid(η_ij)
    log gap_j ~ N(μ_gap, 1),  μ_gap ~ N(1, 1);  log φ_j ~ N(μ_φ, .5),  μ_φ ~ N(1.5, 1)
    shift_j ~ N(μ_shift, 1.5),  μ_shift ~ N(0, 1)

and all else as in the 2PL. The gap says how much of an item's scores lies between the ends, and the
shift which end has more than what lies between would say. φ says how close that comes to what is
expected: the variance inside is μ (1 - μ) / (1 + φ). How far items
differ in both is not learned: an item that was only ever 0 or 1, or inside always the same, would
draw it to infinity. Scores are kept in ten-thousandths, so that one between the ends is never taken
for an end; the parts next to the ends have the probability of all scores that are nearer to them
than to the next.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpyro
from jax.scipy.special import betaln
from jaxtyping import Array, Float, Int
from numpyro import plate, sample
from numpyro.distributions import Beta, LogNormal, Normal

from bayesirt.data.scales import PARTS, Kind
from bayesirt.errors import ResponseError
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.ordered_beta import ORDERED_BETA
from bayesirt.models.priors import Priors
from bayesirt.models.two_pl import DIMS, TwoPL, two_pl_parameters

USUAL = {"gap": (1.0, 1.0), "phi": (1.5, 0.5), "shift": (0.0, 1.5)}
"""Of each, or its logarithm, where its mean lies beforehand, and how far items differ."""
MU_SD = 1.0


class ContinuousParameters(NamedTuple):
    """What the continuous model draws before it sees data."""

    theta: Float[Array, " subject"]  # Ability, in standard deviations of the assumed population.
    # Discrimination, intercept, distance of the ends' thresholds, precision between the ends, and
    # how far the thresholds lie from what is expected there.
    a: Float[Array, " item"]
    d: Float[Array, " item"]
    gap: Float[Array, " item"]
    phi: Float[Array, " item"]
    shift: Float[Array, " item"]


def continuous_model(
    trials: Int[Array, "subject item"],
    successes: Int[Array, "subject item"],
    *,
    priors: Priors | None = None,
) -> None:
    """Define the continuous model.

    Parameters
    ----------
    trials : int array, shape (subject, item)
        10,000, or 0 where the item was not run.
    successes : int array, shape (subject, item)
        Scores, in ten-thousandths.
    priors : Priors, optional
    """
    n_subjects, n_items = trials.shape
    theta, a, d, gap, phi, shift = continuous_parameters(n_subjects, n_items, priors or Priors())
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
    said = jnp.where(inside, jnp.log(some - whole) + between, jnp.log1p(-some))
    said = jnp.where(successes >= trials, jnp.log(whole), said)
    numpyro.factor("scores", jnp.where(trials > 0, said, 0))


def continuous_parameters(
    n_subjects: int,
    n_items: int,
    priors: Priors,
    **known: Any,
) -> ContinuousParameters:
    """Draw subjects and items from their priors: the continuous model without data.

    Parameters
    ----------
    n_subjects, n_items : int
    priors : Priors
    **known
        Clusters and design, as in `two_pl_parameters`.

    Returns
    -------
    ContinuousParameters
    """
    theta, a, d = two_pl_parameters(n_subjects, n_items, priors, **known)
    drawn = []
    for name, (usual, sigma) in USUAL.items():
        mu = sample(f"mu_{name}", Normal(usual, MU_SD))
        with plate("item", n_items):
            drawn.append(sample(name, (Normal if name == "shift" else LogNormal)(mu, sigma)))
    return ContinuousParameters(theta, a, d, *drawn)


@dataclass(frozen=True)
class Continuous(TwoPL):
    """The continuous model as the package takes it: what it has beside the 2PL.

    Raises
    ------
    ResponseError
        For a normal response curve, or fixed priors.
    """

    name: ClassVar[str] = "continuous"
    title: ClassVar[str] = "continuous response model"
    takes: ClassVar[Kind] = "continuous"
    simpler: ClassVar[str] = "normal"
    known_spreads: ClassVar[bool] = True
    dims: ClassVar[Mapping[str, list[str]]] = DIMS | {name: ["item"] for name in USUAL}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link != "logit":
            raise ResponseError("continuous has logistic curves; leave link out")
        if self.priors.kind == "fixed":
            raise ResponseError("continuous has hierarchical priors; leave out --priors fixed")

    @property
    def family(self) -> Family:
        """Scores with mass at both ends."""
        return ORDERED_BETA

    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> ContinuousParameters:
        """Draw from the prior."""
        return continuous_parameters(n_subjects, n_items, self.priors, **known)

    @property
    def usual(self) -> Mapping[str, tuple[float, float]]:
        """Of the logarithms of gap and φ, and of the shift."""
        return USUAL
