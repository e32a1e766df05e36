"""The information that grades would lose if they were cut into right and wrong."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesirt.likelihood.families import family_named
from bayesirt.posterior import Posterior

_DRAWS, _MOST_CELLS = 20, 20_000_000


class CutLoss(NamedTuple):
    """The best cut of a scale into right and wrong, and the share of information it keeps."""

    level: str  # The lowest grade that is right.
    share: float  # Share of the information about abilities that is left.

    def to_text(self) -> str:
        """Return in a sentence what a cut would cost."""
        return (
            f"Cut into right and wrong (at best with {self.level!r} or better as right), these "
            f"answers would tell {self.share:.0%} as much about abilities: {1 / self.share:.1f} "
            f"times as many questions would be needed."
        )


def cut_loss(posterior: Posterior) -> CutLoss | None:
    """Compare the information of grades with that of the best cut; None for other answers.

    The probability of reaching a level is logistic in η, with the information p (1 - p) about η;
    both informations are summed over the observed cells, at draws of all parameters.
    """
    answers, link = posterior.answers, posterior.link
    if answers is None or answers.kind != "graded":
        return None
    most = max(1, min(_DRAWS, _MOST_CELLS // posterior.trials.size))
    draws = tuple(jnp.asarray(posterior.draws(name, most)) for name in posterior.parameters)
    seen = jnp.asarray(posterior.trials > 0)

    @jax.jit
    def of_draw(draw: tuple[jax.Array, ...]) -> tuple[jax.Array, list[jax.Array]]:
        theta, a, d, *further = draw
        family, eta = family_named(link).given(further), theta[:, None] * a + d
        assert family.law is not None
        assert family.law.levels is not None
        weight = jnp.where(seen, a**2, 0)
        cuts = [(weight * p * (1 - p)).sum() for _, p in family.law.levels(eta)]
        return (weight * family.expected_information(eta)).sum(), cuts

    whole, cuts = jax.lax.map(of_draw, draws)
    shares = [float(cut.sum() / whole.sum()) for cut in cuts]
    best = int(np.argmax(shares))
    return CutLoss(answers.labels[best + 1], shares[best])
