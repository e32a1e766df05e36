"""A model of scores without bounds, normal about what is expected of them.

    z_ij ~ N(a_j θ_i + d_j, noise_j² + .02²),  log noise_j ~ N(μ_noise, .5),  μ_noise ~ N(0, 1)

and all else as in the 2PL, as in the congeneric model of test theory (Jöreskog 1971). z is -4 at
the lowest score of all and 4 at the highest. What is a quarter of a percent of that range is too
little to tell apart, since an item on which all score the same would draw its noise to nil. For the
same reason how far items differ in their noise is not learned.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from numpyro import plate, sample
from numpyro.distributions import LogNormal
from numpyro.distributions import Normal as Gaussian

from bayesirt.data.responses import Responses
from bayesirt.data.scales import Kind, refuse_other_answers
from bayesirt.errors import ResponseError
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.normal import FLOOR, NORMAL, SPAN
from bayesirt.models.priors import Priors
from bayesirt.models.two_pl import DIMS, TwoPL, two_pl_parameters

USUAL = {"noise": (0.0, 0.5)}
"""Of its logarithm, where its mean lies beforehand, and how far items differ."""
MU_SD = 1.0


class NormalParameters(NamedTuple):
    """What the normal model draws before it sees data."""

    theta: Float[Array, " subject"]  # Ability, in standard deviations of the assumed population.
    # Discrimination, intercept, and how far scores are from what is expected.
    a: Float[Array, " item"]
    d: Float[Array, " item"]
    noise: Float[Array, " item"]


def normal_model(
    trials: Int[Array, "subject item"],
    successes: Int[Array, "subject item"] | None = None,
    *,
    priors: Priors | None = None,
) -> None:
    """Define the normal model; without scores it draws them.

    Parameters
    ----------
    trials : int array, shape (subject, item)
        10,000, or 0 where the item was not run.
    successes : int array, shape (subject, item), optional
        Where scores lie between the lowest and the highest of all, in ten-thousandths.
    priors : Priors, optional
    """
    n_subjects, n_items = trials.shape
    theta, a, d, noise = normal_parameters(n_subjects, n_items, priors or Priors())
    about = Gaussian(theta[:, None] * a + d, jnp.sqrt(noise**2 + FLOOR**2))
    about = about.mask(trials > 0)
    if successes is None:
        sample("scores", about)
    else:
        sample("scores", about, obs=SPAN * (successes / jnp.maximum(trials, 1) - 0.5))


def normal_parameters(
    n_subjects: int,
    n_items: int,
    priors: Priors,
    **known: Any,
) -> NormalParameters:
    """Draw subjects and items from their priors: the normal model without data.

    Parameters
    ----------
    n_subjects, n_items : int
    priors : Priors
    **known
        Clusters and design, as in `two_pl_parameters`.

    Returns
    -------
    NormalParameters
    """
    theta, a, d = two_pl_parameters(n_subjects, n_items, priors, **known)
    centre, sigma = USUAL["noise"]
    mu_noise = sample("mu_noise", Gaussian(centre, MU_SD))
    with plate("item", n_items):
        noise = sample("noise", LogNormal(mu_noise, sigma))
    return NormalParameters(theta, a, d, noise)


@dataclass(frozen=True)
class Normal(TwoPL):
    """The normal model as the package takes it: what it has beside the 2PL.

    Raises
    ------
    ResponseError
        For a link, or fixed priors.
    """

    name: ClassVar[str] = "normal"
    title: ClassVar[str] = "normal response model"
    takes: ClassVar[Kind] = "unbounded"
    known_spreads: ClassVar[bool] = True
    dims: ClassVar[Mapping[str, list[str]]] = DIMS | {"noise": ["item"]}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link != "logit":
            raise ResponseError("normal has straight lines for curves; leave link out")
        if self.priors.kind == "fixed":
            raise ResponseError("normal has hierarchical priors; leave out --priors fixed")

    def suited_to(self, responses: Responses) -> "Normal":
        """Return the model, for scores with bounds too: to see what these change."""
        scale = responses.scale
        if scale is None or scale.kind != "continuous":
            refuse_other_answers(scale, self.name, self.takes)
        return self

    @property
    def family(self) -> Family:
        """Scores about what is expected."""
        return NORMAL

    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> NormalParameters:
        """Draw from the prior."""
        return normal_parameters(n_subjects, n_items, self.priors, **known)

    @property
    def usual(self) -> Mapping[str, tuple[float, float]]:
        """Of the logarithm of the noise."""
        return USUAL
