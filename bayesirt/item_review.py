"""Items worth a second look: those that hardly discriminate, and those that point the wrong way."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.flags import HARDLY_DISCRIMINATES
from bayesirt.names import one_line
from bayesirt.posterior import Posterior

_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class ItemReview:
    """Which items could be dropped, and which may be mis-keyed, with a bound on false ones.

    Attributes
    ----------
    summary : DataFrame
        One row an item, those that discriminate least first: item, accuracy, a (posterior
        median), p_nil = P(|a| < a_min), p_negative = P(a < 0), redundant, flipped.
    a_min : float
        Discrimination below which an item is practically nil.
    q : float
        Bound on the expected share of false items in each list.
    """

    summary: pd.DataFrame
    a_min: float
    q: float

    @property
    def redundant(self) -> list[str]:
        """Names of the items that could be dropped, surest first."""
        return self._named("redundant", "p_nil")

    @property
    def flipped(self) -> list[str]:
        """Names of the items that better subjects get wrong, surest first."""
        return self._named("flipped", "p_negative")

    def __repr__(self) -> str:
        return f"<ItemReview: {self.to_text()}>"

    def to_text(self) -> str:
        """Return the review in words."""
        bound = f"at most {self.q:.0%} of them are expected to be wrongly listed"
        n = len(self.summary)
        sentences = [f"None of {n} items surely has a discrimination below {self.a_min:g}."]
        if self.redundant:
            sentences = [
                f"Could be dropped, as they hardly discriminate (|a| < {self.a_min:g}): "
                f"{len(self.redundant)} of {n} items ({_some(self.redundant)}); {bound}."
            ]
        if self.flipped:
            sentences.append(
                f"Got wrong by better subjects, so look at the keys: {len(self.flipped)} of {n} "
                f"items ({_some(self.flipped)}); {bound}."
            )
        return " ".join(sentences)

    def _named(self, chosen: str, probability: str) -> list[str]:
        rows = self.summary[self.summary[chosen]]
        return list(rows.sort_values(probability, ascending=False, kind="stable")["item"])


def review_items(
    posterior: Posterior, *, a_min: float = HARDLY_DISCRIMINATES, q: float = 0.1
) -> ItemReview:
    """Find items that hardly discriminate or are flipped, and bound the share of false ones.

    Parameters
    ----------
    posterior : Posterior
    a_min : float
        Items with |a| below it count as nil.
    q : float
        Bound on the expected share of false items in each list.

    Returns
    -------
    ItemReview
        Only free slopes (`Priors(slopes="free")`) can be negative, so only they find flipped items.

    Raises
    ------
    ValueError
        If `a_min` is not positive or `q` not between 0 and 1.

    Notes
    -----
    With p the posterior probability that an item is as claimed, the largest set with the largest
    p whose mean of 1 - p is at most q is listed, less those that are as likely false: given the
    model, the expected share of false items in it is then at most q (MATH.md, "Items worth
    dropping"). papers/000, A.6.4, call an item redundant where its estimate is exactly 0,
    without control of errors.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesirt import Responses, sample_posterior
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> key = jax.random.key(0)
    >>> posterior = sample_posterior(responses, key=key, num_warmup=50, num_samples=20)
    >>> review_items(posterior).redundant
    []
    """
    if not a_min > 0:
        raise ValueError(f"`a_min` must be positive, got {a_min}")
    if not 0 < q < 1:
        raise ValueError(f"`q` must be between 0 and 1, got {q}")
    a = posterior.draws("a")
    p_nil, p_negative = (np.abs(a) < a_min).mean(0), (a < 0).mean(0)
    table = pd.DataFrame(
        {
            "item": posterior.items,
            "accuracy": posterior.successes.sum(0) / posterior.trials.sum(0),
            "a": np.median(a, axis=0),
            "p_nil": p_nil,
            "p_negative": p_negative,
            "redundant": _listed(p_nil, q),
            "flipped": _listed(p_negative, q),
        }
    )
    ordered = table.sort_values("p_nil", ascending=False, kind="stable").reset_index(drop=True)
    return ItemReview(ordered, a_min, q)


def _listed(probability: NDArray[np.float64], q: float) -> NDArray[np.bool_]:
    """Return the largest set of the most probable whose mean of 1 - p is at most q, all p > ½."""
    order = np.argsort(-probability, kind="stable")
    false_share = np.cumsum(1 - probability[order]) / np.arange(1, len(order) + 1)
    listed = np.zeros(len(order), bool)
    listed[order[: np.searchsorted(false_share, q, side="right")]] = True
    return listed & (probability > 0.5)


def _some(names: list[str]) -> str:
    shown = ", ".join(one_line(name, 30) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
