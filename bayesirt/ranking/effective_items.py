"""How many independent items would tell as much as items whose answers go together in groups."""

from dataclasses import dataclass

import numpy as np

from bayesirt.errors import ResponseError
from bayesirt.names import in_percent
from bayesirt.posterior import TAILS, Posterior

_MOST_DRAWS = 200


@dataclass(frozen=True)
class EffectiveItems:
    """How much items in groups tell about abilities.

    Attributes
    ----------
    column : str
        What groups them.
    n_items, n_groups : int
    effective, low, high : float
        Number of independent items that would tell as much, with its 90% interval.
    share, share_low, share_high : float
        Share of the variance of ability in a group that belongs to the group.
    sound : bool
        As of `Ranking`.
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
        """Return in words how many independent questions would tell as much."""
        if not self.sound:
            return "How much questions in groups tell cannot be said yet: see the verdict."
        return (
            f"{self.n_items:,} questions in {self.n_groups:,} groups by {self.column} tell as much "
            f"about abilities as {self.effective:,.0f} ({self.low:,.0f} to {self.high:,.0f}) "
            f"independent ones. {in_percent(self.share)} ({in_percent(self.share_low)} to "
            f"{in_percent(self.share_high)}) of how well a model does on a group belongs to that "
            f"group and not to the model's ability."
        )


def effective_items(posterior: Posterior) -> EffectiveItems:
    """Return how many independent items would tell as much as items in groups.

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
        If it knows no groups.

    Notes
    -----
    Answers with information I about the ability in their group, which lies about θ with variance
    σ², have the information I / (1 + σ² I) about θ. Independent items are each a group of its own:
    the number of items counts times the ratio of what groups tell and what these would, averaged
    over subjects.
    """
    groups = posterior.item_groups
    if groups is None:
        raise ResponseError("this posterior knows no groups of items; rank with --group")
    from bayesirt.likelihood.families import family_named

    theta, a, d, *further = (posterior.draws(name, _MOST_DRAWS) for name in posterior.parameters)
    spread = posterior.draws("sigma_group", _MOST_DRAWS)
    member = np.eye(groups.max() + 1)[groups]
    family, counts = family_named(posterior.link), []
    for k, sigma in enumerate(spread):
        eta = theta[k][:, None] * a[k] + d[k]
        own = family.given([x[k] for x in further])
        told = np.asarray(own.expected_information(eta, posterior.trials)) * a[k] ** 2
        together, alone = ((x / (1 + sigma**2 * x)).sum(1) for x in (told @ member, told))
        counts.append(len(groups) * (together / alone).mean())
    share = posterior.draws("sigma_group") ** 2
    if "sigma_theta" in posterior.dataset:  # then abilities are not of unit variance
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
    """Return whether a posterior's model knows groups of items."""
    return posterior.item_groups is not None
