"""The matrix of the abilities study, and the suites on which coverage is measured."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array
from numpy.typing import NDArray
from numpyro.handlers import seed, trace

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.inference.engines import sample_q_mirt
from bayesirt.models import QMirt
from bayesirt.names import one_line
from bayesirt.posterior import TAILS, Posterior
from bayesirt.profiles.simulation import simulate_q_mirt
from bayesirt.simulate import Simulation
from bayesirt.studies.engine import Part
from bayesirt.studies.labels import labels_for
from bayesirt.studies.measures import Index, n_covered, read_printed
from bayesirt.studies.tasks import PortableKey, Row, two_chains

Counts = NDArray[np.integer]
CORRELATION = 0.7  # Of each pair of simulated abilities; those of language models correlate.
R_HAT_BOUND = 1.01
_FEWEST_ITEMS = 3
_LEAST_ITEMS, _LEAST_SUBJECTS = 10, 5


@dataclass(frozen=True, eq=False)
class AbilityMatrix:
    """Responses, the abilities that their items need, and where the items come from."""

    responses: Responses
    q: QMatrix  # A row for each item, in the order of the responses.
    groups: tuple[str, ...]  # Benchmarks; empty if unknown.
    group: Index  # shape (item,), Index of each item's benchmark; -1 if unknown.
    # As `bayesirt.profiles.simulation.QSimulation` names parameters.
    truth: xr.Dataset | None = None


def given_matrix(
    responses: Responses, q: QMatrix, groups: Mapping[str, str] | None = None
) -> AbilityMatrix:
    """Return the matrix of given responses."""
    if responses.n_items < _LEAST_ITEMS or responses.n_subjects < _LEAST_SUBJECTS:
        raise ResponseError(
            f"splits of the items need at least {_LEAST_SUBJECTS} subjects and {_LEAST_ITEMS} "
            f"items, got {responses.n_subjects} and {responses.n_items}"
        )
    q_matrix = q.for_items(responses.items, drop_unneeded=True)
    if groups is None:
        return AbilityMatrix(responses, q_matrix, (), np.full(responses.n_items, -1, np.intp))
    labels = labels_for(responses.items, groups, "item", "benchmark")
    names, group = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise ResponseError(
            f"all items are of the benchmark {one_line(str(names[0]))!r}; predictions across "
            f"benchmarks need at least two, so leave the groups out"
        )
    return AbilityMatrix(responses, q_matrix, tuple(map(str, names)), group)


def simulated_matrix(size: tuple[int, int, int], *, key: Array) -> AbilityMatrix:
    """Simulate a matrix whose abilities are needed as often as those of Zhang et al. (2026)."""
    n_subjects, n_items, n_abilities = size
    words = np.asarray(jax.random.key_data(key)).tolist()
    q = papers_q_matrix(n_items, n_abilities, np.random.default_rng(words))
    correlation = CORRELATION if n_abilities > 1 else 1.0
    drawn = simulate_q_mirt(n_subjects, q, key=key, correlation=correlation)
    nowhere = np.full(n_items, -1, np.intp)
    return AbilityMatrix(drawn.responses, q, (), nowhere, drawn.parameters)


def papers_q_matrix(n_items: int, n_abilities: int, rng: np.random.Generator) -> QMatrix:
    """Draw a Q-matrix with MMLU-MATH's shares of items by ability (Zhang et al., 2026, Table 3)."""
    printed = read_printed("abilities_printed").set_index("table")["value"]
    counts = printed["coverage"].to_numpy(float)
    chosen = np.linspace(0, len(counts) - 1, n_abilities).round().astype(int)
    shares = np.sort(counts)[::-1][chosen] / printed["items"]
    sizes = np.clip(np.round(shares * n_items).astype(int), min(_FEWEST_ITEMS, n_items), n_items)
    needs = np.zeros((n_items, n_abilities), bool)
    for k, size in enumerate(sizes):
        needs[rng.choice(n_items, size, replace=False), k] = True
    needless = np.flatnonzero(~needs.any(1))
    needs[needless, rng.choice(n_abilities, len(needless), p=sizes / sizes.sum())] = True
    return QMatrix.from_arrays(needs)


QUANTITIES = {
    "theta": "abilities", "a": "slopes", "d": "intercepts", "correlation": "correlations",
}  # fmt: skip
COVERAGE = Part(("size", "replication"), (
    *(f"{name}_{what}" for name in QUANTITIES for what in ("covered", "n", "width")),
    "rho_theta", "r_hat_above", "r_hat_highest", "ess_lowest", "seconds",
))  # fmt: skip
BATCH = 10  # Replications that one process runs with the same compiled code.
_ABILITIES_AN_ITEM, _MOST_ABILITIES, _MOST_SHARE = 2.4, 4, 0.5


def coverage_rows(
    number: int, size: tuple[int, int, int], replications: Sequence[int], draws: int,
    key: PortableKey,
) -> list[Row]:  # fmt: skip
    """Return the coverage in each suite of a size, which all share compiled code."""
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


def draw_suite(n_subjects: int, q: QMatrix, *, key: Array) -> Simulation:
    """Draw everything from the model; in such suites correct intervals have nominal coverage."""
    trials = np.ones((n_subjects, q.n_items), int)
    sites = trace(seed(QMirt.of(q), key)).get_trace(trials)
    values = {name: np.asarray(site["value"]) for name, site in sites.items() if "value" in site}
    responses = Responses.from_arrays(values.pop("successes").astype(int), trials, items=q.items)
    return Simulation(values, responses)


def measure_posterior(suite: Simulation, posterior: Posterior) -> dict[str, float]:
    """Compare a posterior with the truth; seconds are added elsewhere."""
    measured = {}
    for name in QUANTITIES:
        draws, true = posterior.draws(name), suite.parameters[name]
        if name == "correlation":
            above = np.triu_indices(true.shape[-1], 1)
            draws, true = draws[:, *above], true[above]
        low, high = np.quantile(draws, TAILS, axis=0)
        measured[f"{name}_covered"] = n_covered(true, low, high)
        measured[f"{name}_n"] = float(true.size)
        measured[f"{name}_width"] = float((high - low).mean())
    mean, true = posterior.draws("theta").mean(0), suite.parameters["theta"]
    rho = [np.corrcoef(mean[:, k], true[:, k])[0, 1] for k in range(true.shape[1])]
    table = posterior.summary
    return measured | {
        "rho_theta": float(np.mean(rho)),
        "r_hat_above": float((table["r_hat"] > R_HAT_BOUND).mean()),
        "r_hat_highest": float(table["r_hat"].max()),
        "ess_lowest": float(table["ess_bulk"].min()),
    }
