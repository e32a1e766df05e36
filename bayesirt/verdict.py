"""Verdicts on whether draws can be trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesirt.names import one_line

R_HAT, ESS = 1.01, 400.0
"""Limits for convergence (Vehtari et al., 2021, doi:10.1214/20-BA1221)."""
_BFMI = 0.3
_FEW_DIVERGENCES = 1e-3
"""Tolerated share of divergent transitions. If abilities have converged, the part of the posterior
that so few may hide is too small to change a probability with two digits."""
_MOST_TIMES = 10
"""Largest factor by which the advice increases the number of draws."""

ABILITIES = ("theta", "tau", "gamma", "icc")
"""Parameters that rankings depend on; all others describe items and the population."""


@dataclass(frozen=True)
class Verdict:
    """Whether the draws can be trusted, and if not, why and what to do.

    Attributes
    ----------
    sound : bool
        Whether abilities, and hence ranks, can be trusted.
    r_hat, ess_bulk, ess_tail, bfmi : float
        The worst value over all abilities (highest R-hat, lowest of the others); nan if draws are
        independent.
    divergences : int or None
        None if the sampler cannot diverge.
    complaints : tuple of str
        Why the ranking is invalid, each with the name of the worst ability.
    complete : bool
        False if sampling was interrupted.
    approximate : bool
        True if the draws are from an approximation.
    covers : str
        What 90% intervals of such an approximation covered in simulations.
    unconverged, n_others : int
        How many of the item and population parameters have not converged, and their total number.
        They do not invalidate the ranking.
    worst_other : str
        The worst of them.
    advice : str
        What to do if the draws are not sound.
    explored : bool
        False if transitions diverged or E-BFMI is low, so that all chains may have missed the same
        part of the posterior.
    """

    sound: bool
    r_hat: float
    ess_bulk: float
    ess_tail: float
    bfmi: float
    divergences: int | None
    complaints: tuple[str, ...]
    complete: bool = True
    approximate: bool = False
    covers: str = ""
    unconverged: int = 0
    n_others: int = 0
    worst_other: str = ""
    advice: str = ""
    explored: bool = True

    def to_text(self) -> str:
        """Return the verdict in words, failures first."""
        if self.approximate:
            return self._on_approximation()
        partial = "" if self.complete else "Interrupted: these are the draws so far. "
        if not self.sound:
            return (
                f"Do not trust this ranking yet: {'; '.join(self.complaints)}. {partial}"
                f"{self.advice}"
            )
        sentence = (
            f"{partial}Abilities and ranks have converged (R-hat at most {self.r_hat:.3f}, "
            f"effective draws at least {min(self.ess_bulk, self.ess_tail):,.0f})."
        )
        return " ".join([sentence, *self._warnings()])

    def _warnings(self) -> list[str]:
        """Return warnings that do not invalidate the ranking."""
        warnings = []
        if self.divergences:
            verb = "transition diverged" if self.divergences == 1 else "transitions diverged"
            warnings.append(f"{self.divergences} {verb}: too few to move a rank.")
        if self.unconverged:
            verb = "has" if self.unconverged == 1 else "have"
            warnings.append(
                f"{self.unconverged:,} of {self.n_others:,} item and population parameters {verb} "
                f"not converged (worst {self.worst_other}): do not quote these."
            )
        return warnings

    def _on_approximation(self) -> str:
        if self.sound:
            covers = (
                f" In simulations its 90% intervals cover {self.covers}." if self.covers else ""
            )
            return (
                f"Laplace approximation, not exact: a normal distribution whose centre has "
                f"converged.{covers} For exact draws pass --engine blocked."
            )
        return (
            f"Do not trust this ranking: it is a Laplace approximation, and "
            f"{'; '.join(self.complaints)}. {self.advice}"
        )


def judge_chains(
    table: pd.DataFrame,
    statistics: xr.Dataset,
    *,
    complete: bool,
    attrs: Mapping[str, Any] | None = None,
    draws: int = 0,
) -> Verdict:
    """Judge draws of Markov chains."""
    of_abilities = table.index.get_level_values(0).isin(ABILITIES)
    abilities, others = table[of_abilities], table[~of_abilities]
    unmixed, missed = _failures(abilities), []
    divergences = None
    if "diverging" in statistics:
        diverging = statistics["diverging"]
        divergences = int(diverging.sum())
        if divergences > _FEW_DIVERGENCES * diverging.size:
            missed.append(f"{divergences:,} of {diverging.size:,} transitions diverged")
    bfmi = np.nan
    if "energy" in statistics:
        from arviz_stats.base import array_stats

        bfmi = float(np.min(array_stats.bfmi(statistics["energy"].to_numpy())))
    if bfmi < _BFMI:
        missed.append(f"E-BFMI {bfmi:.2f} is below {_BFMI}")
    complaints = [*unmixed, *missed]
    failing = others[_fails(others).any(axis=1)]
    r_hat = float(abilities["r_hat"].max(skipna=False))
    bulk, tail = (float(abilities[name].min(skipna=False)) for name in ("ess_bulk", "ess_tail"))
    return Verdict(
        not complaints,
        r_hat,
        bulk,
        tail,
        bfmi,
        divergences,
        tuple(complaints),
        complete,
        unconverged=len(failing),
        n_others=len(others),
        worst_other=_worst_other(failing) if len(failing) else "",
        advice=_advice(attrs or {}, draws, r_hat, min(bulk, tail)) if complaints else "",
        explored=not missed,
    )


def _fails(table: pd.DataFrame) -> pd.DataFrame:
    """Return which quantities miss which limit; nan counts as a miss."""
    return pd.DataFrame(
        {
            "r_hat": ~(table["r_hat"] < R_HAT),
            "ess_bulk": ~(table["ess_bulk"] > ESS),
            "ess_tail": ~(table["ess_tail"] > ESS),
        }
    )


def _failures(table: pd.DataFrame) -> list[str]:
    """Describe which abilities miss which limit."""
    fails, n = _fails(table), len(table)
    noun, failures = ("ability" if n == 1 else "abilities"), []
    for column, limit in (
        ("r_hat", f"R-hat above {R_HAT}"),
        ("ess_bulk", f"bulk ESS below {ESS:.0f}"),
        ("ess_tail", f"tail ESS below {ESS:.0f}"),
    ):
        bad = table[fails[column]]
        if len(bad):
            verb = "has" if len(bad) == 1 else "have"
            failures.append(
                f"{len(bad):,} of {n:,} {noun} {verb} {limit} (worst {_worst(bad, column)})"
            )
    return failures


def _worst(table: pd.DataFrame, column: str) -> str:
    """Return the worst value of a column and the quantity's name."""
    badness = table[column] * (1 if column == "r_hat" else -1)
    at = badness.fillna(np.inf).idxmax()
    name = f"{at[0]} of {one_line(at[1])!r}" if at[1] else at[0]
    return f"{'R-hat ' if column == 'r_hat' else ''}{table.loc[at, column]:.4g}, {name}"


def _worst_other(failing: pd.DataFrame) -> str:
    """Return the worst failing parameter, by R-hat if any misses that limit, else by ESS."""
    if _fails(failing)["r_hat"].any():
        return _worst(failing, "r_hat")
    least = "ess_bulk" if failing["ess_bulk"].min() < failing["ess_tail"].min() else "ess_tail"
    return f"{least.removeprefix('ess_')} ESS {_worst(failing, least)}"


def _advice(attrs: Mapping[str, Any], draws: int, r_hat: float, ess: float) -> str:
    """Return what to do; the advice never repeats what was just done."""
    if attrs.get("engine") == "nuts":
        return "Run again with --engine blocked."
    missing = [2.0, (r_hat - 1) / (R_HAT - 1), 1.2 * ESS / max(ess, 1)]
    times = int(np.clip(np.ceil(np.nanmax(missing)), 2, _MOST_TIMES))
    more = f"more draws (--draws {times * draws})" if draws else "more draws (--draws)"
    if attrs.get("model") == "Q-matrix 2PL":
        return f"Run again with {more}, or merge abilities that few items tell apart."
    return f"Run again with {more} or a longer --budget."


def chains_of(draws: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the chains; a single chain is split into halves."""
    if len(draws) > 1 or draws.shape[1] < 2:
        return draws
    half = draws.shape[1] // 2
    return draws[:, : 2 * half].reshape(2, half, *draws.shape[2:])


def judge_approximation(attrs: Mapping[str, Any]) -> Verdict:
    """Judge draws from an approximation according to how it was computed."""
    complaints = []
    if not attrs["converged"]:
        complaints.append("its centre has not converged")
    if attrs["few"]:
        complaints.append("there are too few subjects or items for a normal approximation")
    if attrs["information"] != "observed":
        complaints.append(f"it uses {attrs['information']}, not observed information")
    nan = float("nan")
    return Verdict(
        not complaints,
        nan,
        nan,
        nan,
        nan,
        None,
        tuple(complaints),
        approximate=True,
        covers=str(attrs.get("covers", "")),
        advice="Run again with --engine blocked." if complaints else "",
    )
