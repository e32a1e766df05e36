"""Benchmarks that the best subjects have outgrown."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.bank.alarms import Alarm
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.suite.draws import on_device, roots_of
from bayesirt.estimators import lapack
from bayesirt.estimators.normal_beliefs import Abilities, Items
from bayesirt.names import one_line

SATURATED = 0.95
"""Proportion correct from which a benchmark or item hardly distinguishes the best subjects."""

LEAST_BEST = 5
"""Fewest subjects that count as the best, if a tenth are fewer."""

_N_DRAWS = 100
_COLUMNS = ["n_best", "best_accuracy", "p_saturated", "easy_share"]


def saturation(bank: ItemBank, abilities: Abilities, *, key: Array) -> pd.DataFrame:
    """Predict the proportion correct of the best subjects on each benchmark.

    Returns one row per benchmark: `n_best` (the best tenth of all subjects by expected suite score,
    at least 5), `best_accuracy` (their expected mean proportion correct over all items),
    `p_saturated` (the probability that it is .95 or more) and `easy_share` (the share of items that
    they are expected to get right with probability .95 or more).

    Each draw has its own abilities, given answers to anchors, and its own items.
    """
    bank_items, names = bank.items, list(bank.benchmark_names)
    belongs = np.array([names.index(name) for name in bank.benchmarks])
    home = np.eye(len(names))[belongs]
    home /= home.sum(0)
    items, _ = on_device(bank_items)
    dtype = items.d.dtype
    roots = jnp.asarray(roots_of(bank_items.covariance), dtype)
    best = _best(_suite_scores(abilities.mean, items, jnp.asarray(home.mean(1), dtype)))
    chosen = Abilities(*(x[best] for x in abilities))
    shares = np.asarray(_draws(chosen, items, roots, jax.random.split(key, _N_DRAWS)), np.float64)
    accuracy, easy = shares @ home, shares.mean(0) >= SATURATED
    p_saturated = (accuracy >= SATURATED).mean(0)
    figures = np.full(len(names), len(best)), accuracy.mean(0), p_saturated, easy @ home
    columns = dict(zip(_COLUMNS, figures, strict=True))
    return pd.DataFrame(columns, pd.Index(names, name="benchmark"))


def no_subjects(bank: ItemBank) -> pd.DataFrame:
    """Return the table of `saturation` for a bank without subjects: all NaN."""
    return pd.DataFrame(np.nan, pd.Index(bank.benchmark_names, name="benchmark"), _COLUMNS)


def saturation_alarms(table: pd.DataFrame) -> list[Alarm]:
    """Return an alarm for each benchmark that is saturated with probability above one half."""
    saturated = table[table["p_saturated"] > 0.5]
    return [_alarm(str(name), row) for name, row in saturated.iterrows()]


def _alarm(name: str, row: pd.Series) -> Alarm:
    text = (
        f"{one_line(name)} is saturated: its best {row['n_best']:,.0f} subjects are expected to "
        f"get {row['best_accuracy']:.1%} right ({SATURATED:.0%} or more with probability "
        f"{row['p_saturated']:.2f}), and {row['easy_share']:.0%} of its items nearly always; add "
        f"a harder benchmark, as this one hardly distinguishes the best."
    )
    return Alarm("saturation", name, None, text)


def _best(scores: Float[Array, " subject"]) -> NDArray[np.intp]:
    """Return the best tenth, or the best few."""
    order = np.argsort(-np.asarray(scores), kind="stable")
    return order[: max(LEAST_BEST, -(-len(order) // 10))]


@jax.jit
def _suite_scores(
    theta: Float[Array, "subject ability"], items: Items, weights: Float[Array, " item"]
) -> Float[Array, " subject"]:
    return items.right(theta) @ weights


@jax.jit
def _draws(
    abilities: Abilities,
    items: Items,
    roots: Float[Array, "item parameter parameter"],
    keys: Array,
) -> Float[Array, "draw item"]:
    """Return draws of the expected share of subjects that get each item right."""
    return jax.lax.map(partial(_one_draw, abilities, items, roots), keys)


def _one_draw(
    abilities: Abilities,
    items: Items,
    roots: Float[Array, "item parameter parameter"],
    key: Array,
) -> Float[Array, " item"]:
    of_subjects, of_items = jax.random.split(key)
    z = jax.random.normal(of_subjects, abilities.mean.shape, abilities.mean.dtype)
    factors = lapack.cholesky(abilities.covariance)
    theta = abilities.mean + jnp.einsum("ikl,il->ik", factors, z)
    off = jax.random.normal(of_items, roots.shape[:2], roots.dtype)
    return Items.of(items.both + jnp.einsum("jkl,jl->jk", roots, off)).right(theta).mean(0)
