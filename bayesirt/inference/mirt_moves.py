"""Additional moves of MIRT: the slopes' population, and the abilities' scales and angles.

The slopes' population is drawn exactly given the slopes. The abilities' scales and angles, on which
η does not depend, are redrawn together with everything that keeps η unchanged. Rotations need no
move, as the prior does not depend on them either.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from numpy.typing import NDArray
from numpyro.distributions import Wishart, WishartCholesky, biject_to, constraints

from bayesirt.inference.block_steps import joint_normal_draw, log_uniform
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.chain_starts import Start, place_leaning, usable
from bayesirt.inference.checkpoint import Samples
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.inference.two_way import TwoWay, abilities_by
from bayesirt.models import Mirt
from bayesirt.models.mirt import MU_A_SD, MU_B_SD, USUAL_SPREAD
from bayesirt.point_estimate import PointEstimate

TO_PRECISION = biject_to(constraints.positive_definite)
"""From the site ``precision_a`` to Λ: NumPyro's transform, so that both engines share sites."""


class Exploratory(TwoWay):
    """MIRT at unconstrained sites; an item's row holds its slopes, then d."""

    model: Mirt

    short_steps = True
    """With 158 subjects, 500 items and three abilities, short steps nearly doubled the effective
    sample size of the slowest intercept and reduced that of most slopes by a tenth."""

    @property
    def interweaves(self) -> bool:
        """Return False: hyperparameters have exact draws instead."""
        return False

    def coefficients(self, sites: Position, items: Array) -> Float[Array, "item dim"]:  # noqa: ARG002
        """Return (a, d) of each item."""
        return items

    def packed(self, sites: Position) -> Float[Array, "item dim"]:
        """Return slopes and intercepts side by side."""
        return jnp.concatenate([sites["a"], sites["d"][:, None]], 1)

    def unpacked(self, sites: Position, items: Float[Array, "item dim"]) -> Position:  # noqa: ARG002
        """Return the items' separate sites."""
        return {"a": items[:, :-1], "d": items[:, -1]}

    def standard_items(self, sites: Position, items: Array) -> Float[Array, "dim item"]:
        """Return each item's row, standardised by its population."""
        root = jnp.linalg.cholesky(TO_PRECISION(sites["precision_a"]))
        centre = sites["mu_d"] - items[:, :-1] @ sites["mu_b"]
        d = (items[:, -1] - centre) * jnp.exp(-sites["sigma_d"])
        return jnp.concatenate([(items[:, :-1] - sites["mu_a"]) @ root, d[:, None]], 1).T

    def means(self, sites: Position) -> list[str]:  # noqa: ARG002
        """Return the means of intercepts; that of slopes is drawn with their spread."""
        return ["mu_d", "mu_b"]

    def own_moves(
        self,
        data: Any,  # noqa: ARG002
        dtype: DTypeLike,  # noqa: ARG002
    ) -> tuple[list[Move], list[Move]]:
        """Return the draws of the slopes' population, and of scales and angles."""
        return [], [draw_slope_population, partial(draw_axes, self)]

    def finished(self, samples: Samples, point: PointEstimate) -> tuple[Samples, dict[str, Any]]:
        """Return draws rotated to the axes of a point estimate, and names of dimensions."""
        names = {name: point.parameters[name].values for name in ("ability", "ability_other")}
        return aligned_draws(samples, point["a"]), names

    def start(self, point: PointEstimate, data: Any) -> Start:  # noqa: ARG002
        """Return centre and width of the chains' starts, at unconstrained sites.

        The site of Λ holds its Cholesky factor: first the elements below the diagonal, row by row,
        then the logarithms of the diagonal. Given J slopes the latter have standard deviations of
        about 1 / √(2J), and an element of row k below the diagonal at most √(Λ_kk / J).
        """
        centre = {name: point[name] for name in ("theta", "a", "mu_a")}
        width = {name: usable(point[f"{name}_se"]) for name in ("theta", "a")}
        lean = "mu_b", point["a"]
        place_leaning((centre, width), "d", point["d"], usable(point["d_se"]), lean)
        n_items, n = point["a"].shape
        precision = point["precision_a"]
        rows = np.tril_indices(n, -1)[0]
        below = np.sqrt(np.diagonal(precision)[rows] / n_items)
        width["mu_a"] = 2 * np.sqrt(np.diagonal(np.linalg.inv(precision)) / n_items)
        width["precision_a"] = np.append(below, np.full(n, 1 / np.sqrt(2 * n_items)))
        centre["precision_a"] = np.asarray(TO_PRECISION.inv(jnp.asarray(precision)))
        return centre, width


def draw_slope_population(numbers: RandomNumbers, sites: Position) -> tuple[Position, Statistics]:
    """Draw μ_a, then Λ: Gibbs steps.

    μ_a | a, Λ is normal with precision JΛ + I, and Λ | a, μ_a ~ Wishart(K + 2 + J, rate s² I + Σ_j
    (a_j - μ_a)(a_j - μ_a)ᵀ).
    """
    a, mu = sites["a"], sites["mu_a"]
    (n_items, n), identity = a.shape, jnp.eye(a.shape[1], dtype=a.dtype)
    precision = TO_PRECISION(sites["precision_a"])
    score = precision @ (a - mu).sum(0) - mu / MU_A_SD**2
    mu = mu + joint_normal_draw(numbers, score, n_items * precision + identity / MU_A_SD**2)
    rate = USUAL_SPREAD**2 * identity + (a - mu).T @ (a - mu)
    drawn = Wishart(n + 2.0 + n_items, rate_matrix=rate).sample(numbers.key())
    return sites | {"mu_a": mu, "precision_a": TO_PRECISION.inv(drawn)}, {}


def draw_axes(way: TwoWay, numbers: RandomNumbers, sites: Position) -> tuple[Position, Statistics]:
    """Redraw the abilities' scales and angles, and move the slopes' population along.

    Along θ → M θ of `axes_changed`, M lower triangular, the product of all Jacobians and priors
    except that of μ_a is |M|^(N+K+2) exp(-tr M S Mᵀ / 2) for S = ΘᵀΘ + s²Λ + μ_b μ_bᵀ / 4, where Θ
    has N independent rows. With S = L Lᵀ, and with respect to the invariant measure of the group of
    such M, M L is the Cholesky factor of a Wishart matrix with N + K + 2 degrees of freedom
    (generalised Gibbs). The draw is accepted or rejected according to the prior of μ_a.

    Liu & Sabatti 2000.
    """
    theta, mu = way.independent(sites), sites["mu_a"]
    n_rows, n = theta.shape
    products = theta.T @ theta + USUAL_SPREAD**2 * TO_PRECISION(sites["precision_a"])
    products += jnp.outer(sites["mu_b"], sites["mu_b"]) / MU_B_SD**2
    identity = jnp.eye(n, dtype=theta.dtype)
    drawn = WishartCholesky(n_rows + n + 2.0, scale_tril=identity).sample(numbers.key())
    root = jnp.linalg.cholesky(products)
    matrix = jax.scipy.linalg.solve_triangular(root, drawn.T, trans=1, lower=True).T
    moved = axes_changed(sites, matrix)
    ratio = ((mu**2).sum() - (moved["mu_a"] ** 2).sum()) / (2 * MU_A_SD**2)
    accepted = log_uniform(numbers, ratio) < ratio
    new_sites = jax.tree.map(partial(jnp.where, accepted), moved, sites)
    return new_sites, {"acceptance_axes": accepted.astype(theta.dtype)}


def axes_changed(sites: Position, matrix: Float[Array, "ability ability"]) -> Position:
    """Return abilities in other axes, with slopes and their population changed to keep η."""
    back = jnp.linalg.inv(matrix)
    precision = matrix @ TO_PRECISION(sites["precision_a"]) @ matrix.T
    return (
        sites
        | abilities_by(sites, matrix)
        | {
            "a": sites["a"] @ back,
            "mu_a": sites["mu_a"] @ back,
            "mu_b": matrix @ sites["mu_b"],
            "precision_a": TO_PRECISION.inv(precision),
        }
    )


def aligned_draws(
    samples: Mapping[str, NDArray[np.floating]], target: NDArray[np.floating]
) -> Samples:
    """Rotate each draw such that its slopes are closest to the target slopes.

    Likelihood and prior are invariant to rotations and reflections, so draws have arbitrary axes.
    Predictors, lengths of slopes and eigenvalues of Λ do not change.

    The orthogonal R that minimises Σ_j |Rᵀa_j - target_j|² is U Vᵀ, where U S Vᵀ = Aᵀ target
    (Schönemann 1966); a, θ, γ, μ_a and μ_b become Rᵀa and so on, and Λ becomes RᵀΛR.
    """
    left, _, right = np.linalg.svd(np.swapaxes(samples["a"], -1, -2) @ target)
    rotation = (left @ right).astype(samples["a"].dtype)
    back, turned = np.swapaxes(rotation, -1, -2), dict(samples)
    for name in {"a", "theta", "gamma"} & set(samples):
        turned[name] = samples[name] @ rotation
    for name in {"mu_a", "mu_b"} & set(samples):
        turned[name] = (samples[name][..., None, :] @ rotation)[..., 0, :]
    if "precision_a" in samples:
        turned["precision_a"] = back @ samples["precision_a"] @ rotation
    return turned
