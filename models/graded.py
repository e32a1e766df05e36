"""The graded response model (Samejima 1969), for answers with a few ordered grades.

    P(grade_ij ≥ m) = sigmoid(a_j θ_i + d_j + o_jm),  m = 1, ..., n
    o_j,m-1 - o_jm = gap_jm,  log gap_jm ~ N(μ_gap,m, σ_gap,m)
    μ_gap,m ~ N(log(4 / n), 1),  σ_gap,m ~ HalfNormal(.5)

The rest is as in the 2PL, which is the special case of two grades. The offset of the middle
threshold is 0, so that b_j = -d_j / a_j is the ability that reaches the upper half of the scale
half of the time. The width of each step is similar for most items: what a judge calls a 7 differs
little between questions. A grade that nobody gets has a narrow gap.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpyro import plate, sample
from numpyro.distributions import HalfNormal, LogNormal, Normal, OrderedLogistic

from bayesirt.data.responses import Responses
from bayesirt.data.scales import Kind
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.graded import gap_names, graded_family, offsets
from bayesirt.models.response_model import Counts
from bayesirt.models.two_pl import DIMS, TwoPL

ALL_GAPS, MU_GAP_SD, SIGMA_GAP_SCALE = 4.0, 1.0, 0.5


@dataclass(frozen=True)
class Graded(TwoPL):
    """Graded response model: a 2PL with ordered thresholds.

    Attributes
    ----------
    n : int
        Highest grade; the lowest is 0. By default it is taken from the responses.

    Raises
    ------
    ResponseError
        If the link is probit or the priors are fixed.
    """

    n: int = 0

    name: ClassVar[str] = "graded"
    title: ClassVar[str] = "graded response model"
    meaning: ClassVar[str] = (
        "The probability of each grade or a better one rises with the subject's ability according "
        "to the graded response model (Samejima, 1969)"
    )
    covers: ClassVar[str] = (
        "91% of true abilities, 92% of slopes and 88% to 90% of gaps with 60 x 40 responses"
    )
    takes: ClassVar[Kind] = "graded"
    hierarchical: ClassVar[bool] = True

    def suited_to(self, responses: Responses) -> "Graded":
        """Return the model with the number of grades in the responses."""
        super().suited_to(responses)
        return replace(self, n=1 if responses.scale is None else responses.scale.steps)

    @property
    def dims(self) -> Mapping[str, list[str]]:  # type: ignore[override]
        """Dimensions of each parameter."""
        return DIMS | {name: ["item"] for name in gap_names(self.n)}

    @property
    def family(self) -> Family:
        """Graded answers."""
        return graded_family(self.n)

    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> tuple[Array, ...]:
        """Draw ability, discrimination, intercept and the gaps between thresholds."""
        drawn = super().parameters(n_subjects, n_items, **known)
        gaps = []
        for name in gap_names(self.n):
            mu = sample(f"mu_{name}", Normal(jnp.log(ALL_GAPS / self.n), MU_GAP_SD))
            sigma = sample(f"sigma_{name}", HalfNormal(SIGMA_GAP_SCALE))
            with plate("item", n_items):
                gaps.append(sample(name, LogNormal(mu, sigma)))
        return *drawn, *gaps

    def answers(self, drawn: tuple[Array, ...], trials: Counts, successes: Counts | None) -> None:
        """Draw grades."""
        theta, a, d, *gaps = drawn
        eta = theta[:, None] * a + d
        thresholds = jnp.broadcast_to(-jnp.stack(offsets(*gaps), -1), (*eta.shape, self.n))
        grades = OrderedLogistic(eta, thresholds).mask(trials > 0)
        sample("successes", grades, obs=successes)

    @property
    def usual(self) -> Mapping[str, tuple[float, float]]:
        """Typical (μ, σ) of the logarithm of each gap."""
        usual = float(np.log(ALL_GAPS / self.n)), SIGMA_GAP_SCALE
        return dict.fromkeys(gap_names(self.n), usual)
