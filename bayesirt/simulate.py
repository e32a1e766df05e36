"""Draw parameters from the 2PL's prior, and responses from the parameters."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Int
from numpy.typing import ArrayLike, NDArray
from numpyro.handlers import seed, substitute, trace

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.models import Priors, TwoPL
from bayesirt.models.two_pl import DIMS
from bayesirt.random_keys import Key, as_key

_MOST_PATTERNS = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """Simulated responses with their true parameters."""

    # The model's sites and deterministics: theta, a, d, b and the hyperparameters.
    parameters: dict[str, NDArray[np.floating]]
    responses: Responses

    def __repr__(self) -> str:
        return f"<Simulation: {self.to_text()}>"

    @property
    def summary(self) -> pd.DataFrame:
        """The true value of each parameter, indexed by (parameter, name)."""
        names = {"subject": self.responses.subjects, "item": self.responses.items}
        columns = [
            pd.Series(
                np.atleast_1d(values),
                pd.MultiIndex.from_product(
                    [[name], names[DIMS[name][0]] if name in DIMS else [""]],
                    names=["parameter", "name"],
                ),
            )
            for name, values in self.parameters.items()
        ]
        return pd.concat(columns).to_frame("value")

    def to_text(self) -> str:
        """Return a short description of the simulated responses."""
        facts = self.responses.summary["value"]
        return (
            f"{facts['subjects']} subjects x {facts['items']} items drawn from the prior, "
            f"{facts['coverage']:.0%} observed, {facts['accuracy']:.0%} right"
        )


def simulate_responses(
    n_subjects: int,
    n_items: int,
    *,
    key: Key,
    priors: Priors | None = None,
    trials: ArrayLike = 1,
    missing: float = 0.0,
) -> Simulation:
    """Draw the parameters of a 2PL from its prior, and responses given them.

    Parameters
    ----------
    n_subjects, n_items : int
        At least 2 each.
    key : jax.random.key or int
        The same key gives the same simulation on the same machine.
    priors : Priors, optional
    trials : int, or int array, shape (subject, item)
        Trials of each cell; 0 where the item is not run.
    missing : float
        Share of the cells, in [0, 1), to remove at random.

    Returns
    -------
    Simulation

    Raises
    ------
    ResponseError
        If an option is out of range, or so many cells are missing that some subject or item would
        have none left.

    Notes
    -----
    Cells are missing completely at random: the pattern depends on neither parameters nor
    responses, also because it is redrawn until each subject and each item keeps a cell. If free
    slopes sum to less than 0, their signs and that of μ_a are flipped; as the prior is symmetric,
    this restricts it to Σa > 0.

    Examples
    --------
    >>> import jax
    >>> simulate_responses(5, 4, key=jax.random.key(0)).responses.n_observed
    20
    """
    key = as_key(key)
    model = TwoPL(priors or Priors())
    parameter_key, pattern_key, response_key = jax.random.split(key, 3)
    counts = observed_trials(trials, (n_subjects, n_items), missing, pattern_key)
    parameters = _draw_parameters(n_subjects, n_items, model, parameter_key)
    sites = trace(seed(substitute(model, data=parameters), response_key)).get_trace(counts)
    return Simulation(
        {name: np.asarray(value) for name, value in parameters.items()},
        Responses.from_arrays(sites["successes"]["value"], counts),
    )


def _trials_of(trials: ArrayLike, shape: tuple[int, int]) -> Int[Array, "subject item"]:
    given = np.asarray(trials)
    if given.shape not in ((), shape):
        raise ResponseError(f"`trials` has shape {given.shape}, expected {shape}")
    if given.dtype.kind not in "iu" or given.min(initial=0) < 0:
        raise ResponseError("`trials` must hold non-negative integers")
    return jnp.broadcast_to(jnp.asarray(given), shape)


def observed_trials(
    trials: ArrayLike, shape: tuple[int, int], missing: float, key: Array
) -> Int[Array, "subject item"]:
    """Remove cells at random such that each subject and each item keeps one."""
    if not 0 <= missing < 1:
        raise ResponseError(f"`missing` must be a share in [0, 1), got {missing}")
    trials = _trials_of(trials, shape)
    for attempt in range(_MOST_PATTERNS if missing else 1):
        mask = jax.random.bernoulli(jax.random.fold_in(key, attempt), 1 - missing, trials.shape)
        observed = jnp.where(mask, trials, 0) if missing else trials
        if _reaches_all(observed > 0):
            return observed
    raise ResponseError(
        "some subject or item would have no response left; remove fewer cells, or simulate more"
    )


def _reaches_all(seen: Bool[Array, "subject item"]) -> bool:
    return bool(seen.any(0).all() and seen.any(1).all())


def _draw_parameters(n_subjects: int, n_items: int, model: TwoPL, key: Array) -> dict[str, Array]:
    sites = trace(seed(model.parameters, key)).get_trace(n_subjects, n_items)
    kinds = ("sample", "deterministic")
    values = {
        name: site["value"]
        for name, site in sites.items()
        if site["type"] in kinds and not site.get("is_observed", False)
    }
    if model.priors.slopes == "free" and values["a"].sum() < 0:
        values |= {name: -values[name] for name in ("mu_a", "mu_b", "a", "b")}
    return values
