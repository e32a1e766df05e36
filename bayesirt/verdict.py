"""Whether draws can be trusted, in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.base import array_stats

from bayesirt.names import one_line

_R_HAT, _ESS, _BFMI = 1.01, 400.0, 0.3

_COVERS = {
    "LaRT": "85% to 93% of the truth with 100 x 20 and 100 x 100 responses",
    "Q-matrix 2PL": (
        "90% of true abilities, 81% of slopes and 89% of intercepts with 100 x 30 responses and "
        "three abilities"
    ),
}
_COVERS_ELSE = "89% to 97% of the truth from 20 x 15 responses on"
"""What 90% intervals of Laplace approximations hold in simulations, by model."""


@dataclass(frozen=True)
class Verdict:
    """Whether the draws can be trusted, and if not, why and what to do.

    Attributes
    ----------
    sound : bool
    r_hat, ess_bulk, ess_tail, bfmi : float
        The worst over all quantities (R-hat highest, the others lowest); nan where draws are
        independent.
    divergences : int or None
        None where the sampler cannot diverge.
    complaints : tuple of str
        What fails, each with the worst quantity's name.
    complete : bool
        False if sampling was interrupted.
    approximate : bool
        True if the draws are from an approximation.
    covers : str
        What the 90% intervals of such an approximation were seen to hold.
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

    def to_text(self) -> str:
        """Return the verdict in words."""
        if self.approximate:
            return self._on_approximation()
        partial = "" if self.complete else "Interrupted: these are the draws so far. "
        if self.sound:
            return (
                f"{partial}Sampling looks sound: R-hat at most {self.r_hat:.3f}, effective draws "
                f"at least {min(self.ess_bulk, self.ess_tail):,.0f}"
                + ("." if self.divergences is None else f", divergences {self.divergences}.")
            )
        return (
            f"{partial}Do not trust the intervals yet: {'; '.join(self.complaints)}. Run again "
            f"with more draws (--draws, --warmup)"
            + (" and smaller steps (--target-accept .99)." if self.divergences else ".")
        )

    def _on_approximation(self) -> str:
        if self.sound:
            return (
                "Laplace approximation, not exact: a normal distribution around the most probable "
                f"values. They were found, and in simulations its 90% intervals cover "
                f"{self.covers}; for exact draws pass --engine blocked."
            )
        return (
            f"Do not trust the intervals of this Laplace approximation: "
            f"{'; '.join(self.complaints)}. Run again with --engine blocked or nuts."
        )


def judge_chains(table: pd.DataFrame, statistics: xr.Dataset, *, complete: bool) -> Verdict:
    """Judge draws of Markov chains.

    Parameters
    ----------
    table : DataFrame
        With columns r_hat, ess_bulk and ess_tail, indexed by (parameter, name).
    statistics : Dataset
        ``diverging`` and ``energy``, where the sampler has them.
    complete : bool

    Returns
    -------
    Verdict
    """
    divergences = int(statistics["diverging"].sum()) if "diverging" in statistics else None
    bfmi = np.nan
    if "energy" in statistics:
        bfmi = float(np.min(array_stats.bfmi(statistics["energy"].to_numpy())))
    complaints = []
    for column, fails, limit in (
        ("r_hat", ~(table["r_hat"] < _R_HAT), f"R-hat below {_R_HAT}"),
        ("ess_bulk", ~(table["ess_bulk"] > _ESS), f"bulk ESS above {_ESS:.0f}"),
        ("ess_tail", ~(table["ess_tail"] > _ESS), f"tail ESS above {_ESS:.0f}"),
    ):
        if fails.any():
            badness = table[column][fails] * (1 if column == "r_hat" else -1)
            at = badness.fillna(np.inf).idxmax()
            name = f"{at[0]} of {one_line(at[1])!r}" if at[1] else at[0]
            complaints.append(
                f"{fails.sum()} of {len(table)} quantities miss {limit} (worst "
                f"{table.loc[at, column]:.4g}, {name})"
            )
    if divergences:
        complaints.append(f"{divergences} divergent transitions")
    if bfmi < _BFMI:
        complaints.append(f"E-BFMI {bfmi:.2f} is below {_BFMI}")
    return Verdict(
        not complaints,
        float(table["r_hat"].max(skipna=False)),
        float(table["ess_bulk"].min(skipna=False)),
        float(table["ess_tail"].min(skipna=False)),
        bfmi,
        divergences,
        tuple(complaints),
        complete,
    )


def judge_approximation(attrs: Mapping[str, Any]) -> Verdict:
    """Judge independent draws from an approximation by how it was made.

    Parameters
    ----------
    attrs : mapping
        ``converged``, ``few`` and ``information``, as `sample_laplace` leaves them.

    Returns
    -------
    Verdict
    """
    complaints = []
    if not attrs["converged"]:
        complaints.append("the most probable values were not reached")
    if attrs["few"]:
        complaints.append("too few subjects or items for a normal distribution")
    if attrs["information"] != "observed":
        complaints.append(f"its curvature was {attrs['information']}, not observed")
    covers = _COVERS.get(str(attrs.get("model")), _COVERS_ELSE)
    nan = float("nan")
    return Verdict(
        not complaints, nan, nan, nan, nan, None, tuple(complaints), approximate=True, covers=covers
    )
