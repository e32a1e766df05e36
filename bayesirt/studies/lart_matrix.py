"""LaRT and plain IRT on one matrix: abilities, ρ, and an external criterion.

Abilities are scored on a fixed grid, from any part of the answers and lengths, without compiling.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.special import log_ndtr, logsumexp, ndtr
from scipy.stats import norm

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.lart_intervals import KINDS, ability_intervals
from bayesirt.likelihood.latencies import SpeedEvidence
from bayesirt.names import one_line
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import TAILS
from bayesirt.ranking.length_gain import correlation
from bayesirt.studies.labels import read_pairs
from bayesirt.studies.lart_suites import EM_METHODS, draw_model, fit_model
from bayesirt.studies.measures import RESAMPLES, Floats, Index, Mask, resampled_sums, spearman
from bayesirt.studies.tasks import PortableKey, Row, timed

GRID = np.linspace(-6, 6, 601)
"""Grid of abilities; a posterior after 500 items is still ten times wider than a step."""


class Items(NamedTuple):
    """Items of LaRT, or of plain IRT, taken as known."""

    a: Floats  # shape (item,), as are the others.
    d: Floats
    phi: Floats  # 0 without lengths, which then have no effect.
    omega: Floats
    lam: Floats
    rho: float

    @classmethod
    def of(cls, point: PointEstimate) -> "Items":
        """Return an estimate's items; without lengths φ = ρ = 0."""
        a, d = point["a"], point["d"]
        if "rho" not in point.parameters:
            return cls(a, d, 0 * a, 0 * a, 0 * a + 1, 0.0)
        return cls(a, d, point["phi"], point["omega"], point["lam"], float(point["rho"]))

    def log_probabilities(self) -> tuple[Floats, Floats]:
        """Return log Φ(η) and log Φ(-η), shape (grid, item)."""
        eta = GRID[:, None] * self.a + self.d
        return log_ndtr(eta), log_ndtr(-eta)


class Cells(NamedTuple):
    """Answers and log lengths as matrices."""

    successes: Floats  # shape (subject, item), as are the others.
    trials: Floats
    x: Floats  # NaN where no length was observed.

    @classmethod
    def of(cls, responses: Responses) -> "Cells":
        """Return the matrices of all responses."""
        successes, trials = (np.asarray(m, float) for m in responses.cells.matrices())
        x = np.full(trials.shape, np.nan)
        if responses.latency is not None:
            listed = responses.cells.listed()
            x[listed.subject, listed.item] = np.log(responses.latency)
        return cls(successes, trials, x)

    def rows(self, subjects: Index) -> "Cells":
        """Return the rows of some subjects."""
        return Cells(*(matrix[subjects] for matrix in self))

    def columns(self, items: Index) -> "Cells":
        """Return the columns of some items."""
        return Cells(*(matrix[:, items] for matrix in self))

    def accuracy(self, items: Index) -> Floats:
        """Return each subject's proportion correct on some items, NaN if it answered none."""
        successes, trials = self.successes[:, items].sum(1), self.trials[:, items].sum(1)
        return np.divide(successes, trials, out=np.full(len(trials), np.nan), where=trials > 0)


class Scores(NamedTuple):
    """The posterior of each ability."""

    mean: Floats  # shape (subject,)
    mode: Floats  # shape (subject,)
    probability: Floats  # shape (subject, grid), Posterior probability at `GRID`.

    def predictive(self, items: Items) -> Floats:
        """Return P(right) with the ability integrated out, shape (subject, item)."""
        return self.probability @ ndtr(GRID[:, None] * items.a + items.d)

    def plugged_in(self, items: Items) -> Floats:
        """Return P(right) at the mode, shape (subject, item)."""
        return np.asarray(ndtr(self.mode[:, None] * items.a + items.d))


def score_abilities(
    items: Items, cells: Cells, answered: Mask | None = None, timed: Mask | None = None
) -> Scores:
    """Score abilities from answers and lengths (Xu et al., 2026, Lemma 1, corrected)."""
    one = np.ones(cells.trials.shape[1])
    right = cells.successes * (one if answered is None else answered)
    wrong = (cells.trials - cells.successes) * (one if answered is None else answered)
    of_right, of_wrong = items.log_probabilities()
    log_likelihood = right @ of_right.T + wrong @ of_wrong.T
    return posterior_on_grid(log_likelihood, speed_evidence(items, cells, timed), items.rho)


def posterior_on_grid(log_likelihood: Floats, evidence: SpeedEvidence, rho: float) -> Scores:
    """Return the posterior from the answers' log likelihood at `GRID` and the lengths' evidence."""
    mean, variance = (np.asarray(x)[:, None] for x in evidence.ability(jnp.asarray(rho)))
    log_density = log_likelihood - (GRID - mean) ** 2 / (2 * variance)
    probability = np.exp(log_density - logsumexp(log_density, axis=1, keepdims=True))
    return Scores(probability @ GRID, _modes(log_density), probability)


def speed_evidence(items: Items, cells: Cells, timed: Mask | None = None) -> SpeedEvidence:
    """Return the evidence of lengths on speeds."""
    seen = np.isfinite(cells.x) if timed is None else np.isfinite(cells.x) & timed
    above = np.where(seen, cells.x - items.omega, 0.0)
    pull, precision = -above @ (items.phi / items.lam), seen @ (items.phi**2 / items.lam)
    return SpeedEvidence(precision, pull)  # type: ignore[arg-type]


def item_information(items: Items, theta: Floats) -> Floats:
    """Return a² φ(η)²/(Φ(η) (1 - Φ(η))) of each item at each ability."""
    eta = theta[:, None] * items.a + items.d
    p = np.clip(ndtr(eta), 1e-300, 1 - 1e-16)
    return items.a**2 * norm.pdf(eta) ** 2 / (p * (1 - p))


def _modes(log_density: Floats) -> Floats:
    """Return the modes, interpolated between grid points by a parabola."""
    rows, step = np.arange(len(log_density)), GRID[1] - GRID[0]
    at = np.clip(log_density.argmax(1), 1, len(GRID) - 2)
    before, peak, after = (log_density[rows, at + k] for k in (-1, 0, 1))
    return GRID[at] + step * (after - before) / (2 * (2 * peak - before - after))


ABILITIES = {"accuracy": "accuracy", "irt": "theta_irt", "lart": "theta_lart"}
_LEAST_SUBJECTS = 5
_RHO = np.tanh(np.linspace(-3, 3, 301))
_DRAW_SEED = 7


def draw_rows(responses: Responses, draws: int, key: PortableKey) -> list[Row]:
    """Return ρ from the posterior of the whole matrix."""
    posterior, seconds = draw_model(responses, draws, key.folded(_DRAW_SEED))
    low, median, high = correlation(posterior)
    return [{"rho": median, "low": low, "high": high, "seconds": seconds}]


def look_at(
    responses: Responses, groups: Index, drawn: pd.DataFrame, rng: np.random.Generator
) -> dict[str, pd.DataFrame]:
    """Fit a matrix with both models, and return tables of the fits, of ρ and of the subjects."""
    fits, rows = {}, []
    for name in EM_METHODS:
        point, seconds = timed(fit_model, name, responses)
        fits[name] = point
        row = {"method": name, "seconds": seconds, "converged": point.converged}
        row["iterations"] = point.iterations
        for kind in KINDS:
            table = ability_intervals(point, responses, kind=kind)
            row[f"width_{kind}"] = float((table["high"] - table["low"]).mean())
        rows.append(row)
    successes, trials, _ = responses.cells.totals(1)
    subjects = pd.DataFrame({
        "subject": responses.subjects, "group": groups, "accuracy": successes / trials,
        "theta_irt": fits["irt"]["theta"], "theta_lart": fits["lart"]["theta"],
        "tau": fits["lart"]["tau"],
    })  # fmt: skip
    rho = rho_table(fits["lart"], responses, groups, rng)
    drawn = drawn[["method", "rho", "low", "high"]].rename(columns={"method": "interval"})
    rho = pd.concat([rho, drawn], ignore_index=True) if len(drawn) else rho
    return {"matrix_fits": pd.DataFrame(rows), "matrix_rho": rho, "matrix_subjects": subjects}


def rho_table(
    point: PointEstimate, responses: Responses, groups: Index, rng: np.random.Generator
) -> pd.DataFrame:
    """Return ρ with intervals from resampled rows and base subjects; items are held fixed."""
    curves = rho_curves(Items.of(point), Cells.of(responses))
    ways = [("rows", np.arange(len(groups)))]
    if len(np.unique(groups)) < len(groups):
        ways.append(("base subjects", groups))
    rows = []
    for name, labels in ways:
        low, high = resampled_rho(curves, labels, rng)
        rows.append({"interval": name, "rho": float(point["rho"]), "low": low, "high": high})
    return pd.DataFrame(rows)


def rho_curves(items: Items, cells: Cells) -> Floats:
    """Return each subject's log likelihood as a function of ρ alone.

    ∫ N(θ; 0, 1) p(answers | θ) ∫ exp(pull τ - P τ²/2) N(τ; ρ θ, 1 - ρ²) dτ dθ.
    """
    of_right, of_wrong = items.log_probabilities()
    wrong = cells.trials - cells.successes
    of_answers = cells.successes @ of_right.T + wrong @ of_wrong.T - GRID**2 / 2
    precision, pull = (np.asarray(x)[:, None] for x in speed_evidence(items, cells))
    curves = np.empty((len(of_answers), len(_RHO)))
    for k, rho in enumerate(_RHO):
        residual = 1 - rho**2
        scale = 1 + precision * residual
        of_lengths = (
            residual * pull**2 + 2 * rho * GRID * pull - precision * (rho * GRID) ** 2
        ) / (2 * scale) - np.log(scale) / 2
        curves[:, k] = logsumexp(of_answers + of_lengths, axis=1)
    return curves


def resampled_rho(curves: Floats, labels: Index, rng: np.random.Generator) -> tuple[float, float]:
    """Return the bounds of ρ's 90% interval, from resampled groups."""
    best = _RHO[resampled_sums(curves, labels, rng).argmax(1)]
    low, high = np.quantile(best, TAILS)
    return float(low), float(high)


def read_criterion(path: Path) -> dict[str, float]:
    """Read an external measure of each subject; empty values are left out."""
    table, name = read_pairs(path, "subject", "value"), one_line(path.name)
    numbers = pd.to_numeric(table["value"], errors="coerce")
    given = table["value"].notna() & (table["value"].astype(str).str.strip() != "")
    bad = table[given & ~np.isfinite(numbers)]
    if len(bad):
        row = bad.iloc[0]
        raise ResponseError(
            f"{name} has {one_line(str(row['value']))!r} for {one_line(str(row['subject']))!r}; "
            f"a value must be a number"
        )
    values = pd.Series(numbers.to_numpy(float), table["subject"].astype(str))[given.to_numpy()]
    return {str(subject): float(value) for subject, value in values.items()}


def with_criterion(subjects: pd.DataFrame, criterion: Mapping[str, float]) -> pd.DataFrame:
    """Return the subjects that have a criterion, with its values."""
    rows = subjects[subjects["subject"].isin(list(criterion))]
    rows = rows.assign(criterion=[criterion[name] for name in rows["subject"]])
    if len(rows) < _LEAST_SUBJECTS or rows["criterion"].nunique() < 2:
        raise ResponseError(
            f"the criterion is not informative: {len(rows)} of its subjects are in the responses, "
            f"with {rows['criterion'].nunique()} different values"
        )
    return rows.reset_index(drop=True)


def criterion_table(known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return how abilities correlate with the criterion; intervals resample base subjects."""
    of_group = [*known.groupby("group").indices.values()]
    drawn = rng.integers(0, len(of_group), (RESAMPLES, len(of_group)))
    samples = [np.arange(len(known)), *(np.concatenate([of_group[k] for k in x]) for x in drawn)]
    columns = {name: known[column].to_numpy() for name, column in ABILITIES.items()}
    outside = known["criterion"].to_numpy()
    rows = []
    coefficients: dict[str, Callable[[Floats, Floats], float]] = {
        "Pearson": lambda x, y: float(np.corrcoef(x, y)[0, 1]),
        "Spearman": lambda x, y: float(spearman(x, y)),
    }
    for label, coefficient in coefficients.items():
        correlations = {
            name: np.array([coefficient(outside[sample], values[sample]) for sample in samples])
            for name, values in columns.items()
        }
        correlations["lart less irt"] = correlations["lart"] - correlations["irt"]
        for name, values in correlations.items():
            low, high = np.nanquantile(values[1:], TAILS)
            rows.append((label, name, len(known), values[0], low, high))
    return pd.DataFrame(rows, columns=["coefficient", "method", "subjects", "value", "low", "high"])
