"""A fallback to equal slopes if chains with different slopes do not converge.

Items on which the proportion correct does not rise with ability pull log a towards -∞. If there are
many, they make the spread σ_a so large that single items may become too steep for abilities to move
past them.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bayesirt.models import Priors
from bayesirt.posterior import Posterior

WIDE = 1.5
"""σ_a above which 5% of slopes exceed twelve times the median, which real tests do not show."""


def with_other_slopes(
    posterior: Posterior, priors: Priors, draw: Callable[[Priors], Posterior]
) -> tuple[Posterior, Priors, str]:
    """Draw again with equal slopes if positive slopes keep chains from converging.

    Returns the new draws and their priors if they are sound, else the given ones, and a sentence on
    what was done, if anything.
    """
    if not _slopes_wander(posterior):
        return posterior, priors, ""
    equal = replace(priors, slopes="rasch")
    other = draw(equal)
    why = "Many items are not solved more often by better subjects, and slopes did not converge"
    if other.verdict.sound:
        return (
            other,
            equal,
            (
                f"{why}: all items have equal slopes here (--slopes rasch). To see on which items "
                f"better subjects do worse, try --slopes free."
            ),
        )
    return posterior, priors, f"{why}; with equal slopes, abilities did not converge either."


def _slopes_wander(posterior: Posterior) -> bool:
    if posterior.verdict.sound or not posterior.complete:
        return False
    if "positive" not in posterior.tree.attrs["priors"] or "sigma_a" not in posterior.dataset:
        return False
    return bool(np.median(posterior.draws("sigma_a")) > WIDE)
