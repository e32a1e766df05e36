"""How much better one model predicts each answer than another: leave-one-out log densities."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.likelihood.families import family_named
from bayesirt.likelihood.latencies import wrong_share
from bayesirt.posterior import Posterior

MOST_DRAWS, MOST_CELLS = 400, 20_000
_AT_ONCE = 4096
"""Cells whose draws are held in memory at a time."""
_SURELY = 2.0
"""Standard errors by which a model must predict better to be called better."""
_LEAST = 4.0
"""Least difference in ELPD: below it the standard error is unreliable (Sivula et al. 2020)."""
_FEW = 0.01
"""Largest share of too influential cells that goes without a warning."""
_SITES = ("theta", "tau", "a", "d", "phi", "omega", "lam", "delta")


@dataclass(frozen=True)
class PredictionGain:
    """How much better a model predicts answers than another one."""

    # Expected log predictive density of all cells less that of the other model, and its
    # standard error.
    elpd: float
    se: float
    # Cells that were evaluated, and those so influential in one of the models that its draws
    # hardly show how well it would predict them.
    n_cells: int
    n_bad: int

    @property
    def surely(self) -> int:
        """1 if it clearly predicts better, -1 if worse, 0 if that is uncertain."""
        if abs(self.elpd) <= max(_SURELY * self.se, _LEAST):
            return 0
        return 1 if self.elpd > 0 else -1

    def numbers(self) -> str:
        """Return the gain with its standard error, and a warning if it is rough."""
        text = f"ELPD {self.elpd:+,.0f} ± {self.se:,.0f}"
        if self.n_bad > _FEW * self.n_cells:
            text += f"; rough, as {self.n_bad:,} of {self.n_cells:,} answers are too influential"
        return text

    def between(self, model: str, other: str) -> str:
        """Return a sentence on which of two models predicts better."""
        if self.surely == 0:
            return f"Whether the {model} predicts better than the {other} is uncertain: " + (
                f"{self.numbers()}."
            )
        better, worse = (model, other) if self.surely > 0 else (other, model)
        return f"The {better} predicts better than the {worse}: {self.numbers()}."


class Cells(NamedTuple):
    """Answers as arrays of shape (cell,)."""

    subject: Array
    item: Array
    successes: Array
    trials: Array
    log_latency: Array  # NaN where no length was recorded.

    @classmethod
    def of(cls, responses: Responses) -> "Cells":
        """Extract the cells of responses."""
        subject, item, successes, trials = map(jnp.asarray, responses.cells.listed())
        latency = responses.latency
        lengths = np.full(len(subject), np.nan) if latency is None else np.log(latency)
        return cls(subject, item, successes, trials, jnp.asarray(lengths))

    def take(self, places: NDArray[np.intp]) -> "Cells":
        """Return some of the cells."""
        return Cells(*(column[places] for column in self))


def compare_models(
    responses: Responses,
    posterior: Posterior,
    other: Posterior,
    *,
    most_draws: int = MOST_DRAWS,
    most_cells: int = MOST_CELLS,
    seed: int = 0,
) -> PredictionGain:
    """Compare how well two models of the same responses predict each cell from the rest.

    Parameters
    ----------
    responses : Responses
    posterior, other : Posterior
        Of these responses.
    most_draws : int
        Most draws to use of each posterior, evenly spread over its chains.
    most_cells : int
        Most cells to use; of more, so many are sampled at random to represent all.
    seed : int
        Seed of that sample.

    Returns
    -------
    PredictionGain

    Raises
    ------
    ValueError
        If the posteriors are not of these responses.

    Notes
    -----
    Each cell is left out by Pareto-smoothed importance sampling: its answer, together with its
    length if it has one. The standard error of n cells is √n times the standard deviation of their
    gains, as if they were independent, or, if larger, the one that allows the gains of one subject,
    and those of one item, to be correlated.

    References
    ----------
    Vehtari, Gelman & Gabry 2017 for PSIS-LOO; Cameron, Gelbach & Miller 2011 for the error.
    """
    if not posterior.subjects == other.subjects == list(responses.subjects):
        raise ValueError("the posteriors are not of these responses")
    cells = Cells.of(responses)
    n_all = len(cells.subject)
    if n_all > most_cells:
        chosen = np.random.default_rng(seed).choice(n_all, most_cells, replace=False)
        cells = cells.take(np.sort(chosen))
    (elpd, bad), (without, bad_without) = (
        pointwise_elpd(cells, fit, most_draws) for fit in (posterior, other)
    )
    gains = elpd - without
    return PredictionGain(
        n_all * float(gains.mean()),
        n_all / len(gains) * _error_of_sum(gains, cells),
        len(gains),
        int((bad | bad_without).sum()),
    )


def pointwise_elpd(
    cells: Cells, posterior: Posterior, most_draws: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return each cell's leave-one-out log density, and whether that is unreliable."""
    n_all = len(posterior.theta)
    rows = np.linspace(0, n_all - 1, min(most_draws, n_all)).round().astype(int)
    sites = [name for name in (*_SITES, *posterior.further) if name in posterior.dataset]
    draws = {name: jnp.asarray(posterior.draws(name)[rows]) for name in sites}
    parts = np.array_split(np.arange(len(cells.subject)), -(-len(cells.subject) // _AT_ONCE))
    results = [_leave_out(log_densities(draws, cells.take(p), link=posterior.link)) for p in parts]
    elpd, k = (np.concatenate(values) for values in zip(*results, strict=True))
    return elpd, ~(k <= min(1 - 1 / np.log10(len(rows)), 0.7))


@partial(jax.jit, static_argnames="link")
def log_densities(draws: dict[str, Array], cells: Cells, *, link: str) -> Float[Array, "draw cell"]:
    """Return log p(y | θ, a, d, ...) + log p(x | y, τ, φ, ω, λ, δ), up to constants of cells."""
    of_item = {k: v[:, cells.item] for k, v in draws.items() if k not in ("theta", "tau")}
    eta = of_item["a"] * draws["theta"][:, cells.subject] + of_item["d"]
    family = family_named(link).given([of_item[name] for name in family_named(link).further])
    if family.law is not None and family.law.recorded is not None:
        return family.law.recorded(eta, cells.successes, cells.trials)
    answers = family.terms(eta, cells.successes, cells.trials).log_likelihood
    if "tau" not in draws:
        return answers
    tau = draws["tau"][:, cells.subject]
    mean = of_item["omega"] - of_item["phi"] * tau
    if "delta" in of_item:
        mean += of_item["delta"] * wrong_share(cells.successes, cells.trials)
    seen = jnp.isfinite(cells.log_latency)
    x = jnp.where(seen, cells.log_latency, 0)
    return answers + jnp.where(seen, norm.logpdf(x, mean, jnp.sqrt(of_item["lam"])), 0)


def _leave_out(log_density: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from arviz_stats.base import array_stats

    one_chain = np.asarray(log_density, np.float64)[None]
    elpd, k, _ = array_stats.loo(one_chain, chain_axis=0, draw_axis=1)
    return elpd, k


def _error_of_sum(gains: NDArray[np.float64], cells: Cells) -> float:
    gaps = gains - gains.mean()
    by_subject, by_item = (
        (np.bincount(np.asarray(groups), gaps) ** 2).sum() for groups in (cells.subject, cells.item)
    )
    independent = (gaps**2).sum()
    return float(np.sqrt(max(independent, by_subject + by_item - independent)))
