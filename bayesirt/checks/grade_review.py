"""Grades that an item does not use: never given, or nowhere the most probable."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.checks.fit.cell_residuals import Draw, thinned
from bayesirt.checks.fit.tail_probabilities import adjusted
from bayesirt.data.scales import Scale
from bayesirt.likelihood.graded import grade_probabilities, offsets
from bayesirt.posterior import Posterior

_MOST_DRAWS, _PLACES, _BEYOND = 200, 101, 1.0
_LIKELY = 0.5


def is_graded(scale: Scale | None) -> bool:
    """Return whether answers are grades."""
    return scale is not None and scale.kind == "graded"


def grades_by_item(posterior: Posterior, *, q: float) -> pd.DataFrame:
    """Find grades that individual items do not use.

    One row per item: `never_given` (grades that none of its answers has), `p_unused` (the least
    probability of that by chance, if grades had the same shares as among all answers) and `unused`
    (whether that is significant by Benjamini & Hochberg); `merged_grades` (grades in the middle
    that are more likely than not nowhere the most probable) and `p_merged`, the largest posterior
    probability that a grade is merged.

    Thresholds of the graded response model are ordered: where the answers suggest the reverse
    order they nearly coincide, and the grade between them is nowhere the most probable. Where this
    holds for a grade on most items (`idle_grades`), the scale is finer than the answers and no item
    is to blame, so these grades are left out.
    """
    labels = np.asarray(posterior.answers.labels, object)  # type: ignore[union-attr]
    seen = posterior.trials > 0
    counts = np.stack([((posterior.successes == k) & seen).sum(0) for k in range(len(labels))], 1)
    shares = counts.sum(0) / counts.sum()
    never = (counts == 0) & (shares > 0)
    p = np.where(never, (1 - shares) ** counts.sum(1, keepdims=True), 1.0)
    sure = adjusted(p.ravel()).reshape(p.shape) <= q
    nowhere = nowhere_probable(posterior)
    p_merged = np.where(_idle(nowhere), 0, nowhere)
    return pd.DataFrame(
        {
            "never_given": _named(labels, never),
            "p_unused": p.min(1),
            "unused": sure.any(1),
            "merged_grades": _named(labels, p_merged > _LIKELY),
            "p_merged": p_merged.max(1),
        }
    )


def idle_grades(posterior: Posterior) -> list[str]:
    """Return the grades that on most items are nowhere the most probable."""
    idle = _idle(nowhere_probable(posterior))
    return [
        label
        for label, no_use in zip(posterior.answers.labels, idle, strict=True)  # type: ignore[union-attr]
        if no_use
    ]


def nowhere_probable(posterior: Posterior) -> NDArray[np.float64]:
    """Return P(nowhere the most probable) for each item and grade; 0 at the ends of the scale."""
    draws = thinned(posterior, _MOST_DRAWS)
    return np.asarray(_share_nowhere(draws._replace(theta=jnp.zeros(()))), np.float64)


@jax.jit
def _share_nowhere(draws: Draw) -> Float[Array, "item grade"]:
    def of_draw(gaps: tuple[Array, ...]) -> Array:
        first, *_, last = o = offsets(*gaps)
        share = jnp.linspace(0, 1, _PLACES)[:, None]
        places = -(first + _BEYOND) + share * (first - last + 2 * _BEYOND)
        p = jnp.stack(grade_probabilities(places, *gaps), -1)  # place, item, grade
        anywhere = (p >= p.max(-1, keepdims=True)).any(0)
        ends = jnp.arange(len(o) + 1) % len(o) == 0
        return ~(anywhere | ends)

    return jax.lax.map(of_draw, draws.further).mean(0)


def _idle(nowhere: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the grades that are nowhere the most probable on most items."""
    idle: NDArray[np.bool_] = (nowhere > _LIKELY).mean(0) > _LIKELY
    return idle


def _named(labels: NDArray[np.object_], chosen: NDArray[np.bool_]) -> list[str]:
    return [", ".join(labels[row]) for row in chosen]
