"""When the simple average misleads, and what to do."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES
from bayesirt.data.cells import median_trials
from bayesirt.data.responses import Responses
from bayesirt.data.scales import score_name
from bayesirt.names import counted, one_line
from bayesirt.posterior import Posterior

_FULL_COVERAGE = 0.95
_SMALL_GAP = 2.0
_ROUNDING = 5e-3
_MOST_RESPONSES, _MOST_SIDE = 1_000_000, 1000


class ErrorLaw(NamedTuple):
    """Expected ranking error 1 - ρ of the simple average, scale (S x D)^exponent."""

    # For D in standard deviations of the abilities.
    scale: float
    exponent: float
    residual_sd: float  # Typical distance of a cell of the studied grid from the law.


ERROR_LAWS = {
    "random": ErrorLaw(0.0345, 1.803, 0.010),
    "biased": ErrorLaw(0.0417, 2.817, 0.024),
}
"""By mask: cells missing at random, or abler subjects meeting harder items.

Made by ``bayesirt study sparse --seed 0`` (laws.csv), which a test repeats with fewer suites.
"""

STUDIED = {
    "subjects": (10, 10),
    "items": (10, 10),
    "trials": (100, 100),
    "S": (0.0, 0.7),
    "D": (0.39, 3.92),
}
"""Where the laws were fitted: suites with fewer items fail sooner."""


@dataclass(frozen=True)
class AverageRule:
    """The rule on coverage and difficulties for the simple average, before there is a posterior."""

    coverage: float  # C, the share of cells that were observed.
    # D = max b - min b over items, from a fit, in standard deviations of the abilities; nan
    # if no item has a difficulty.
    difficulty_gap: float
    n_subjects: int
    n_items: int
    trials: float  # Median number of trials of an observed cell.

    @property
    def sparsity(self) -> float:
        """S = 1 - C."""
        return 1 - self.coverage

    @property
    def product(self) -> float:
        """S x D."""
        return self.sparsity * self.difficulty_gap

    @property
    def full(self) -> bool:
        """True if all subjects answered the same items, so that no average is over easier ones."""
        return self.coverage == 1

    @property
    def adequate(self) -> bool:
        """True if all cells were observed, or nearly all and items are similarly difficult."""
        nearly = self.coverage > _FULL_COVERAGE and self.difficulty_gap <= _SMALL_GAP
        return self.full or nearly

    @property
    def unstudied(self) -> list[str]:
        """What lies outside the ranges in which the failure surface was fitted, in words."""
        trials = "1 trial" if self.trials == 1 else f"{self.trials:,.4g} trials"
        gap = "an unknown D" if np.isnan(self.difficulty_gap) else f"D = {self.difficulty_gap:.1f}"
        facts = (
            (self.n_subjects, f"{self.n_subjects:,} subjects"),
            (self.n_items, f"{self.n_items:,} items"),
            (self.trials, f"{trials} per cell"),
            (self.sparsity, f"S = {self.sparsity:.2f}"),
            (self.difficulty_gap, gap),
        )
        return [
            words
            for (low, high), (value, words) in zip(STUDIED.values(), facts, strict=True)
            if not low - _ROUNDING <= value <= high + _ROUNDING
        ]

    @property
    def expected_error(self) -> dict[str, float] | None:
        """Expected 1 - ρ of the simple average by mask; None outside the studied ranges."""
        if self.unstudied:
            return None
        return {mask: law.scale * self.product**law.exponent for mask, law in ERROR_LAWS.items()}

    @property
    def figures(self) -> str:
        """C, D and S x D in words."""
        gap, product = (
            "unknown" if np.isnan(x) else format(x, form)
            for x, form in ((self.difficulty_gap, ".1f"), (self.product, ".2f"))
        )
        return f"coverage C = {self.coverage:.0%}, difficulty gap D = {gap}, S x D = {product}"

    @property
    def advice(self) -> str:
        """One sentence on what to report."""
        if self.adequate:
            return "Rank by the simple average or by ability."
        return "Rank by ability, and report the simple average beside it."

    def to_text(self) -> str:
        """Return the rule in words."""
        adequate = "is adequate" if self.adequate else "may mislead"
        return (
            f"The simple average {adequate} here: {self.figures}. {self._outlook()} D is from a "
            f"quick joint MAP estimate; rank takes D from the posterior, and names the subjects "
            f"that the average misplaces."
        )

    def _outlook(self) -> str:
        """Return the expected error, or why there is none, and the advice."""
        if self.full:
            return f"Every subject answered every item. {self.advice}"
        expected = self.expected_error
        if expected is None:
            return (
                f"Our rule for the expected error was fitted to suites of 10 x 10 with 100 trials "
                f"per cell, and not tested at {', '.join(self.unstudied)}. {self.advice}"
            )
        return (
            f"Expected ranking error 1 - rho of the average: {expected['random']:.2f} if cells "
            f"are missing at random, {expected['biased']:.2f} if abler subjects met harder "
            f"items. {self.advice}"
        )


@dataclass(frozen=True)
class AverageCheck(AverageRule):
    """Whether ranking by accuracy is adequate, by the rule and by the posterior."""

    # Subjects none of whose (perhaps tied) ranks by accuracy lies in their 90% rank interval.
    n_misplaced: int
    most_misplaced: str  # Ranks of the worst of them, in words; empty if there is none.
    # False if one ability does not explain the answers, so that it cannot judge averages.
    one_ability: bool = True
    sound: bool = True  # False if the draws are not sound, which cannot judge either.

    @property
    def adequate(self) -> bool:
        """True if averages are adequate by the rule, and no subject is misplaced."""
        return super().adequate and self.n_misplaced == 0

    @property
    def advice(self) -> str:
        """One sentence on what to report."""
        if not self.sound:
            return "Follow the verdict first."
        if not self.one_ability:
            return "Rank by accuracy, with its own intervals, and not by ability."
        if self.full and not self.adequate:
            return (
                "Report both: accuracy weighs all questions alike, ability gives more weight to "
                "those that discriminate sharply."
            )
        return super().advice

    @property
    def found(self) -> str:
        """The finding on the average, without figures and advice."""
        subjects = counted(self.n_misplaced, "subject")
        if not self.sound:
            return "The simple average cannot be judged by draws that are not sound"
        if not self.one_ability:
            return "The simple average cannot be judged by an ability that does not explain answers"
        if self.adequate:
            return "The simple average is adequate here"
        if self.n_misplaced == 0:
            return "The simple average gives the same ranking here, within its intervals"
        if self.full:
            return f"Accuracy and ability place {subjects} differently"
        return f"The simple average misleads for {subjects}"

    def to_text(self) -> str:
        """Return the check in words."""
        misplaced = self.n_misplaced and self.one_ability and self.sound
        worst = f"{self.most_misplaced} " if misplaced else ""
        return f"{self.found}: {self.figures}. {worst}{self._outlook()}"


def average_rule(responses: Responses) -> AverageRule | None:
    """Apply the decision rule to a joint MAP estimate, before there is a posterior.

    None if groups have nothing in common, and for answers that are not right or wrong, for which
    there is no rule. Joint MAP has a prior on difficulties; without one, the gap would be set by
    the least informative item.
    """
    if len(responses.components()) > 1 or responses.scale is not None:
        return None
    sides = responses.n_subjects, responses.n_items
    small = responses.n_observed <= _MOST_RESPONSES and min(sides) <= _MOST_SIDE
    gap = float("nan")
    if small:
        from bayesirt.estimators.joint_map import fit_joint_map

        point = fit_joint_map(responses)
        gap = difficulty_gap(point["b"], point["a"])
    return AverageRule(responses.coverage, gap, *sides, median_trials(responses.cells))


def check_average(summary: pd.DataFrame, posterior: Posterior) -> AverageCheck:
    """Compare ranks by accuracy with ranks by ability, given a ranking's summary with both."""
    last_of_tie = (-summary["accuracy"]).rank(method="max")
    below = summary["rank_low"] - last_of_tie
    above = summary["rank_by_accuracy"] - summary["rank_high"]
    distance = np.maximum(below, above)
    words = ""
    if distance.max() > 0:
        row = summary.loc[distance.idxmax()]
        words = (
            f"Most misplaced is {one_line(row['subject'])}: {row['rank_by_accuracy']} by "
            f"{score_name(posterior.answers)}, "
            f"{row['rank']} ({row['rank_low']} to {row['rank_high']}) by ability."
        )
    trials = posterior.trials
    n_subjects, n_items = trials.shape
    return AverageCheck(
        float(np.count_nonzero(trials) / trials.size),
        difficulty_gap(*(np.median(posterior.draws(name), axis=0) for name in ("b", "a"))),
        n_subjects,
        n_items,
        1.0 if posterior.answers else float(np.median(trials[trials > 0])),
        int((distance > 0).sum()),
        words,
        sound=posterior.verdict.sound,
    )


def difficulty_gap(b: NDArray[np.floating], a: NDArray[np.floating]) -> float:
    """Return D, the range of the difficulties, without items that hardly tell subjects apart.

    Kang 2026, equation (2), on fitted difficulties rather than raw rates.

    >>> difficulty_gap(np.array([-1.0, 80.0, 0.5]), np.array([1.0, 0.01, 2.0]))
    1.5
    """
    difficulties = b[np.isfinite(b) & (np.abs(a) >= HARDLY_DISCRIMINATES)]
    return float(np.ptp(difficulties)) if len(difficulties) else float("nan")
