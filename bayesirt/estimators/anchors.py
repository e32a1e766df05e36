"""Anchors: a few items that represent a whole benchmark."""

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from bayesirt.errors import ResponseError
from bayesirt.estimators import lapack
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.symmetric_matrices import pairs, unpacked
from bayesirt.random_keys import Key, as_key, host_random

AnchorRule = Literal["clusters", "random", "discrimination", "design", "information"]

_RESTARTS = 8
_ROUNDS = 50
_N_DRAWS = 256


@dataclass(frozen=True, eq=False)
class Anchors:
    """Items that represent a benchmark, with the share of it that each represents."""

    # shape (anchor,). Distinct indices into the items from which anchors were chosen.
    positions: NDArray[np.intp]
    weights: NDArray[np.float64]  # shape (anchor,). Shares of the benchmark, which sum to 1.
    how: str  # The rule by which they were chosen.

    def __len__(self) -> int:
        return len(self.positions)

    def named(self, items: KnownItems) -> dict[str, float]:
        """Return the weights by the names of the anchors."""
        names = (items.names[j] for j in self.positions)
        return dict(zip(names, self.weights.tolist(), strict=True))


def choose_anchors(
    items: KnownItems,
    n_anchors: int,
    *,
    how: AnchorRule = "clusters",
    key: Key,
    n_draws: int = _N_DRAWS,
) -> Anchors:
    """Choose the items of a benchmark that new subjects should answer.

    Parameters
    ----------
    items : KnownItems
        All items of one benchmark.
    n_anchors : int
    how : {"clusters", "random", "discrimination", "design", "information"}
        "clusters": medoids of k-means on (a, d), as in the paper. "random": random items with
        equal weights. "discrimination": the largest slopes; the paper warns that these alone do not
        predict the benchmark well, as they need not resemble its other items. "design": the
        smallest expected posterior variance of the benchmark's score. "information": the most
        information about abilities.
    key : jax.random.key or int
    n_draws : int
        Number of abilities drawn from the population for "design" and "information".

    Returns
    -------
    Anchors
        With "clusters" a weight is the share of items in the anchor's cluster; with "random" all
        weights are equal; otherwise it is the share of items whose (a, d) are closest to the
        anchor's.

    Raises
    ------
    ResponseError
        If there are fewer anchors than 1 or than abilities, or more than items.

    Notes
    -----
    For abilities θ_t ~ N(0, I) and w_jt = p_j(θ_t) (1 - p_j(θ_t)), the posterior covariance given
    anchors A is V_t = (I + Σ_{j in A} w_jt a_j a_jᵀ)⁻¹. The score has gradient
    g_t = Σ_j w_jt a_j / J and hence posterior variance g_tᵀ V_t g_t. "design" greedily adds the
    item that lowers Σ_t g_tᵀ V_t g_t most; "information" the one that raises Σ_t log det V_t⁻¹
    most. The latter sum is monotone and submodular, so that the greedy set attains at least 1 - 1/e
    of the optimum. The former is not submodular in general, so no such bound holds. With the same
    names and key, the order of the items does not matter.

    References
    ----------
    Habba et al. (2026), sections 3 and 4.2; Nemhauser, Wolsey and Fisher 1978.

    Examples
    --------
    >>> a, d = np.ones((4, 1)), np.array([0.0, 0.1, 3.0, 3.1])
    >>> known = KnownItems(("w", "x", "y", "z"), a, d, np.zeros((4, 2, 2)))
    >>> choose_anchors(known, 2, key=jax.random.key(0)).weights.tolist()
    [0.5, 0.5]
    """
    key = as_key(key)
    _check_number(items, n_anchors)
    if how not in get_args(AnchorRule):
        raise ResponseError(f"`how` must be {', '.join(get_args(AnchorRule))}, got {how!r}")
    order = np.argsort(np.asarray(items.names, object), kind="stable")
    a, d = items.a[order], items.d[order]
    places = np.column_stack([a, d])
    if how == "clusters":
        chosen, weights = _medoids(places, n_anchors, key)
    elif how == "random":
        chosen = host_random(key).permutation(len(d))[:n_anchors]
        weights = np.full(n_anchors, 1 / n_anchors)
    else:
        if how == "discrimination":
            chosen = np.argsort(-np.linalg.norm(a, axis=1), kind="stable")[:n_anchors]
        else:
            theta = jax.random.normal(key, (n_draws, a.shape[1]), jnp.result_type(float))
            parameters = jnp.asarray(a, theta.dtype), jnp.asarray(d, theta.dtype)
            chosen = np.asarray(_greedy(theta, *parameters, n_anchors, how == "design"))
        weights = _shares_nearby(places, chosen)
    return Anchors(order[chosen].astype(np.intp), weights, how)


def expected_variance(
    items: KnownItems, positions: NDArray[np.intp], *, key: Array, n_draws: int = _N_DRAWS
) -> float:
    """Return the expected posterior variance of a benchmark's score given answers to anchors."""
    theta = jax.random.normal(key, (n_draws, items.n_abilities), jnp.result_type(float))
    a = jnp.asarray(items.a, theta.dtype)
    p = jax.nn.sigmoid(theta @ a.T + jnp.asarray(items.d, theta.dtype))
    weights = p * (1 - p)
    gradient = weights @ a / len(a)
    anchors = a[positions]
    information = unpacked(weights[:, positions] @ pairs(anchors, 1.0), a.shape[1])
    solved = lapack.solve(information + jnp.eye(a.shape[1]), gradient[:, :, None])[:, :, 0]
    return float((gradient * solved).sum(1).mean())


def _check_number(items: KnownItems, n_anchors: int) -> None:
    if n_anchors < 1:
        raise ResponseError(f"`n_anchors` must be at least 1, got {n_anchors}")
    if n_anchors > len(items.names):
        raise ResponseError(
            f"{n_anchors} anchors cannot be chosen from {len(items.names)} items; choose fewer"
        )
    if n_anchors < items.n_abilities:
        raise ResponseError(
            f"{n_anchors} anchors cannot determine {items.n_abilities} abilities; choose at least "
            f"as many anchors as abilities"
        )


@partial(jax.jit, static_argnums=(3, 4))
def _greedy(
    theta: Float[Array, "draw ability"],
    a: Float[Array, "item ability"],
    d: Float[Array, " item"],
    n_anchors: int,
    of_score: bool,
) -> Float[Array, " anchor"]:
    """Return the most useful items in greedy order.

    With v = V a and r = w / (1 + w aᵀv) of an item, answering it changes V to V - r v vᵀ, reduces
    the score's variance by r (gᵀv)² and adds log(1 + w aᵀv) to the information.
    """
    p = jax.nn.sigmoid(theta @ a.T + d)
    weights, squares = p * (1 - p), pairs(a, 2.0)
    gradient = weights @ a / len(a)
    lower = np.tril_indices(a.shape[1])

    def add(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        covariance, taken = carry
        growth = 1 + weights * (covariance[:, *lower] @ squares.T)
        if of_score:
            along = jnp.einsum("tk,tkl->tl", gradient, covariance) @ a.T
            gains = (weights * along**2 / growth).sum(0)
        else:
            gains = jnp.log(growth).sum(0)
        best = jnp.argmax(jnp.where(taken, -jnp.inf, gains))
        v = covariance @ a[best]
        share = weights[:, best] / growth[:, best]
        smaller = covariance - share[:, None, None] * v[:, :, None] * v[:, None, :]
        return (smaller, taken.at[best].set(True)), best

    first = jnp.broadcast_to(jnp.eye(a.shape[1], dtype=a.dtype), (len(theta), *[a.shape[1]] * 2))
    return jax.lax.scan(add, (first, jnp.zeros(len(a), bool)), None, n_anchors)[1]


def _medoids(
    places: NDArray[np.float64], n_anchors: int, key: Array
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the item nearest to each centre of k-means, and the clusters' shares of items."""
    labels, gaps = _clusters(places, n_anchors, key)
    chosen, sizes = [], []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen.append(members[np.argmin(gaps[members])])
        sizes.append(len(members))
    sizes_of = np.zeros(len(places))
    sizes_of[chosen] = sizes
    while len(chosen) < n_anchors:
        alone = np.where(np.isin(np.arange(len(places)), chosen), -1, gaps)
        new = int(np.argmax(alone))
        donor = next(j for j in chosen if labels[j] == labels[new])
        labels[new] = labels.max() + 1
        sizes_of[donor] -= 1
        sizes_of[new] = 1
        chosen.append(np.intp(new))
    medoids = np.array(chosen, np.intp)
    return medoids, sizes_of[medoids] / len(places)


def _clusters(
    places: NDArray[np.float64], n_anchors: int, key: Array
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return each item's cluster and squared distance from its centre, from the best of some runs.

    There may be fewer clusters than requested if items coincide.
    """
    seeds = host_random(key).integers(np.iinfo(np.int32).max, size=_RESTARTS)
    n_clusters = min(n_anchors, len(np.unique(places, axis=0)))

    def one_run(seed: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        rng = np.random.default_rng(seed)
        centres, labels = kmeans2(places, n_clusters, iter=_ROUNDS, minit="++", seed=rng)
        return labels.astype(np.intp), ((places - centres[labels]) ** 2).sum(1)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "One of the clusters is empty", UserWarning)
        return min((one_run(int(seed)) for seed in seeds), key=lambda run: run[1].sum())


def _shares_nearby(places: NDArray[np.float64], chosen: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the share of items closest to each anchor; each anchor represents itself."""
    anchors = places[chosen]
    gaps = (places**2).sum(1)[:, None] + (anchors**2).sum(1) - 2 * places @ anchors.T
    nearest = gaps.argmin(1)
    nearest[chosen] = np.arange(len(chosen))
    return np.bincount(nearest, minlength=len(chosen)) / len(places)
