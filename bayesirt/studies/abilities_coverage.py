"""Whether the posterior's intervals hold: suites drawn from the model's own prior."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray
from numpyro.handlers import seed, trace

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.inference.engines import sample_q_mirt
from bayesirt.models.q_mirt import default_structure, q_mirt_model
from bayesirt.posterior import Posterior
from bayesirt.studies.abilities_unseen import R_HAT_BOUND
from bayesirt.studies.fits import two_chains
from bayesirt.studies.measures import TAILS, n_covered
from bayesirt.studies.tasks import PortableKey, Row

QUANTITIES = {
    "theta": "abilities", "a": "slopes", "d": "intercepts", "correlation": "correlations",
}  # fmt: skip
COVERAGE_COLUMNS = (
    *(f"{name}_{what}" for name in QUANTITIES for what in ("covered", "n", "width")),
    "rho_theta", "r_hat_above", "r_hat_highest", "ess_lowest", "seconds",
)  # fmt: skip
BATCH = 10  # Replications that one process does with what it has compiled.
_ABILITIES_AN_ITEM, _MOST_ABILITIES, _MOST_SHARE = 2.4, 4, 0.5


class Suite(NamedTuple):
    """Responses, and the values that they were drawn with."""

    responses: Responses
    truth: dict[str, NDArray[np.floating]]  # Named like the sites of the posterior.


def coverage_rows(
    number: int, size: tuple[int, int, int], replications: Sequence[int], draws: int,
    key: PortableKey,
) -> list[Row]:  # fmt: skip
    """Return how well each suite of a size is covered; what is compiled serves them all."""
    n_subjects, n_items, n_abilities = size
    q = study_q_matrix(n_items, n_abilities, key.rng(number))
    rows: list[Row] = []
    for replication in replications:
        of_suite, of_draws = jax.random.split(key.folded(f"coverage {number}", replication))
        suite = draw_suite(n_subjects, q, key=of_suite)
        start = time.perf_counter()
        posterior = sample_q_mirt(suite.responses, q, key=of_draws, options=two_chains(draws))
        measured = measure_posterior(suite, posterior)
        rows.append({**measured, "seconds": time.perf_counter() - start})
    return rows


def study_q_matrix(n_items: int, n_abilities: int, rng: np.random.Generator) -> QMatrix:
    """Draw a Q-matrix whose items need about two abilities, at most four."""
    share = min(_MOST_SHARE, _ABILITIES_AN_ITEM / n_abilities)
    most = min(_MOST_ABILITIES, n_abilities)
    needs = np.zeros((n_items, n_abilities), bool)
    needs[np.arange(n_abilities), np.arange(n_abilities)] = True
    for j in range(n_abilities, n_items):
        n = int(np.clip(rng.binomial(n_abilities, share), 1, most))
        needs[j, rng.choice(n_abilities, n, replace=False)] = True
    return QMatrix.from_arrays(needs)


def draw_suite(n_subjects: int, q: QMatrix, *, key: Array) -> Suite:
    """Draw everything from the model: of such suites, right intervals cover what they say."""
    trials = np.ones((n_subjects, q.n_items), int)
    structure = default_structure(q.n_abilities)
    sites = trace(seed(q_mirt_model, key)).get_trace(trials, q.needs, structure=structure)
    values = {name: np.asarray(site["value"]) for name, site in sites.items() if "value" in site}
    responses = Responses.from_arrays(values.pop("successes").astype(int), trials, items=q.items)
    return Suite(responses, values)


def measure_posterior(suite: Suite, posterior: Posterior) -> dict[str, float]:
    """Compare a posterior with the truth, by `COVERAGE_COLUMNS` but for the seconds."""
    measured = {}
    for name in QUANTITIES:
        draws, true = posterior.draws(name), suite.truth[name]
        if name == "correlation":
            above = np.triu_indices(true.shape[-1], 1)
            draws, true = draws[:, *above], true[above]
        low, high = np.quantile(draws, TAILS, axis=0)
        measured[f"{name}_covered"] = n_covered(true, low, high)
        measured[f"{name}_n"] = float(true.size)
        measured[f"{name}_width"] = float((high - low).mean())
    mean, true = posterior.draws("theta").mean(0), suite.truth["theta"]
    rho = [np.corrcoef(mean[:, k], true[:, k])[0, 1] for k in range(true.shape[1])]
    table = posterior.summary
    return measured | {
        "rho_theta": float(np.mean(rho)),
        "r_hat_above": float((table["r_hat"] > R_HAT_BOUND).mean()),
        "r_hat_highest": float(table["r_hat"].max()),
        "ess_lowest": float(table["ess_bulk"].min()),
    }
