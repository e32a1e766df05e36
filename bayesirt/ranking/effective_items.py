"""How many independent items would be as informative as items with dependence within groups."""

from dataclasses import dataclass

import numpy as np

from bayesirt.errors import ResponseError
from bayesirt.names import in_percent
from bayesirt.posterior import TAILS, Posterior

_MOST_DRAWS = 200


@dataclass(frozen=True)
class EffectiveItems:
    """How much information about abilities items in groups hold.

    Attributes
    ----------
    column : str
        Column that groups the items.
    n_items, n_groups : int
    effective, low, high : float
        Number of independent items that would be as informative, with its 90% interval.
    share, share_low, share_high : float
        Share of the variance of ability within a group that is specific to the group.
    sound : bool
        As in `Ranking`.
    """

    column: str
    n_items: int
    n_groups: int
    effective: float
    low: float
    high: float
    share: float
    share_low: float
    share_high: float
    sound: bool = True

    def to_text(self) -> str:
        """Return in words how many independent questions would be as informative."""
        if not self.sound:
            return "How informative questions in groups are is not known yet: see the verdict."
        return (
            f"{self.n_items:,} questions in {self.n_groups:,} groups by {self.column} tell as much "
            f"about abilities as {self.effective:,.0f} ({self.low:,.0f} to {self.high:,.0f}) "
            f"independent ones. {in_percent(self.share)} ({in_percent(self.share_low)} to "
            f"{in_percent(self.share_high)}) of the variance of a model's ability on a group is "
            f"specific to that group."
        )


def effective_items(posterior: Posterior) -> EffectiveItems:
    """Return how many independent items would be as informative as items in groups.

    Parameters
    ----------
    posterior : Posterior
        Of a model with `Priors.groups`.

    Returns
    -------
    EffectiveItems

    Raises
    ------
    ResponseError
        If it has no groups.

    Notes
    -----
    Answers with information I about the ability in their group, which lies about θ with variance
    σ², have the information I / (1 + σ² I) about θ. Independent items form a group each. The
    effective number is the number of items times the ratio of the information of the groups to that
    of independent items, averaged over subjects.
    """
    groups = posterior.item_groups
    if groups is None:
        raise ResponseError("this posterior has no groups of items; rank with --group")
    from bayesirt.likelihood.families import family_named

    theta, a, d, *further = (posterior.draws(name, _MOST_DRAWS) for name in posterior.parameters)
    spread = posterior.draws("sigma_group", _MOST_DRAWS)
    member = np.eye(groups.max() + 1)[groups]
    family, counts = family_named(posterior.link), []
    for k, sigma in enumerate(spread):
        eta = theta[k][:, None] * a[k] + d[k]
        item_family = family.given([x[k] for x in further])
        info = np.asarray(item_family.expected_information(eta, posterior.trials)) * a[k] ** 2
        together, alone = ((x / (1 + sigma**2 * x)).sum(1) for x in (info @ member, info))
        counts.append(len(groups) * (together / alone).mean())
    share = posterior.draws("sigma_group") ** 2
    if "sigma_theta" in posterior.dataset:  # then abilities do not have unit variance
        share = share / (share + posterior.theta.var(1))
    (low, high), (share_low, share_high) = (np.quantile(x, TAILS) for x in (counts, share))
    return EffectiveItems(
        column=str(posterior.tree.attrs["groups"]),
        n_items=len(groups),
        n_groups=member.shape[1],
        effective=float(np.mean(counts)),
        low=float(low),
        high=float(high),
        share=float(share.mean()),
        share_low=float(share_low),
        share_high=float(share_high),
        sound=posterior.verdict.sound,
    )


def in_groups(posterior: Posterior) -> bool:
    """Return whether a posterior's model has groups of items."""
    return posterior.item_groups is not None
