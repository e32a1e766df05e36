"""What the LaRT study simulates (Xu et al., 2026, section 5)."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.responses import Responses

_D_SD = np.sqrt(0.5)
"""The paper writes N(0, 0.5), and has variances in this place elsewhere."""


@dataclass(frozen=True)
class Condition:
    """One design."""

    n_subjects: int
    n_items: int
    rho: float  # Correlation of ability and speed.

    @property
    def is_papers(self) -> bool:
        """Whether the paper simulates this, in its section 5."""
        return (self.n_items, self.rho) == (50, -0.8) and self.n_subjects in (100, 200, 500)


class Suite(NamedTuple):
    """Responses with lengths whose parameters are known."""

    # theta and tau, shape (subject,); a, d, phi, omega and lam, shape (item,); rho.
    truth: dict[str, NDArray[np.float64]]
    responses: Responses


def draw_suite(condition: Condition, rng: np.random.Generator) -> Suite:
    """Draw parameters, answers and lengths.

    Xu et al. (2026), section 5: a ~ U(.5, 1), d ~ N(0, .5), ω ~ N(0, 1), φ ~ U(.5, 1.5), λ ~ U(.5,
    2).
    """
    n, j, rho = condition.n_subjects, condition.n_items, condition.rho
    theta, own = rng.normal(size=(2, n))
    tau = rho * theta + np.sqrt(1 - rho**2) * own
    a, d = rng.uniform(0.5, 1, j), _D_SD * rng.normal(size=j)
    phi, omega, lam = rng.uniform(0.5, 1.5, j), rng.normal(size=j), rng.uniform(0.5, 2, j)
    noise, residual = rng.normal(size=(2, n, j))
    right = theta[:, None] * a + d + noise > 0
    x = omega - tau[:, None] * phi + np.sqrt(lam) * residual
    responses = replace(Responses.from_arrays(right.astype(int)), latency=np.exp(x).ravel())
    truth = {"theta": theta, "tau": tau, "a": a, "d": d, "phi": phi, "omega": omega, "lam": lam}
    return Suite({**truth, "rho": np.asarray(rho)}, responses)
