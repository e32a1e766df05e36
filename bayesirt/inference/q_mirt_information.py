"""What answers say of items and correlations when abilities are integrated out.

A subject's abilities are taken to be normal, given all else. Expectations over them of what a cell
says come from a few nodes (Stein 1981 for products with abilities), and what is lost by not knowing
abilities (Louis 1982) is a sum of products.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from bayesirt.data.responses import Responses
from bayesirt.estimators.cell_expectations import Quadrature
from bayesirt.estimators.normal_beliefs import Abilities
from bayesirt.estimators.q_slots import SlotItems as Items
from bayesirt.estimators.q_slots import Slots, predictors_at_nodes, slots_of
from bayesirt.estimators.symmetric_matrices import inverse
from bayesirt.inference.blocked import Position
from bayesirt.inference.q_mirt_moves import ByQMatrix, correlation_site, slopes_of
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.models import QMirt

_LARGE = 1 << 20
"""More cells than this are computed in 32 bits."""
_LONG = 1e10
"""Products beyond which the missing information is, too."""
_COLUMNS = 1 << 11
"""About how many columns of missing information are held at a time."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class QMirtProblem:
    """Answers, and what is assumed of them."""

    layout: DenseLayout
    slots: Slots
    way: ByQMatrix = field(metadata={"static": True})
    # Its dtype is also that of the missing information's products.
    quadrature: Quadrature = field(metadata={"static": True})

    @classmethod
    def of(cls, responses: Responses, model: QMirt, n_nodes: int = 5) -> "QMirtProblem":
        """Take responses, the rows of their items, and the nodes of expectations over abilities."""
        if model.q is None:
            raise ValueError("laplace needs the Q-matrix with its names: QMirt.of(q)")
        q = model.q
        layout = DenseLayout(*map(jnp.asarray, responses.cells.matrices()))
        n_subjects, n_items = layout.shape
        products = n_subjects * _columns(q.n_abilities) * (n_items + q.n_loadings) ** 2
        large = layout.trials.size > _LARGE or products > _LONG
        dtype = jnp.float32 if large else jnp.result_type(float).type
        return cls(layout, slots_of(q), ByQMatrix(model), Quadrature(n_nodes, dtype))

    def cells(self, sites: Position, abilities: Abilities) -> "CellDerivatives":
        """Return what each cell says, expected over abilities."""
        etas, shares = predictors_at_nodes(
            self.slots, self.items(sites), abilities, self.quadrature
        )
        at_nodes = [_cells_at(self.layout, eta) for eta in etas]
        columns = zip(*at_nodes, strict=True)
        return CellDerivatives(*(sum(map(operator.mul, shares, own)) for own in columns))

    def items(self, sites: Position) -> Items:
        """Return items in slots."""
        return Items(self.way.needs.in_slots(sites["a"]), sites["d"])

    def correlation(self, sites: Position) -> Float[Array, "ability ability"]:
        """Return Ω at sites without ``theta``."""
        return self.way.correlation(self._with_nobody(sites))

    def log_prior(self, sites: Position) -> Float[Array, ""]:
        """Return the log prior density of sites without ``theta``."""
        own = self.way.terms(self._with_nobody(sites)).each
        return jnp.stack([x.sum() for name, x in own.items() if name != "theta"]).sum()

    def _with_nobody(self, sites: Position) -> Position:
        nobody = jnp.zeros((1, self.way.needs.n_abilities), sites["d"].dtype)
        return sites | {"theta": nobody}


class CellDerivatives(NamedTuple):
    """Expectations of each cell's derivatives with respect to its linear predictor.

    Attributes
    ----------
    score, information, slope, bend : float arrays, shape (subject, item)
        Of a cell's log likelihood in η: first derivative, minus the second (w), w' and w''.
    """

    score: Float[Array, "subject item"]
    information: Float[Array, "subject item"]
    slope: Float[Array, "subject item"]
    bend: Float[Array, "subject item"]


class Marginal(NamedTuple):
    """What answers say of the parameters, abilities integrated out."""

    score: Float[Array, " parameter"]
    # Information that there would be if abilities were known, and what of it is lost because they
    # are not.
    complete: Float[Array, "parameter parameter"]
    missing: Float[Array, "parameter parameter"]


class Directions(NamedTuple):
    """How the score of each parameter goes with a subject's independent, standard parts."""

    along: Float[Array, "subject parameter ability"]  # Linearly.
    # With squares and products, so scaled that covariances of scores are sums of products.
    across: Float[Array, "subject parameter pair"]


class _Loadings(NamedTuple):
    """What concerns single slopes of some subjects' items, shape (subject, loading, ...)."""

    mean: Array  # Of the ability.
    # shape (subject, loading, ability). How the ability, and the item's linear predictor, go with
    # the standard parts.
    own: Array
    predictor: Array
    shared: Array  # Covariance of both.
    cells: CellDerivatives  # Of the item.


def flat_parameters(sites: Position) -> Float[Array, " parameter"]:
    """Return log a, d, μ_a, μ_d, β, μ_b and the site of correlations, if there is one."""
    return ravel_pytree([sites[name] for name in free_sites(sites)])[0]


def with_parameters(sites: Position, flat: Float[Array, " parameter"]) -> Position:
    """Return the sites with other values of `flat_parameters`."""
    names = free_sites(sites)
    values = ravel_pytree([sites[name] for name in names])[1](flat)
    return sites | dict(zip(names, values, strict=True))


def free_sites(sites: Position) -> list[str]:
    """Return the names of the sites that `flat_parameters` holds, in its order."""
    of_correlations = correlation_site(sites)
    names = ["a", "d", "mu_a", "mu_d", "beta", "mu_b"]
    return names if of_correlations is None else [*names, of_correlations]


def marginal_terms(problem: QMirtProblem, sites: Position, abilities: Abilities) -> Marginal:
    """Return what answers say of all that belongs to no single subject.

    With f_i(θ) the score of subject i's answers and abilities, the score is Σ E f_i (Fisher's
    identity) and the missing information Σ Var f_i. Covariances of functions of normal abilities
    are taken to second order, which is nearly all: with V = L Lᵀ, (E∇f L)(E∇g L)ᵀ + ½ tr(Lᵀ E∇²f L
    Lᵀ E∇²g L).

    Louis 1982; Tierney & Kadane 1986.
    """
    cells, here = problem.cells(sites, abilities), flat_parameters(sites)
    narrow, turning = jax.tree.map(
        lambda x: x.astype(problem.quadrature.dtype), (sites, turning_of(problem, sites))
    )

    def add(total: Marginal, chunk: tuple[CellDerivatives, Abilities]) -> tuple[Marginal, None]:
        own = _of_answers(problem, narrow, turning, chunk[0], chunk[1])
        return jax.tree.map(lambda x, y: x + y.astype(x.dtype), total, own), None

    square = jnp.zeros((len(here), len(here)), here.dtype)
    size = max(1, _COLUMNS // _columns(abilities.mean.shape[1]))
    chunks = in_chunks(problem, cells, abilities, size)
    total, _ = jax.lax.scan(add, Marginal(jnp.zeros_like(here), square, square), chunks)
    of_abilities = _density_of_abilities(problem, sites, abilities)
    return Marginal(
        total.score + jax.grad(of_abilities)(here),
        total.complete - jax.hessian(of_abilities)(here),
        total.missing,
    )


def _of_answers(
    problem: QMirtProblem,
    sites: Position,
    turning: Array,
    cells: CellDerivatives,
    abilities: Abilities,
) -> Marginal:
    """Return what some subjects' answers say, but for the density of their abilities."""
    needs, a = problem.way.needs, jnp.exp(sites["a"])
    mean, own, _, shared, at = _loadings(problem, sites, cells, abilities)
    n_all, n_loadings = len(flat_parameters(sites)), len(a)
    items = n_loadings + np.arange(len(sites["d"]))
    of_a = a * (at.score * mean - at.information * shared).sum(0)
    one, other = np.nonzero(needs.item[:, None] == needs.item)
    square = mean[:, one] * mean[:, other] + (own[:, one] * own[:, other]).sum(-1)
    block = at.information[:, one] * square
    block += at.slope[:, one] * (mean[:, one] * shared[:, other] + shared[:, one] * mean[:, other])
    block += at.bend[:, one] * shared[:, one] * shared[:, other]
    edge = a * (at.information * mean + at.slope * shared).sum(0)
    complete = jnp.zeros((n_all, n_all), a.dtype)
    complete = complete.at[one, other].set(a[one] * a[other] * block.sum(0))
    complete = complete.at[np.arange(n_loadings), np.arange(n_loadings)].add(-of_a)
    complete = complete.at[np.arange(n_loadings), items[needs.item]].set(edge)
    complete = complete.at[items[needs.item], np.arange(n_loadings)].set(edge)
    complete = complete.at[items, items].set(cells.information.sum(0))
    score = jnp.zeros(n_all, a.dtype).at[:n_loadings].set(of_a)
    found = jnp.concatenate(directions(problem, sites, turning, cells, abilities), 2)
    columns = jnp.moveaxis(found, 1, 0).reshape(n_all, -1)
    return Marginal(score.at[items].set(cells.score.sum(0)), complete, columns @ columns.T)


def _loadings(
    problem: QMirtProblem, sites: Position, cells: CellDerivatives, abilities: Abilities
) -> _Loadings:
    mean, root = abilities
    item, ability = problem.way.needs.item, problem.way.needs.ability
    slopes = slopes_of(problem.way.needs, sites)
    own, predictor = root[:, ability], jnp.einsum("jk,ikl->ijl", slopes, root)[:, item]
    of_items = CellDerivatives(*(x[:, item] for x in cells))
    return _Loadings(mean[:, ability], own, predictor, (own * predictor).sum(-1), of_items)


def _density_of_abilities(
    problem: QMirtProblem, sites: Position, abilities: Abilities
) -> Callable[[Array], Array]:
    """Return the expected log density of the abilities, as a function of the parameters."""
    mean, covariance = abilities
    moments = mean.T @ mean + covariance.sum(0)

    def density(flat: Array) -> Array:
        omega = problem.correlation(with_parameters(sites, flat))
        volume = len(mean) * jnp.linalg.slogdet(omega)[1]
        return -(volume + jnp.trace(jnp.linalg.solve(omega, moments))) / 2

    return density


def directions(
    problem: QMirtProblem,
    sites: Position,
    turning: Float[Array, "ability ability parameter"],
    cells: CellDerivatives,
    abilities: Abilities,
) -> Directions:
    """Return how the scores of some subjects go with their abilities."""
    mean, root = abilities
    a = jnp.exp(sites["a"])[:, None]
    of_ability, own, predictor, shared, at = _loadings(problem, sites, cells, abilities)
    of_items = jnp.einsum(
        "jk,ikl->ijl", problem.way.needs.slopes(problem.way.needs.in_slots(a[:, 0])), root
    )
    x, y = np.tril_indices(mean.shape[1])
    half = np.where(x == y, np.sqrt(0.5), 1.0).astype(mean.dtype)
    weight, cubic = (
        (x_ * of_ability + y_ * shared)[:, :, None]
        for x_, y_ in ((at.information, at.slope), (at.slope, at.bend))
    )
    crossed = own[:, :, x] * predictor[:, :, y] + own[:, :, y] * predictor[:, :, x]
    of_a = at.information[:, :, None] * crossed + cubic * predictor[:, :, x] * predictor[:, :, y]
    of_d = cells.slope[:, :, None] * of_items[:, :, x] * of_items[:, :, y]
    both = jnp.einsum("klp,ikm,iln->ipmn", turning, root, root)[:, :, x, y]
    along = [
        a * (at.score[:, :, None] * own - weight * predictor),
        -cells.information[:, :, None] * of_items,
        _still(problem, mean, mean.shape[1]),
        jnp.einsum("klp,il,ikm->ipm", turning, mean, root),
    ]
    across = [-a * of_a, -of_d, _still(problem, mean, len(x)), both]
    return Directions(jnp.concatenate(along, 1), jnp.concatenate(across, 1) * half)


def _still(problem: QMirtProblem, mean: Array, columns: int) -> Array:
    """Return zeros for the parameters that no answer and no ability sees: μ_a, μ_d, β and μ_b."""
    n_abilities = problem.way.needs.n_abilities
    return jnp.zeros((len(mean), 2 + 2 * n_abilities, columns), mean.dtype)


def turning_of(problem: QMirtProblem, sites: Position) -> Float[Array, "ability ability parameter"]:
    """Return the derivatives of -Ω⁻¹ with respect to the site of correlations."""
    name = correlation_site(sites)
    if name is None:
        n_abilities = problem.way.needs.n_abilities
        return jnp.zeros((n_abilities, n_abilities, 0), sites["d"].dtype)

    def negative_precision(value: Array) -> Array:
        return -inverse(problem.correlation(sites | {name: value}))

    return jax.jacfwd(negative_precision)(sites[name])


def _columns(n_abilities: int) -> int:
    """Return how many directions there are, linear ones and squares and products."""
    return n_abilities * (n_abilities + 3) // 2


def in_chunks(
    problem: QMirtProblem, cells: CellDerivatives, abilities: Abilities, size: int
) -> tuple[CellDerivatives, Abilities]:
    """Return what `directions` needs, some subjects at a time, filled up by no subjects."""
    root = jnp.linalg.cholesky(abilities.covariance)
    size = min(size, len(root))
    more = -len(root) % size

    def cut(x: Array) -> Array:
        padded = jnp.pad(x, [(0, more)] + [(0, 0)] * (x.ndim - 1))
        return padded.reshape(-1, size, *x.shape[1:]).astype(problem.quadrature.dtype)

    return jax.tree.map(cut, (cells, Abilities(abilities.mean, root)))


def _cells_at(layout: DenseLayout, eta: Float[Array, "subject item"]) -> CellDerivatives:
    p = jax.nn.sigmoid(eta)
    information = layout.trials * p * (1 - p)
    slope = information * (1 - 2 * p)
    bend = information * (1 - 6 * p * (1 - p))
    return CellDerivatives(layout.successes - layout.trials * p, information, slope, bend)
