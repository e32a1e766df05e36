"""A model of unbounded scores with normal errors.

    z_ij ~ N(a_j θ_i + d_j, noise_j² + .02²),  log noise_j ~ N(μ_noise, .5),  μ_noise ~ N(0, 1)

The rest is as in the 2PL; this is the congeneric model of test theory (Jöreskog 1971). z is -4 at
the lowest score of all and 4 at the highest. The noise has a floor of .02, a quarter of a percent
of that range, because an item on which all subjects score the same would drive its noise to zero.
For the same reason the spread of log noise between items is fixed, not learned.
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
"""Prior mean of the items' mean of log noise, and spread between items."""
MU_SD = 1.0


@dataclass(frozen=True)
class Normal(TwoPL):
    """Normal model for unbounded scores; the abilities and slopes are those of the 2PL.

    Raises
    ------
    ResponseError
        If the link is probit or the priors are fixed.
    """

    name: ClassVar[str] = "normal"
    title: ClassVar[str] = "normal response model"
    meaning: ClassVar[str] = (
        "The score on an item rises linearly with the subject's ability, and its errors are normal "
        "(Jöreskog, 1971)"
    )
    covers: ClassVar[str] = "92% of true abilities with 60 x 40 responses"
    takes: ClassVar[Kind] = "unbounded"
    known_spreads: ClassVar[bool] = True
    hierarchical: ClassVar[bool] = True
    dims: ClassVar[Mapping[str, list[str]]] = DIMS | {"noise": ["item"]}

    def suited_to(self, responses: Responses) -> "Normal":
        """Return the model; bounded scores are allowed too, to see what difference bounds make."""
        scale = responses.scale
        if scale is None or scale.kind != "continuous":
            refuse_other_answers(scale, self.name, self.takes)
        return self

    @property
    def family(self) -> Family:
        """Normally distributed scores."""
        return NORMAL

    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> tuple[Array, ...]:
        """Draw ability, discrimination, intercept and noise."""
        theta, a, d = super().parameters(n_subjects, n_items, **known)
        centre, sigma = USUAL["noise"]
        mu_noise = sample("mu_noise", Gaussian(centre, MU_SD))
        with plate("item", n_items):
            noise = sample("noise", LogNormal(mu_noise, sigma))
        return theta, a, d, noise

    def answers(self, drawn: tuple[Array, ...], trials: Counts, successes: Counts | None) -> None:
        """Draw scores on the scale of z, or condition on those given."""
        theta, a, d, noise = drawn
        seen = None
        if successes is not None:
            seen = SPAN * (successes / jnp.maximum(trials, 1) - 0.5)
        about = Gaussian(theta[:, None] * a + d, jnp.sqrt(noise**2 + FLOOR**2))
        sample("scores", about.mask(trials > 0), obs=seen)

    @property
    def usual(self) -> Mapping[str, tuple[float, float]]:
        """Typical (μ, σ) of the logarithm of the noise."""
        return USUAL
