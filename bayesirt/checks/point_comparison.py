"""Point estimate against posterior: where the two disagree, and why."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.checks.extreme_scores import response_flags
from bayesirt.names import one_line
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior

_AT_BOUND = 1e-6
_APART = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """A point estimate compared with the posterior, on the scale of the reported posterior."""

    # Per subject: estimate, posterior_mean, posterior_sd, shrinkage (estimate minus mean, in
    # posterior sd), rank_point, rank_posterior, disagrees, reason.
    subjects: pd.DataFrame
    # The same per item for its discrimination a and its intercept d, without ranks.
    items: pd.DataFrame

    @property
    def summary(self) -> pd.DataFrame:
        """The subjects' table."""
        return self.subjects

    @property
    def rank_correlation(self) -> float:
        """Spearman's correlation of estimates of ability with posterior means."""
        table = self.subjects
        return float(table["estimate"].rank().corr(table["posterior_mean"].rank()))

    def __repr__(self) -> str:
        return f"<Comparison: {self.to_text()}>"

    def to_text(self) -> str:
        """Return the comparison in words."""
        moved = int((self.subjects["rank_point"] != self.subjects["rank_posterior"]).sum())
        subjects = int(self.subjects["disagrees"].sum())
        items = int(self.items["disagrees"].sum())
        worst = self.subjects.loc[self.subjects["shrinkage"].abs().idxmax()]
        return (
            f"Point estimate and posterior order subjects with a rank correlation of "
            f"{self.rank_correlation:.3f}; "
            f"{moved} of {len(self.subjects)} ranks differ, {subjects} subjects and {items} items "
            f"differ by more than one posterior sd. Farthest: {one_line(worst['subject'])} "
            f"({worst['shrinkage']:+.1f} sd{'; ' if worst['reason'] else ''}{worst['reason']})."
        )


def compare_estimates(point: PointEstimate, posterior: Posterior) -> Comparison:
    """Compare a point estimate with the posterior.

    Parameters
    ----------
    point : PointEstimate
    posterior : Posterior
        Of the same responses.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If the two are not about the same subjects and items.
    """
    if (
        list(point.parameters["subject"].values) != posterior.subjects
        or list(point.parameters["item"].values) != posterior.items
    ):
        raise ValueError("the point estimate and the posterior name different subjects or items")
    posterior = posterior.reported
    successes, trials = posterior.successes, posterior.trials
    theta, a, d = _reported_point(point, posterior.theta)
    subjects = _side_by_side(theta, posterior.theta)
    subjects.insert(0, "subject", posterior.subjects)
    for rank, by in (("rank_point", "estimate"), ("rank_posterior", "posterior_mean")):
        subjects[rank] = subjects[by].rank(ascending=False, method="min").astype(int)
    subjects["disagrees"] = subjects["shrinkage"].abs() > _APART
    subjects["reason"] = response_flags(successes, trials, 1)
    of_a = _side_by_side(a, posterior.draws("a")).add_prefix("a_")
    of_d = _side_by_side(d, posterior.draws("d")).add_prefix("d_")
    items = pd.concat([of_a, of_d], axis=1)
    items.insert(0, "item", posterior.items)
    items["disagrees"] = items[["a_shrinkage", "d_shrinkage"]].abs().max(axis=1) > _APART
    items["reason"] = [
        "; ".join(filter(None, [flag, "a at its bound" if bound else ""]))
        for flag, bound in zip(
            response_flags(successes, trials, 0), np.abs(point["a"]) <= _AT_BOUND, strict=True
        )
    ]
    return Comparison(subjects, items)


def _reported_point(
    point: PointEstimate, reported: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the estimates of θ, a and d, rescaled to the mean and spread of drawn abilities."""
    theta, a = point["theta"], point["a"]
    spread = theta.std()
    unit = spread / reported.std(1).mean() if spread > 0 else 1.0
    return (theta - theta.mean()) / unit, a * unit, point["d"] + a * theta.mean()


def _side_by_side(estimate: NDArray[np.float64], draws: NDArray[np.float64]) -> pd.DataFrame:
    mean, sd = draws.mean(0), draws.std(0, ddof=1)
    shrinkage = (estimate - mean) / np.where(sd > 0, sd, 1)
    return pd.DataFrame(
        {"estimate": estimate, "posterior_mean": mean, "posterior_sd": sd, "shrinkage": shrinkage}
    )
