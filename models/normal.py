"""A model of scores without bounds, normal about what is expected of them.

    z_ij ~ N(a_j θ_i + d_j, noise_j² + .02²),  log noise_j ~ N(μ_noise, .5),  μ_noise ~ N(0, 1)

and all else as in the 2PL, as in the congeneric model of test theory (Jöreskog 1971). z is -4 at
the lowest score of all and 4 at the highest. What is a quarter of a percent of that range is too
little to tell apart, since an item on which all score the same would draw its noise to nil. For the
same reason how far items differ in their noise is not learned.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array
from numpyro import plate, sample
from numpyro.distributions import LogNormal
from numpyro.distributions import Normal as Gaussian

from bayesirt.data.responses import Responses
from bayesirt.data.scales import Kind, refuse_other_answers
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.normal import FLOOR, NORMAL, SPAN
from bayesirt.models.response_model import Counts
from bayesirt.models.two_pl import DIMS, TwoPL

USUAL = {"noise": (0.0, 0.5)}
"""Of its logarithm, where its mean lies beforehand, and how far items differ."""
MU_SD = 1.0


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
    hierarchical: ClassVar[bool] = True
    dims: ClassVar[Mapping[str, list[str]]] = DIMS | {"noise": ["item"]}

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

    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> tuple[Array, ...]:
        """Draw ability, discrimination, intercept, and how far scores are from the expected."""
        theta, a, d = super().parameters(n_subjects, n_items, **known)
        centre, sigma = USUAL["noise"]
        mu_noise = sample("mu_noise", Gaussian(centre, MU_SD))
        with plate("item", n_items):
            noise = sample("noise", LogNormal(mu_noise, sigma))
        return theta, a, d, noise

    def answers(self, drawn: tuple[Array, ...], trials: Counts, successes: Counts | None) -> None:
        """Draw scores, between the lowest and the highest of all."""
        theta, a, d, noise = drawn
        seen = None
        if successes is not None:
            seen = SPAN * (successes / jnp.maximum(trials, 1) - 0.5)
        about = Gaussian(theta[:, None] * a + d, jnp.sqrt(noise**2 + FLOOR**2))
        sample("scores", about.mask(trials > 0), obs=seen)

    @property
    def usual(self) -> Mapping[str, tuple[float, float]]:
        """Of the logarithm of the noise."""
        return USUAL
