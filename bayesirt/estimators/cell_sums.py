"""All sums over cells that block-wise steps on (θ, a, d) need, in one pass over the data."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.likelihood.cell_sums import ByRows, Layout
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.host_arrays import host


class CellSums(NamedTuple):
    """Loss, score and information of each subject and each item at one point."""

    # -Σ_j ℓ, Σ_j s a and Σ_j w a².
    subject_loss: Float[Array, " subject"]
    theta_score: Float[Array, " subject"]
    theta_information: Float[Array, " subject"]
    # -Σ_i ℓ, Σ_i s θ and Σ_i s.
    item_loss: Float[Array, " item"]
    a_score: Float[Array, " item"]
    d_score: Float[Array, " item"]
    # Information of (a_j, d_j): Σ_i w θ², Σ_i w θ and Σ_i w.
    aa: Float[Array, " item"]
    ad: Float[Array, " item"]
    dd: Float[Array, " item"]


def cell_sums(
    layout: ByRows,
    family: Family,
    theta: Float[Array, " subject"],
    a: Float[Array, " item"],
    d: Float[Array, " item"],
    *,
    dtype: DTypeLike | None = None,
) -> CellSums:
    """Return the sums at (θ, a, d)."""
    of_subjects, of_items = layout.by_rows(
        partial(_sums_of_rows, family, dtype or theta.dtype), theta, a, d
    )
    return CellSums(*of_subjects, *of_items)


jitted_cell_sums: Any = jax.jit(cell_sums, static_argnums=1, static_argnames="dtype")


def cut_sums(sums: CellSums, n_subjects: int, n_items: int) -> CellSums:
    """Return the sums of the first subjects and items."""
    counts = (n_subjects,) * 3 + (n_items,) * (len(sums) - 3)
    return CellSums(*(host(x)[:n] for x, n in zip(sums, counts, strict=True)))


def _sums_of_rows(
    family: Family, dtype: DTypeLike, layout: Layout, *point: Array
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return the sums of each subject, and the sums of each item over the layout's subjects."""
    theta, a, d = (x.astype(dtype) for x in point)
    terms = family.terms(layout.predictor(theta, a, d), layout.successes, layout.trials)
    each_subject, each_item = jnp.ones_like(theta), jnp.ones_like(a)
    of_subjects = (
        -layout.over_items(terms.log_likelihood, each_item),
        layout.over_items(terms.score, a),
        layout.over_items(terms.information, a**2),
    )
    of_items = (
        -layout.over_subjects(terms.log_likelihood, each_subject),
        layout.over_subjects(terms.score, theta),
        layout.over_subjects(terms.score, each_subject),
        layout.over_subjects(terms.information, theta**2),
        layout.over_subjects(terms.information, theta),
        layout.over_subjects(terms.information, each_subject),
    )
    return jax.tree.map(lambda x: x.astype(point[0].dtype), (of_subjects, of_items))


def same_predictor(sums: CellSums, shift: Float[Array, ""], scale: Float[Array, ""]) -> CellSums:
    """Return the sums after θ → scale θ + shift, with a and d transformed such that η is unchanged.

    ℓ, s and w of every cell do not change, so no pass over the data is needed.
    """
    return sums._replace(
        theta_score=sums.theta_score / scale,
        theta_information=sums.theta_information / scale**2,
        a_score=scale * sums.a_score + shift * sums.d_score,
        aa=scale**2 * sums.aa + 2 * scale * shift * sums.ad + shift**2 * sums.dd,
        ad=scale * sums.ad + shift * sums.dd,
    )
