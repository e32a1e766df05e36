"""Items that all subjects answer identically, beyond what chance explains."""

from functools import partial
from operator import itemgetter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, logsumexp
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.checks.fit.cell_residuals import Draw, thinned
from bayesirt.likelihood.families import family_named
from bayesirt.posterior import Posterior

_MOST_DRAWS, _CELL_DRAWS = 100, 500_000_000


class Agreement(NamedTuple):
    """Agreement of the answers to two items, and that expected if they share only the ability."""

    # shape (pair,). Log probability that every subject who answered both items has the same number
    # of right answers to each.
    log_all: NDArray[np.float64]
    share: NDArray[np.float64]  # shape (pair,). Expected share of these subjects that agree.
    # shape (pair,). Observed share. Both shares are NaN where no subject answered both.
    observed: NDArray[np.float64]


def identical_items(
    successes: NDArray[np.integer], trials: NDArray[np.integer]
) -> NDArray[np.intp]:
    """Return for each item the first one with the same answers and the same missing cells."""
    columns = np.concatenate([successes, trials]).T
    _, first, group = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    originals: NDArray[np.intp] = first[group.ravel()]
    return originals


def agreement(posterior: Posterior, first: NDArray[np.intp], second: NDArray[np.intp]) -> Agreement:
    """Compare the agreement of pairs of items with that expected from their parameters.

    Given a draw, P(all alike) = Π_i Σ_y P(y_ij = y) P(y_ik = y) over subjects that answered both
    equally often; it is averaged over draws (at most 100). Scores are not compared.
    """
    y, n = posterior.successes, posterior.trials
    if posterior.answers is not None and posterior.answers.fine:
        unknown = np.full(len(first), np.nan)  # scores are rarely equal except at the ends
        return Agreement(np.zeros(len(first)), unknown, unknown)
    both = (n[:, first] > 0) & (n[:, first] == n[:, second])
    common = both.sum(0)
    alike = (both & (y[:, first] == y[:, second])).sum(0)
    draws = thinned(posterior, min(_MOST_DRAWS, _CELL_DRAWS / max(both.size, 1)))
    counts = jnp.asarray(np.where(both, n[:, first], 0))
    places = jnp.asarray(first), jnp.asarray(second)
    values = _agreement(posterior.link, int(n.max()), counts, draws, places)
    log_all, expected = (np.asarray(x, np.float64) for x in values)
    with np.errstate(invalid="ignore"):
        return Agreement(log_all, expected / common, alike / common)


@partial(jax.jit, static_argnums=(0, 1))
def _agreement(
    link: str, most: int, trials: Array, draws: Draw, places: tuple[Array, Array]
) -> tuple[Float[Array, " pair"], Float[Array, " pair"]]:
    """Return the log probability that all agree, and the number expected to agree."""
    counted = family_named(link).counts  # otherwise a cell has a single answer

    def ways(y: Array) -> Array:
        wrong = jnp.maximum(trials - y, 0)
        return counted * (gammaln(trials + 1.0) - gammaln(y + 1.0) - gammaln(wrong + 1.0))

    def of_draw(draw: Draw) -> tuple[Array, Array]:
        sides = [draw.of_items(itemgetter(at)) for at in places]
        etas = [side.theta[:, None] * side.a + side.d for side in sides]
        terms = [side.answers(link).terms for side in sides]

        def add(y: Array, total: Array) -> Array:
            wrong = jnp.maximum(trials - y, 0)
            log_p = 2 * ways(y) + sum(
                term(eta, y, y + wrong).log_likelihood
                for term, eta in zip(terms, etas, strict=True)
            )
            return jnp.logaddexp(total, jnp.where(y <= trials, log_p, -jnp.inf))

        alike = jax.lax.fori_loop(0, most + 1, add, jnp.full_like(etas[0], -jnp.inf))
        return alike.sum(0), jnp.where(trials > 0, jnp.exp(alike), 0).sum(0)

    log_all, expected = jax.lax.map(of_draw, draws)
    return logsumexp(log_all, 0) - jnp.log(len(log_all)), expected.mean(0)
