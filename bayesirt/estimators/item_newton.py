"""Newton's equations of items, given normal beliefs about abilities."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.estimators import lapack
from bayesirt.estimators.cell_expectations import Quadrature, expected_terms
from bayesirt.estimators.normal_beliefs import Beliefs, Items, Normal
from bayesirt.estimators.q_slots import Slots
from bayesirt.estimators.step_halving import limited, without_rising
from bayesirt.estimators.symmetric_matrices import inverse, packed, pairs, unpacked
from bayesirt.likelihood.cell_sums import DenseLayout

_MOST_HALVINGS, _ROUNDING = 6, 8.0


class ItemEquations(NamedTuple):
    """Newton's equations of each item's slopes, and d as the last parameter, without the prior.

    The information is that of complete data, expected over the abilities' posteriors. Log
    likelihoods are expected ones, too.
    """

    score: Float[Array, "item parameter"]
    information: Float[Array, "item parameter parameter"]
    of_items: Float[Array, " item"]
    of_subjects: Float[Array, " subject"]

    def covariance(self, prior: Normal) -> Float[Array, "item parameter parameter"]:
        """Return the inverse of the information with the prior."""
        return inverse(self.information + prior.precision)

    def damped_covariance(
        self, prior: Normal, before: Float[Array, "item parameter parameter"]
    ) -> Float[Array, "item parameter parameter"]:
        """Return the average of `covariance` and the one before.

        For poorly determined items, expected information falls as uncertainty grows, so that full
        steps can oscillate forever.
        """
        return (before + self.covariance(prior)) / 2

    def per(self, derivative: Float[Array, "item parameter"]) -> "ItemEquations":
        """Return the equations of transformed parameters, each a function of one of these."""
        scaled = derivative[:, :, None] * self.information * derivative[:, None, :]
        return self._replace(score=derivative * self.score, information=scaled)


def item_equations(
    layout: DenseLayout,
    items: Items,
    beliefs: Beliefs,
    quadrature: Quadrature,
    slots: Slots | None = None,
) -> ItemEquations:
    """Return Newton's equations of every item, with slots only for the slopes in them.

    E s θ = m E s - V a E w for a normal ability θ ~ N(m, V) (Stein 1981), so the score of a slope
    needs only expected scores and information.
    """
    (mean, covariance), unknown = beliefs
    n = mean.shape[1]

    def own(values: Float[Array, "item ability"]) -> Float[Array, "item slope"]:
        return values if slots is None else slots.own(values)

    def of_pairs(values: Float[Array, "item pair"]) -> Float[Array, "item slope slope"]:
        return unpacked(values, n) if slots is None else slots.of_pairs(values)

    terms = expected_terms(layout, items, beliefs.abilities, quadrature, unknown)
    weights = terms.information.T
    spread = of_pairs(weights @ packed(covariance))
    squares = spread + of_pairs(weights @ pairs(mean, 1.0))
    of_a = own(terms.score.T @ mean) - jnp.einsum("jkl,jl->jk", spread, own(items.a))
    edge = own(weights @ mean)[:, :, None]
    corner = weights.sum(1, dtype=mean.dtype)[:, None, None]
    return ItemEquations(
        Items(of_a, terms.score.sum(0, dtype=mean.dtype)).both,
        jnp.block([[squares, edge], [jnp.swapaxes(edge, 1, 2), corner]]),
        terms.log_likelihood.sum(0, dtype=mean.dtype),
        terms.log_likelihood.sum(1, dtype=mean.dtype),
    )


def item_step(
    layout: DenseLayout,
    x: Float[Array, "item parameter"],
    prior: Normal,
    beliefs: Beliefs,
    quadrature: Quadrature,
    equations: ItemEquations,
    to_items: Callable[[Array], Items] = Items.of,
) -> Float[Array, "item parameter"]:
    """Take a Newton step on every item's parameters, none longer than 1.

    The step of an item whose loss would increase is halved repeatedly, and finally set to 0: with
    steep slopes, a few nodes determine curvature poorly.
    """
    abilities, unknown = beliefs
    score = equations.score - prior.pull(x)
    direction = limited(jnp.einsum("jkl,jl->jk", equations.covariance(prior), score))
    before = prior.squares(x) / 2 - equations.of_items
    rounding = _ROUNDING * float(jnp.finfo(quadrature.dtype).eps)

    def after(share: Array) -> tuple[Array, tuple[()]]:
        moved = x + share[:, None] * direction
        terms = expected_terms(layout, to_items(moved), abilities, quadrature, unknown)
        return prior.squares(moved) / 2 - terms.log_likelihood.sum(0, dtype=before.dtype), ()

    share, *_ = without_rising(before, after, (), rounding=rounding, most_halvings=_MOST_HALVINGS)
    return x + share[:, None] * direction


def items_loss(
    items: Items, covariance: Float[Array, "item parameter parameter"], prior: Normal
) -> Float[Array, ""]:
    """Return the divergence of beliefs about items from their prior, up to a constant."""
    volumes = lapack.log_determinant(covariance) + jnp.linalg.slogdet(prior.precision)[1]
    squares = prior.squares(items.both) + jnp.einsum("kl,jkl->j", prior.precision, covariance)
    return (squares - volumes).sum() / 2
