"""Draw fine-grained abilities and items of a Q-matrix, and responses from them."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.point_estimate import labelled
from bayesirt.random_keys import Key, as_key
from bayesirt.simulate import observed_trials

_ROUNDING = 1e-9
_SIGMA_BETA = 0.5
"""Standard deviation of the effects of abilities on intercepts."""


@dataclass(frozen=True, eq=False, repr=False)
class QSimulation:
    """Simulated responses to the items of a Q-matrix, with the true parameters."""

    # Named as by `bayesirt.estimators.q_mirt.fit_q_mirt`: theta over subject and ability, a over
    # loading, d, beta, correlation and the spreads.
    parameters: xr.Dataset
    q: QMatrix
    responses: Responses

    def __repr__(self) -> str:
        return f"<QSimulation: {self.to_text()}>"

    @property
    def summary(self) -> pd.DataFrame:
        """The true value of each parameter, indexed by (parameter, name)."""
        rows = [
            (str(name), label, value)
            for name, values in self.parameters.items()
            for label, value in zip(labelled(values), values.to_numpy().ravel(), strict=True)
        ]
        table = pd.DataFrame(rows, columns=["parameter", "name", "value"])
        return table.set_index(["parameter", "name"])

    def to_text(self) -> str:
        """Return a summary in a few words."""
        facts = self.responses.summary["value"]
        return (
            f"{facts['subjects']} subjects x {facts['items']} items that need "
            f"{self.q.n_abilities} abilities, {facts['coverage']:.0%} observed, "
            f"{facts['accuracy']:.0%} right"
        )


def simulate_q_mirt(
    n_subjects: int,
    q: QMatrix,
    *,
    key: Key,
    correlation: ArrayLike = 0.5,
    sigma_a: float = 0.3,
    sigma_d: float = 1.0,
    trials: ArrayLike = 1,
    missing: float = 0.0,
) -> QSimulation:
    """Draw θ ~ N(0, Ω), log a ~ N(0, σ_a), d ~ N(Σ_k q_jk β_k, σ_d), β ~ N(0, .5), and responses.

    Parameters
    ----------
    n_subjects : int
        Number of subjects, at least two.
    q : QMatrix
    key : jax.random.key or int
        The same key gives the same simulation on the same machine.
    correlation : float, or float array, shape (ability, ability)
        Correlation of each pair of abilities, or the whole matrix Ω.
    sigma_a, sigma_d : float
        Standard deviations of log slopes and of intercepts, in logits.
    trials : int, or int array, shape (subject, item)
        Trials of each cell; 0 where the item is not run.
    missing : float
        Share of the cells, in [0, 1), that is removed at random.

    Returns
    -------
    QSimulation

    Raises
    ------
    ResponseError
        If the options are out of range, Ω is not a correlation matrix, or so many cells are missing
        that a subject or item would have none left.

    Examples
    --------
    >>> import jax
    >>> q = QMatrix.from_arrays([[1, 0], [0, 1], [1, 1]])
    >>> simulate_q_mirt(5, q, key=jax.random.key(0)).parameters["theta"].shape
    (5, 2)
    """
    key = as_key(key)
    omega = _correlation_matrix(correlation, q.n_abilities)
    spreads = {"sigma_a": sigma_a, "sigma_d": sigma_d, "sigma_beta": _SIGMA_BETA}
    _check_spreads(spreads)
    theta_key, a_key, d_key, beta_key, pattern_key, response_key = jax.random.split(key, 6)
    counts = observed_trials(trials, (n_subjects, q.n_items), missing, pattern_key)
    theta, log_a, noise, beta = (
        np.asarray(jax.random.normal(k, shape), np.float64)
        for k, shape in (
            (theta_key, (n_subjects, q.n_abilities)),
            (a_key, (q.n_loadings,)),
            (d_key, (q.n_items,)),
            (beta_key, (q.n_abilities,)),
        )
    )
    values, vectors = np.linalg.eigh(omega)
    theta = theta @ (vectors * np.sqrt(np.maximum(values, 0))).T
    a, beta = np.exp(sigma_a * log_a), _SIGMA_BETA * beta
    d = q.needs @ beta + sigma_d * noise
    loadings = np.zeros(q.needs.shape)
    loadings[q.loadings] = a
    p = jax.nn.sigmoid(jnp.asarray(theta @ loadings.T + d))
    successes = jax.random.binomial(response_key, counts, p)
    responses = Responses.from_arrays(np.asarray(successes, int), counts, items=q.items)
    columns = {
        "theta": (("subject", "ability"), theta),
        "a": ("loading", a),
        "d": ("item", d),
        "beta": ("ability", beta),
        "correlation": (("ability", "ability_other"), omega),
        "mu_a": ((), 0.0),
        "mu_d": ((), 0.0),
        **{name: ((), spread) for name, spread in spreads.items()},
    }
    coords = {"subject": list(responses.subjects), **q.coords()}
    return QSimulation(xr.Dataset(columns, coords=coords), q, responses)


def _check_spreads(spreads: dict[str, float]) -> None:
    for name, spread in spreads.items():
        if not (np.isfinite(spread) and spread >= 0):
            raise ResponseError(f"`{name}` must not be negative, got {spread}; pass a spread")


def _correlation_matrix(correlation: ArrayLike, n: int) -> NDArray[np.float64]:
    given = np.asarray(correlation, np.float64)
    omega = np.where(np.eye(n, dtype=bool), 1, given) if given.ndim == 0 else given
    usable = omega.shape == (n, n) and np.allclose(omega, omega.T)
    usable = usable and np.allclose(np.diag(omega), 1)
    if not (usable and np.linalg.eigvalsh(omega)[0] > -_ROUNDING):
        raise ResponseError(
            f"`correlation` is not a correlation matrix of {n} abilities; pass a symmetric, "
            f"positive definite matrix with ones on its diagonal, or one number for all pairs"
        )
    return omega
