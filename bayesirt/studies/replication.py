"""One replication of a calibration study: an engine's draws compared with known parameters.

If parameters are drawn from the prior and responses from the parameters, the parameters are one
more draw from the posterior. So their rank among independent draws is uniform, and intervals have
nominal coverage, for every function of parameters and responses.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import jax
import numpy as np
from arviz_stats.base import array_stats
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray
from scipy.special import expit

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.inference.laplace import sample_laplace
from bayesirt.inference.nuts import sample_nuts
from bayesirt.inference.options import RunOptions
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.likelihood.families import LOGIT
from bayesirt.models import Priors, TwoPL
from bayesirt.names import one_line
from bayesirt.posterior import Posterior
from bayesirt.simulate import Simulation, simulate_responses
from bayesirt.studies.tasks import PortableKey, Row

Engine = Callable[[Responses, Array], Posterior]
Draws = Mapping[str, NDArray[np.floating]]
QUANTITIES = {
    "theta": "ability of the first subject",
    "a": "discrimination of the first item",
    "d": "intercept of the first item",
    "extreme_a": "discrimination of the most extreme item",
    "extreme_d": "intercept of the most extreme item",
    "log_likelihood": "joint log likelihood",
    "top_score": "expected score of the top scorer",
}
"""Quantities that are ranked. The most extreme item and the top scorer depend on the responses."""

GROUPS = {  # Parameters whose intervals are counted together.
    "theta": "abilities",
    "a": "discriminations",
    "d": "intercepts",
    "extreme_a": "discriminations of extreme items",
    "extreme_d": "intercepts of extreme items",
}
LEVELS = (0.5, 0.9)  # Probability of the equal-tailed intervals.
EXTREME_SHARE = 0.05  # An item with at most this share of right or of wrong answers is extreme.


@dataclass(frozen=True)
class Design:
    """What a study simulates and how it judges the results."""

    priors: Priors = field(default_factory=Priors)  # Engines must assume the same priors.
    trials: int = 1  # Trials of each cell.
    missing: float = 0.0  # Share of the cells that is removed at random.
    # Evenly spaced draws that a rank counts. An engine should have at least as many effective
    # draws; the table shows where it does not.
    kept: int = 99
    # Probability that a study of correct engines finds any rank miscalibrated; the same for
    # coverage.
    false_alarm: float = 0.05


_SAMPLERS: dict[str, tuple[Callable[..., Posterior], RunOptions]] = {
    "nuts": (sample_nuts, RunOptions(num_chains=2, num_warmup=500)),
    "blocked": (sample_blocked, RunOptions(num_warmup=300, thinning=2)),
    "laplace": (sample_laplace, RunOptions(num_samples=500)),
}


def study_engines(names: Sequence[str], priors: Priors | None = None) -> dict[str, Engine]:
    """Return the package's engines by name, set up for many small runs."""
    return {name: partial(_sample, name, priors or Priors()) for name in names}


def _sample(name: str, priors: Priors, responses: Responses, key: Array) -> Posterior:
    sampler, options = _SAMPLERS[name]
    return sampler(responses, key=key, model=TwoPL(priors), options=options)


def names_for(names: Mapping[str, str], priors: Priors) -> list[str]:
    """Return the quantities or groups that the priors leave free: Rasch has no discriminations."""
    return [name for name in names if priors.slopes != "rasch" or name not in ("a", "extreme_a")]


def replicate(
    name: str, engine: Engine, place: tuple[int, int, int], design: Design, key: PortableKey
) -> list[Row]:
    """Run one engine on the simulation of a size and replication, which alone determine keys."""
    n_subjects, n_items, _ = place
    simulation = simulate_responses(
        n_subjects,
        n_items,
        key=key.folded(*place),
        priors=design.priors,
        trials=design.trials,
        missing=design.missing,
    )
    engine_key = key.folded(*place, name)
    return [judge(simulation, engine, key=engine_key, priors=design.priors, kept=design.kept)]


def judge(simulation: Simulation, engine: Engine, *, key: Array, priors: Priors, kept: int) -> Row:
    """Run one engine on one simulation, and return the columns of `row_columns`.

    For each quantity the rank, ties and bulk ESS; for each group counts by level. `failed` and
    `warned`, an engine's first warning, are empty if all went well.
    """
    engine_key, tie_key = jax.random.split(key)
    began = time.perf_counter()
    failed, measures = "", {}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            posterior = engine(simulation.responses, engine_key)
        except ResponseError as error:
            failed = one_line(str(error), 200)
    row: Row = {
        "seconds": time.perf_counter() - began,
        "warned": one_line(str(heard[0].message), 200) if heard else "",
    }
    if not failed:
        draws = {name: np.asarray(posterior[name]) for name in ("theta", "a", "d")}
        if all(np.isfinite(values).all() for values in draws.values()):
            measures = _ranks(simulation, draws, tie_key, priors, kept)
            measures |= _coverage(simulation, draws, priors)
        else:
            failed = "draws are not finite"
    return row | {"failed": failed} | measures


def row_columns(priors: Priors) -> list[str]:
    """Return the columns of a row, in order."""
    columns = ["seconds", "warned", "failed"]
    for name in names_for(QUANTITIES, priors):
        columns += [f"rank_{name}", f"ties_{name}", f"ess_{name}"]
    for name in names_for(GROUPS, priors):
        columns.append(f"members_{name}")
        for level in LEVELS:
            columns += [f"{side}{level:.0%}_{name}" for side in ("below", "in", "above")]
    return columns


def _ranks(simulation: Simulation, draws: Draws, key: Array, priors: Priors, kept: int) -> Row:
    responses = simulation.responses
    n_chains, n_draws = draws["theta"].shape[:2]
    if n_chains * n_draws < kept:
        raise ValueError(f"{kept} draws are kept, but the engine returned {n_chains * n_draws}")
    truth = {name: simulation.parameters[name][None] for name in draws}
    joined = {name: values.reshape(-1, values.shape[-1]) for name, values in draws.items()}
    true_values, values = quantities_of(truth, responses), quantities_of(joined, responses)
    spaced = ((np.arange(kept) + 0.5) * n_chains * n_draws / kept).astype(int)
    seed = np.asarray(jax.random.key_data(key)).ravel()
    rng = np.random.default_rng([int(word) for word in seed])
    row: Row = {}
    for name in names_for(QUANTITIES, priors):
        sample, true = values[name][spaced], true_values[name][0]
        ties = int((sample == true).sum())
        row[f"rank_{name}"] = float((sample < true).sum() + rng.integers(ties + 1))
        row[f"ties_{name}"] = float(ties)
        by_chain = values[name].reshape(n_chains, n_draws)
        row[f"ess_{name}"] = float(array_stats.ess(by_chain, method="bulk"))
    return row


def quantities_of(draws: Draws, responses: Responses) -> dict[str, NDArray[np.floating]]:
    """Return `QUANTITIES`; ties for the top scorer or most extreme item go to the first."""
    theta, a, d = (draws[name] for name in ("theta", "a", "d"))
    successes, trials = responses.cells.matrices()
    scorer = int(np.argmax(successes.sum(1) / trials.sum(1)))
    item = int(np.argmin(_rarer(successes, trials) / trials.sum(0)))
    return {
        "theta": theta[:, 0],
        "a": a[:, 0],
        "d": d[:, 0],
        "extreme_a": a[:, item],
        "extreme_d": d[:, item],
        "log_likelihood": np.asarray(_log_likelihoods(theta, a, d, successes, trials)),
        "top_score": expit(theta[:, scorer, None] * a + d).mean(1),
    }


@jax.jit
def _log_likelihoods(
    theta: Float[Array, "sample subject"],
    a: Float[Array, "sample item"],
    d: Float[Array, "sample item"],
    successes: Int[Array, "subject item"],
    trials: Int[Array, "subject item"],
) -> Float[Array, " sample"]:
    def of_draw(draw: tuple[Array, Array, Array]) -> Array:
        own_theta, own_a, own_d = draw
        eta = own_theta[:, None] * own_a + own_d
        return LOGIT.terms(eta, successes, trials).log_likelihood.sum()

    return jax.lax.map(of_draw, (theta, a, d))


def _rarer(successes: NDArray[np.integer], trials: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the number of right or wrong answers to each item, whichever is smaller."""
    right = successes.sum(0, dtype=np.int64)
    return np.minimum(right, trials.sum(0, dtype=np.int64) - right)


def _coverage(simulation: Simulation, draws: Draws, priors: Priors) -> Row:
    successes, trials = simulation.responses.cells.matrices()
    extreme = _rarer(successes, trials) <= EXTREME_SHARE * trials.sum(0)
    row: Row = {}
    for name in names_for(GROUPS, priors):
        site = name.removeprefix("extreme_")
        members = extreme if site != name else slice(None)
        truth = simulation.parameters[site][members]
        sample = draws[site].reshape(-1, draws[site].shape[-1])[:, members]
        row[f"members_{name}"] = float(len(truth))
        for level in LEVELS:
            low, high = np.quantile(sample, [(1 - level) / 2, (1 + level) / 2], axis=0)
            below, above = int((truth < low).sum()), int((truth > high).sum())
            counts = {"below": below, "in": len(truth) - below - above, "above": above}
            row |= {f"{side}{level:.0%}_{name}": float(n) for side, n in counts.items()}
    return row
