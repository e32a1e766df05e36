"""What LaRT and plain IRT say of one matrix: abilities, their intervals, and ρ."""

import time
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesirt.data.responses import Responses
from bayesirt.estimators.lart_intervals import KINDS, ability_intervals
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import LaRT
from bayesirt.point_estimate import PointEstimate
from bayesirt.ranking.length_gain import correlation
from bayesirt.studies.engine import Places, Row
from bayesirt.studies.fits import timed, two_chains
from bayesirt.studies.lart_scoring import GRID, Cells, Items, Matrix, speed_evidence
from bayesirt.studies.lart_suites import EM_METHODS, TAILS, fit_model
from bayesirt.studies.tasks import PortableKey

RESAMPLES = 2000
RHO_COLUMNS = ("rho", "low", "high", "seconds")

_RHO = np.tanh(np.linspace(-3, 3, 301))
_DRAW_SEED = 7


@dataclass(frozen=True)
class MatrixLook:
    """A matrix by both models."""

    size: tuple[int, int]
    n_groups: int  # Base subjects.
    # One row a model: seconds, converged, iterations, and the mean width of the 90% intervals of
    # the abilities by each closed form.
    fits: pd.DataFrame
    rho: pd.DataFrame  # One row a way: rho, and low and high of its 90% interval.
    # One row a subject: accuracy, its abilities by both models, and its speed.
    subjects: pd.DataFrame


@dataclass(frozen=True)
class DrawTask:
    """ρ by the posterior of the whole matrix."""

    responses: Responses
    draws: int  # By each of two chains, after half as many of warm-up.
    key: PortableKey  # The study's.

    part = "rho"

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        return [(self.part, ("posterior",))]

    def run(self) -> list[Row]:
        """Return the row."""
        start = time.perf_counter()
        posterior = sample_blocked(
            self.responses,
            key=self.key.folded(_DRAW_SEED),
            model=LaRT(),
            options=two_chains(self.draws, thinning=1),
        )
        low, median, high = correlation(posterior)
        seconds = time.perf_counter() - start
        row: Row = {"part": self.part, "method": "posterior", "rho": median}
        return [row | {"low": low, "high": high, "seconds": seconds}]


def look_at(
    responses: Responses, groups: NDArray[np.intp], drawn: pd.DataFrame, rng: np.random.Generator
) -> MatrixLook:
    """Fit a matrix by both models."""
    fits, rows = {}, []
    for name in EM_METHODS:
        point, seconds = timed(partial(fit_model, name, responses))
        fits[name] = point
        widths = {kind: _mean_width(point, responses, kind) for kind in KINDS}
        rows.append({
            "method": name, "seconds": seconds, "converged": point.converged,
            "iterations": point.iterations,
            **{f"width_{kind}": width for kind, width in widths.items()},
        })  # fmt: skip
    successes, trials, _ = responses.cells.totals(1)
    subjects = pd.DataFrame({
        "subject": responses.subjects, "group": groups, "accuracy": successes / trials,
        "theta_irt": fits["irt"]["theta"], "theta_lart": fits["lart"]["theta"],
        "tau": fits["lart"]["tau"],
    })  # fmt: skip
    rho = rho_table(fits["lart"], responses, groups, rng)
    drawn = drawn[["method", "rho", "low", "high"]].rename(columns={"method": "interval"})
    rho = pd.concat([rho, drawn], ignore_index=True) if len(drawn) else rho
    n_groups = len(np.unique(groups))
    return MatrixLook(responses.cells.shape, n_groups, pd.DataFrame(rows), rho, subjects)


def _mean_width(point: PointEstimate, responses: Responses, kind: str) -> float:
    table = ability_intervals(point, responses, kind=kind)  # type: ignore[arg-type]
    return float((table["high"] - table["low"]).mean())


def rho_table(
    point: PointEstimate, responses: Responses, groups: NDArray[np.intp], rng: np.random.Generator
) -> pd.DataFrame:
    """Return ρ with intervals from rows and from base subjects drawn again; items are held."""
    curves = rho_curves(Items.of(point), Cells.of(responses))
    ways = [("rows", np.arange(len(groups)))]
    if len(np.unique(groups)) < len(groups):
        ways.append(("base subjects", groups))
    rows = []
    for name, labels in ways:
        low, high = resampled_rho(curves, labels, rng)
        rows.append({"interval": name, "rho": float(point["rho"]), "low": low, "high": high})
    return pd.DataFrame(rows)


def rho_curves(items: Items, cells: Cells) -> Matrix:
    """Return each subject's log likelihood as a function of ρ alone.

    ∫ N(θ; 0, 1) p(answers | θ) ∫ exp(pull τ - P τ²/2) N(τ; ρ θ, 1 - ρ²) dτ dθ.
    """
    of_right, of_wrong = items.log_probabilities()
    wrong = cells.trials - cells.successes
    of_answers = cells.successes @ of_right.T + wrong @ of_wrong.T - GRID**2 / 2
    precision, pull = (np.asarray(x)[:, None] for x in speed_evidence(items, cells))
    curves = np.empty((len(of_answers), len(_RHO)))
    for k, rho in enumerate(_RHO):
        left = 1 - rho**2
        known = 1 + precision * left
        of_lengths = (left * pull**2 + 2 * rho * GRID * pull - precision * (rho * GRID) ** 2) / (
            2 * known
        ) - np.log(known) / 2
        curves[:, k] = logsumexp(of_answers + of_lengths, axis=1)
    return curves


def resampled_rho(
    curves: Matrix, labels: NDArray[np.intp], rng: np.random.Generator
) -> tuple[float, float]:
    """Return the bounds of ρ's 90% interval, from groups drawn again with replacement."""
    codes = np.unique(labels, return_inverse=True)[1]
    sums = np.zeros((codes.max() + 1, curves.shape[1]))
    np.add.at(sums, codes, curves)
    counts = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), RESAMPLES)
    best = _RHO[(counts @ sums).argmax(1)]
    low, high = np.quantile(best, TAILS)
    return float(low), float(high)
