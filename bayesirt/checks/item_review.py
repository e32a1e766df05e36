"""Items worth a second look: for the authors of a benchmark, with the evidence."""

from dataclasses import dataclass
from itertools import compress

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES
from bayesirt.checks.fit.cell_residuals import refuse_other_models
from bayesirt.checks.fit.item_pairs import LocalDependence
from bayesirt.checks.fit.tail_probabilities import adjusted
from bayesirt.checks.grade_review import grades_by_item, idle_grades, is_graded
from bayesirt.checks.item_evidence import (
    SATURATED,
    duplicate_columns,
    in_words,
    near_duplicates,
    saturation_probability,
)
from bayesirt.checks.item_rest_correlation import rest_correlations
from bayesirt.data.scales import Scale
from bayesirt.names import first_few, one_line
from bayesirt.posterior import Posterior

_SHOWN = 5
_REASONS = (
    "flipped", "miskeyed", "duplicated", "near_duplicate", "saturated", "redundant", "unused",
    "merged",
)  # fmt: skip
_WORDS = {"unused": "a grade is never used", "merged": "a grade is nowhere the most probable"}


@dataclass(frozen=True, eq=False, repr=False)
class ItemReview:
    """Items that could be dropped or may be mis-keyed, with a bound on false listings."""

    # One row per item, those that discriminate least first: `item`, `accuracy`, `a` (posterior
    # median), `p_nil` = P(|a| < a_min), `p_negative` = P(a < 0), `redundant`, `flipped`;
    # `n_subjects` that answered it, `rest_correlation` with the score on the other items,
    # `p_rest` (the probability of one so low by chance), `best_quarter` and `weakest_quarter`
    # (their proportions correct), `miskeyed`; `expected` (proportion correct, over all
    # subjects), `p_saturated`, `saturated`; `duplicate_of`, `p_chance` (that two items agree
    # in every cell), `duplicated`; `near_duplicate_of`, `q3`, `agree`, `agree_expected`,
    # `near_duplicate`; `reasons` (names of the lists that it is in) and `evidence`, in words.
    # For grades also `never_given` (those that no answer has), `p_unused` (by chance),
    # `unused`; `merged_grades` (grades in the middle that are nowhere the most probable, as
    # their thresholds are nearly the same), `p_merged` (posterior probability), `merged`.
    summary: pd.DataFrame
    a_min: float  # Discrimination below which an item counts as uninformative.
    q: float  # Bound on the expected share of false items in each list.
    answers: Scale | None = None  # What answers are, if not right and wrong.
    idle: tuple[str, ...] = ()  # Grades that are nowhere the most probable on most items.

    @property
    def redundant(self) -> list[str]:
        """Names of the items that could be dropped, surest first."""
        return self._named("redundant", "p_nil")

    @property
    def flipped(self) -> list[str]:
        """Names of the items that better subjects get wrong, surest first."""
        return self._named("flipped", "p_negative")

    @property
    def miskeyed(self) -> list[str]:
        """Names of the items that run against the others, tested without a model, surest first."""
        return self._named("miskeyed", "p_rest", ascending=True)

    @property
    def saturated(self) -> list[str]:
        """Names of the items that nearly everybody gets right, or wrong, surest first."""
        return self._named("saturated", "p_saturated")

    @property
    def duplicated(self) -> list[str]:
        """Names of the items whose answers all match those to an earlier one."""
        return self._named("duplicated", "p_chance", ascending=True)

    @property
    def near_duplicate(self) -> list[str]:
        """Names of the items answered much like another one, beyond what ability explains."""
        return self._named("near_duplicate", "q3")

    @property
    def unused(self) -> list[str]:
        """Names of the items on which a grade is never used, surest first."""
        return self._named("unused", "p_unused", ascending=True)

    @property
    def merged(self) -> list[str]:
        """Names of the items with a grade that is nowhere the most probable, surest first."""
        return self._named("merged", "p_merged")

    @property
    def listed(self) -> pd.DataFrame:
        """Rows of all listed items, for authors, surest wrong keys first."""
        names = dict.fromkeys(name for reason in _REASONS for name in getattr(self, reason))
        rows = pd.Index(self.summary["item"]).get_indexer(pd.Index(names, dtype=object))
        return self.summary.iloc[rows]

    def __repr__(self) -> str:
        return f"<ItemReview: {self.to_text()}>"

    def to_text(self) -> str:
        """Return the review in words, most urgent first."""
        bound = f"at most {self.q:.0%} of them are expected to be wrongly listed"
        n = len(self.summary)
        against = [name for name in self.miskeyed if name not in set(self.flipped)]
        worse, ends, none = self._words()
        findings = (
            (worse, self.flipped, bound),
            ("Answered worse by those who do better on the other items, so look at the "
             f"{self._look_at}", against, bound + self._without_signs()),
            ("Answered by every subject exactly like an earlier item, so look for copies",
             self.duplicated, "chance would hardly produce one"),
            ("Answered much like another item, so look for near-copies", self.near_duplicate,
             bound),
            (ends, self.saturated, bound),
            (f"Could be dropped, as they hardly discriminate (|a| < {self.a_min:g})",
             self.redundant, bound),
            ("A grade is never used", self.unused, bound),
            ("A grade in the middle is nowhere the most probable, as its two thresholds nearly "
             "coincide, so look at what sets it apart", self.merged, bound),
        )  # fmt: skip
        sentences = [
            f"{clause}: {len(names)} of {n} items ({_some(names)}); {end}."
            for clause, names, end in findings
            if names
        ]
        nothing = (
            f"None of {n} items is clearly mis-keyed, duplicated, {none} or uninformative "
            f"(discrimination below {self.a_min:g})."
        )
        return " ".join(filter(None, [*(sentences or [nothing]), self._of_scale()]))

    @property
    def _look_at(self) -> str:
        return "keys" if self.answers is None else "rubric"

    def _words(self) -> tuple[str, str, str]:
        """Return the words for flipped items, for saturated items, and for the absence of both."""
        if self.answers is None:
            ends = f"Right (or wrong) for {SATURATED:.0%} or more, so they tell hardly anybody"
            return (
                "Got wrong by better subjects, so look at the keys", f"{ends} apart", "saturated"
            )  # fmt: skip
        called = self.answers.called
        worse = "worse grades" if is_graded(self.answers) else "lower scores"
        return (
            f"Better subjects get {worse}, so look at the rubric",
            f"Nearly every answer has the highest {called} (or the lowest), so they tell "
            f"hardly anybody apart",
            "saturated, missing a grade" if is_graded(self.answers) else "saturated",
        )

    def _of_scale(self) -> str:
        """Return a sentence on grades that are nowhere the most probable on most items."""
        if not self.idle:
            return ""
        grades = f"grade {self.idle[0]} is" if len(self.idle) == 1 else (
            f"grades {', '.join(self.idle[:-1])} and {self.idle[-1]} are"
        )  # fmt: skip
        return (
            f"On most items {grades} nowhere the most probable: the scale is finer than the "
            f"differences between subjects, which does no harm."
        )

    def _without_signs(self) -> str:
        """Return how to get probabilities, if no draw of a slope is negative."""
        if (self.summary["p_negative"] > 0).any():
            return ""
        return "; rank with --slopes free to estimate P(a < 0)"

    def _named(self, chosen: str, by: str, *, ascending: bool = False) -> list[str]:
        if chosen not in self.summary:  # only grades have it
            return []
        rows = self.summary[self.summary[chosen]]
        return list(rows.sort_values(by, ascending=ascending, kind="stable")["item"])


def review_items(
    posterior: Posterior,
    *,
    a_min: float = HARDLY_DISCRIMINATES,
    q: float = 0.1,
    dependence: LocalDependence | None = None,
) -> ItemReview:
    """Find items that hardly discriminate, run against the others, or duplicate others.

    Parameters
    ----------
    posterior : Posterior
        Of a model with one ability.
    a_min : float
        Items with |a| below this count as uninformative.
    q : float
        Bound on the expected share of false items in each list.
    dependence : LocalDependence, optional
        Result of `bayesirt.local_dependence` on the same posterior; without it no near-duplicates
        are listed.

    Returns
    -------
    ItemReview
        Flipped items are found only with free slopes (`Priors(slopes="free")`), which can be
        negative; `miskeyed` does not need them.

    Raises
    ------
    ValueError
        If `a_min` is not positive or `q` not between 0 and 1.
    ResponseError
        If the model has more than one ability.

    Notes
    -----
    Redundant, flipped and saturated: p is the posterior probability of the claim about an item. The
    items with the largest p are listed, as many as keep the mean of 1 - p at most q, but none with
    p of ½ or less. Given the model, the expected share of false items is then at most q. Qu et al.
    (2026), A.6.4, call an item redundant if its estimate is exactly 0, without error control.

    Mis-keyed: `p_rest` by Benjamini & Hochberg, which bounds the same share without a model. The
    wrong options that the best subjects chose are not known here, so a wrong key cannot be
    distinguished from a text that misleads them.

    Duplicated: identical columns, missing cells included, for which `p_chance` times the number of
    pairs is at most q, so items that everybody gets right are not listed as copies of each other.

    Grades: `unused` by Benjamini & Hochberg, given the shares of grades among all answers. `merged`
    like redundant, with p the probability that a grade in the middle is nowhere the most probable:
    thresholds of the graded model are ordered, and nearly coincide where the answers suggest the
    reverse order. Grades for which this holds on most items are named once, for the scale.

    Near-duplicates: dependent pairs (Q3) with residual correlations of .5 or more.

    Examples
    --------
    >>> from bayesirt import Responses
    >>> draws = {"theta": np.zeros((1, 4, 6)), "a": np.ones((1, 4, 5)), "d": np.zeros((1, 4, 5))}
    >>> posterior = Posterior.from_samples(draws, {}, Responses.from_arrays(np.tri(6, 5)), {})
    >>> review_items(posterior).redundant
    []
    """
    if not a_min > 0:
        raise ValueError(f"`a_min` must be positive, got {a_min}")
    if not 0 < q < 1:
        raise ValueError(f"`q` must be between 0 and 1, got {q}")
    refuse_other_models(posterior)
    posterior = posterior.reported
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
    correlations = rest_correlations(posterior.successes, posterior.trials)
    correlations["miskeyed"] = adjusted(correlations["p_rest"].to_numpy()) <= q
    p_saturated, expected = saturation_probability(posterior)
    table = table.join(correlations).assign(
        expected=expected, p_saturated=p_saturated, saturated=_listed(p_saturated, q)
    )
    table = table.join(duplicate_columns(posterior, q=q)).join(
        near_duplicates(posterior, dependence)
    )
    table["near_duplicate"] = table["near_duplicate_of"] != ""
    idle: tuple[str, ...] = ()
    if is_graded(posterior.answers):
        table = table.join(grades_by_item(posterior, q=q))
        table["merged"] = _listed(table["p_merged"].to_numpy(), q)
        idle = tuple(idle_grades(posterior))
    table["reasons"] = _reasons(table)
    table["evidence"] = in_words(table, a_min, binary=posterior.answers is None)
    ordered = table.sort_values("p_nil", ascending=False, kind="stable").reset_index(drop=True)
    return ItemReview(ordered, a_min, q, posterior.answers, idle)


def _reasons(table: pd.DataFrame) -> list[str]:
    """Return the names of the lists that each item is in."""
    lists = [name for name in _REASONS if name in table]
    words = [_WORDS.get(name, name.replace("_", "-")) for name in lists]
    inside = table[lists].to_numpy()
    return ["; ".join(compress(words, row)) for row in inside]


def _listed(probability: NDArray[np.float64], q: float) -> NDArray[np.bool_]:
    """Return the largest set of most probable items with p > ½ and a mean of 1 - p at most q."""
    order = np.argsort(-probability, kind="stable")
    false_share = np.cumsum(1 - probability[order]) / np.arange(1, len(order) + 1)
    listed = np.zeros(len(order), bool)
    listed[order[: np.searchsorted(false_share, q, side="right")]] = True
    return listed & (probability > 0.5)


def _some(names: list[str]) -> str:
    return first_few([one_line(name, 30) for name in names], _SHOWN)
