"""Prediction of answers to unanswered items, from their rows of the Q-matrix alone."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Float
from numpy.typing import NDArray

from bayesirt.data.q_matrix import QMatrix
from bayesirt.errors import ResponseError
from bayesirt.likelihood.families import LOGIT
from bayesirt.names import counted, one_line
from bayesirt.posterior import TAILS, Posterior
from bayesirt.random_keys import Key, as_key

NewItems = Literal["learnt", "neutral"]

_MOST_DRAWS = 2000


@dataclass(frozen=True, eq=False, repr=False)
class ItemPredictions:
    """Predicted probabilities of right answers to items without responses."""

    subjects: tuple[str, ...]
    items: tuple[str, ...]
    # shape (subject, item). The predictive probability of a right answer, and the 90% interval of
    # the probability on this particular item.
    probability: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    # One row per subject, best first: its expected `score` over these items and the 90% interval
    # (`low`, `high`) of its observed score on them, with one trial each.
    scores: pd.DataFrame

    def __repr__(self) -> str:
        return f"<ItemPredictions: {len(self.subjects)} subjects x {len(self.items)} items>"

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row per subject and item: `probability`, `low` and `high`."""
        shape = self.probability.shape
        return pd.DataFrame(
            {
                "subject": np.repeat(np.asarray(self.subjects, object), shape[1]),
                "item": np.tile(np.asarray(self.items, object), shape[0]),
                "probability": self.probability.ravel(),
                "low": self.low.ravel(),
                "high": self.high.ravel(),
            }
        )

    def to_text(self) -> str:
        """Return the conclusion in a sentence."""
        best = self.scores.iloc[0]
        items = counted(len(self.items), "item")
        return (
            f"{items} without responses: {one_line(best['subject'])} is expected to answer the "
            f"most right, {best['score']:.0%} ({best['low']:.0%} to {best['high']:.0%})."
        )


def predict_items(
    posterior: Posterior,
    q: QMatrix,
    *,
    key: Key,
    new_items: NewItems = "learnt",
    max_draws: int = _MOST_DRAWS,
) -> ItemPredictions:
    """Predict the answers to items that the posterior has not seen.

    Parameters
    ----------
    posterior : Posterior
        Posterior of the Q-matrix model.
    q : QMatrix
        Q-matrix with a row for each new item, and the abilities of the posterior; rows of items
        that the posterior has seen are ignored.
    key : jax.random.key or int
    new_items : {"learnt", "neutral"}
        Parameters of the new items: from the population of items in the posterior, given the
        abilities that an item needs; or, as in the paper, the same for all items, here a slope of 1
        and an intercept of 0.
    max_draws : int
        If there are more draws, they are thinned evenly.

    Returns
    -------
    ItemPredictions

    Raises
    ------
    ResponseError
        If there is no row of a new item, or the abilities are not those of the posterior.

    Notes
    -----
    For each draw of the posterior, new items are drawn from its own population, log a ~ N(μ_a, σ_a)
    and d ~ N(μ_d + Σ_k q_k (β_k - μ_bk a_k), σ_d), so that intervals include the uncertainty about
    subjects, about items in general and about these items. Scores also include chance in answering.

    References
    ----------
    Zhang et al. (2026), section 2.4, whose items have difficulty .5 and discrimination 1.

    Examples
    --------
    >>> import jax
    >>> from bayesirt import RunOptions, sample_q_mirt, simulate_q_mirt
    >>> q = QMatrix.from_arrays([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])
    >>> responses = simulate_q_mirt(30, q, key=jax.random.key(0)).responses
    >>> options = RunOptions(num_warmup=50, num_samples=50)
    >>> posterior = sample_q_mirt(responses, q, key=jax.random.key(1), options=options)
    >>> new = QMatrix.from_arrays([[1, 1]], ["new"], ["ability 1", "ability 2"])
    >>> predict_items(posterior, new, key=jax.random.key(2))
    <ItemPredictions: 30 subjects x 1 items>
    """
    key = as_key(key)
    items, needs = _new_rows(posterior, q)
    thin = -(-len(posterior.draws("mu_a")) // max_draws)
    names = ("theta", "mu_a", "sigma_a", "mu_d", "sigma_d", "beta")
    draws = {name: jnp.asarray(posterior.draws(name)[::thin]) for name in names}
    draws["mu_b"] = jnp.asarray(lean_of(posterior)[::thin])
    predictions = _predict(draws, jnp.asarray(needs), key, neutral=new_items == "neutral")
    probability, low, high, scores = (np.asarray(x) for x in predictions)
    bounds = np.quantile(scores, TAILS, axis=0)
    table = pd.DataFrame(
        {
            "subject": posterior.subjects,
            "score": probability.mean(1),
            "low": bounds[0],
            "high": bounds[1],
        }
    ).sort_values("score", ascending=False, kind="stable", ignore_index=True)
    return ItemPredictions(tuple(posterior.subjects), items, probability, low, high, table)


def lean_of(posterior: Posterior) -> NDArray[np.floating]:
    """Return draws of the dependence of intercepts on slopes, 0 for posteriors of version 0.1.0."""
    if "mu_b" in posterior.dataset:
        return posterior.draws("mu_b")
    return np.zeros_like(posterior.draws("beta"))


def _new_rows(posterior: Posterior, q: QMatrix) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    """Return the items without responses and their rows, with the posterior's order of columns."""
    abilities = [str(x) for x in posterior.dataset["ability"].values]
    unknown = [x for x in q.abilities if x not in set(abilities)]
    if unknown:
        raise ResponseError(
            f"the posterior has no ability {one_line(unknown[0])!r}; predict items with the "
            f"abilities that it was drawn with"
        )
    seen = set(posterior.items)
    rows = [j for j, name in enumerate(q.items) if name not in seen]
    if not rows:
        raise ResponseError(
            "every row of the Q-matrix is of an item with responses; add rows of new items"
        )
    needs = np.zeros((len(rows), len(abilities)), bool)
    needs[:, [abilities.index(x) for x in q.abilities]] = q.needs[rows]
    return tuple(q.items[j] for j in rows), needs


@partial(jax.jit, static_argnames="neutral")
def _predict(
    draws: dict[str, Array], needs: Bool[Array, "item ability"], key: Array, *, neutral: bool
) -> tuple[Float[Array, "subject item"], ...]:
    """Return the probabilities, their intervals and draws of scores, one item at a time."""
    n_draws, n_subjects, n_abilities = draws["theta"].shape
    keys = jax.random.split(key, (len(needs), 3))
    tails = jnp.asarray(TAILS)

    def one_item(scores: Array, item: tuple[Array, Array]) -> tuple[Array, tuple[Array, ...]]:
        indicators, (of_slopes, of_level, of_answers) = item
        if neutral:
            slopes, level = jnp.ones((n_draws, n_abilities)), jnp.zeros(n_draws)
        else:
            z = jax.random.normal(of_slopes, (n_draws, n_abilities))
            slopes = jnp.exp(draws["mu_a"][:, None] + draws["sigma_a"][:, None] * z)
            level = draws["mu_d"] + (draws["beta"] - draws["mu_b"] * slopes) @ indicators
            level += draws["sigma_d"] * jax.random.normal(of_level, (n_draws,))
        eta = jnp.einsum("sik,sk->si", draws["theta"], slopes * indicators) + level[:, None]
        p = LOGIT.probability(eta)
        right = jax.random.uniform(of_answers, p.shape) < p
        return scores + right, (p.mean(0), *jnp.quantile(p, tails, axis=0))

    start = jnp.zeros((n_draws, n_subjects))
    indicators = needs.astype(draws["theta"].dtype)
    scores, (p, low, high) = jax.lax.scan(one_item, start, (indicators, keys))
    return p.T, low.T, high.T, scores / len(needs)
