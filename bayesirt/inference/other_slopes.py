"""Equal slopes, where slopes that differ leave chains that do not converge.

Items that do not rise with ability pull log a towards -∞. Where there are many, the spread σ_a that
they ask for also lets single items rise so steeply that abilities cannot pass them.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bayesirt.models import Priors
from bayesirt.posterior import Posterior

WIDE = 1.5
"""σ_a beyond which 5% of slopes are twelve times the median, which tests do not have."""


def with_other_slopes(
    posterior: Posterior, priors: Priors, draw: Callable[[Priors], Posterior]
) -> tuple[Posterior, Priors, str]:
    """Draw again with equal slopes where positive ones are why chains do not converge.

    Returns the new draws and their priors if they are sound, else those that were given; and what
    was done, if anything.
    """
    if not _slopes_wander(posterior):
        return posterior, priors, ""
    equal = replace(priors, slopes="rasch")
    other = draw(equal)
    why = "Many items do not rise with ability, and the items' slopes did not converge"
    if other.verdict.sound:
        return (
            other,
            equal,
            (
                f"{why}: every item counts the same here (--slopes rasch). To see which items fall "
                f"with ability, try --slopes free."
            ),
        )
    return posterior, priors, f"{why}; nor did abilities where every item counts the same."


def _slopes_wander(posterior: Posterior) -> bool:
    if posterior.verdict.sound or not posterior.complete:
        return False
    if "positive" not in posterior.tree.attrs["priors"] or "sigma_a" not in posterior.dataset:
        return False
    return bool(np.median(posterior.draws("sigma_a")) > WIDE)
