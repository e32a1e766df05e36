"""The result of a gate: verdict, numbers and words."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from bayesirt.data.scales import Scale, ends_of, shown_score
from bayesirt.names import counted, in_percent, markdown_safe, one_line
from bayesirt.ranking.gate_text import (
    Unit,
    apart,
    claim,
    interval,
    on_amounts,
    on_flips,
    unit_of,
)
from bayesirt.ranking.paired_difference import Difference, Needed, Pairs, flipped
from bayesirt.ranking.sequential_evidence import Evidence

if TYPE_CHECKING:
    from bayesirt.ranking.calibrated_difference import CalibratedDifference

GateVerdict = Literal["regression", "improvement", "equivalent", "no regression", "undecided"]

SURE = 0.95
_ALONE = 0.99
"""Probability that the questions alone need for a regression that the history does not show. As
their errors are correlated, both together then raise no more false alarms than one of them."""


@dataclass(frozen=True, eq=False, repr=False)
class Gate:
    """A comparison of a candidate with a baseline on the questions that both answered.

    Attributes
    ----------
    baseline, candidate : str
    margin : float
        A drop of at most this share of the questions, or of the scale, is not a regression.
    pairs : Pairs
        The questions that both answered.
    difference : Difference
        Candidate minus baseline.
    needed : Needed
        What would decide.
    sure : float
        Probability from which a claim is made: 0.95, or more if several candidates are judged
        together.
    costs : (float, float) or None
        Mean cost of an answer of the baseline and of the candidate, if both are known.
    lengths : (float, float) or None
        Mean length of an answer, likewise.
    parts : DataFrame
        One row per benchmark or group, the worst first: part, n_questions, baseline, candidate,
        difference, low, high.
    calibrated : CalibratedDifference or None
        The difference through items that were calibrated before.
    evidence : Evidence or None
        The evidence of all looks at these answers, if the verdict must stay valid however often
        one looks.
    scale : Scale or None
        Scale of the answers, if they are not right or wrong.
    """

    baseline: str
    candidate: str
    margin: float
    pairs: Pairs
    difference: Difference
    needed: Needed
    sure: float
    costs: tuple[float, float] | None
    lengths: tuple[float, float] | None
    parts: pd.DataFrame
    calibrated: "CalibratedDifference | None" = None
    evidence: Evidence | None = None
    scale: Scale | None = None

    def __repr__(self) -> str:
        return f"<Gate: {self.verdict}. {self.sentence}>"

    @property
    def unit(self) -> Unit:
        """The unit of differences."""
        return unit_of(self.scale)

    @property
    def p_worse(self) -> float:
        """P(the candidate scores lower)."""
        return self.difference.below(0.0)

    @property
    def p_better(self) -> float:
        """P(the candidate scores higher)."""
        return self.difference.above(0.0)

    @property
    def p_regression(self) -> float:
        """P(the candidate scores lower by more than the margin)."""
        return self.difference.below(-self.margin)

    @property
    def p_no_regression(self) -> float:
        """P(the candidate does not score lower by more than the margin)."""
        return self.difference.above(-self.margin)

    @property
    def verdict(self) -> GateVerdict:
        """The verdict: a claim is made if its probability is at least `sure`.

        "equivalent" means that neither is better by more than the margin, and "no regression" that
        the candidate is not worse by more than that. With a history, its claims count if the
        questions point the same way, and so does a regression that the questions show alone.
        """
        drop, gain, no_drop, no_gain = self._claims()
        if drop:
            return "regression"
        if gain:
            return "improvement"
        if no_drop:
            return "equivalent" if no_gain else "no regression"
        return "undecided"

    def _claims(self) -> tuple[bool, ...]:
        margin, gap, history, sure = self.margin, self.difference, self.calibrated, self.sure
        if self.evidence is not None:
            return tuple(self.evidence.shows(name) for name in Evidence.CLAIMS)
        if history is None:
            return (
                gap.below(-margin) >= sure,
                gap.above(0.0) >= sure,
                gap.above(-margin) >= sure,
                gap.below(margin) >= sure,
            )
        alone = 1 - (1 - sure) * (1 - _ALONE) / (1 - SURE)
        return (
            gap.below(-margin) >= alone or (history.below(-margin) >= sure and gap.mean < -margin),
            history.above(0.0) >= sure and gap.mean > 0,
            history.above(-margin) >= sure and gap.mean > -margin,
            history.below(margin) >= sure and gap.mean < margin,
        )

    @property
    def passes(self) -> bool | None:
        """Whether the candidate passes; None if that is undecided."""
        verdict = self.verdict
        return None if verdict == "undecided" else verdict != "regression"

    @property
    def cheaper(self) -> bool | None:
        """Whether the candidate passes and costs less; None if undecided or a cost is missing."""
        if self.costs is None or self.passes is None:
            return None
        return self.passes and self.costs[1] < self.costs[0]

    @property
    def flipped(self) -> pd.DataFrame:
        """Questions that were right and are wrong, or the other way round, in most runs.

        On a scale, those that moved by a quarter of it or more.
        """
        return flipped(self.pairs)

    @property
    def summary(self) -> pd.DataFrame:
        """One row with every number."""
        return pd.DataFrame([self.as_dict()])

    def as_dict(self) -> dict[str, Any]:
        """Return verdict and numbers, JSON-ready; unknown values are None.

        Margin, differences and scores are shares, or in the scores' own unit.
        """
        low, high = ends_of(self.scale)
        span, means = high - low, (self.pairs.baseline.mean(), self.pairs.candidate.mean())
        costs, lengths = self.costs or (None, None), self.lengths or (None, None)
        more = [x if np.isfinite(x) else None for x in (self.needed.questions, self.needed.runs)]
        values: dict[str, Any] = {
            "baseline": self.baseline,
            "candidate": self.candidate,
            "verdict": self.verdict,
            "passes": self.passes,
            "margin": span * self.margin,
            "difference": span * self.difference.mean,
            "difference_low": span * self.difference.low,
            "difference_high": span * self.difference.high,
            "score_baseline": low + span * float(means[0]),
            "score_candidate": low + span * float(means[1]),
            "p_worse": self.p_worse,
            "p_better": self.p_better,
            "p_regression": self.p_regression,
            "p_no_regression": self.p_no_regression,
            "sure": self.sure,
            "n_questions": len(self.pairs.items),
            "n_groups": self.pairs.n_groups,
            "more_questions": more[0],
            "more_runs": more[1],
            "length_baseline": lengths[0],
            "length_candidate": lengths[1],
            "cost_baseline": costs[0],
            "cost_candidate": costs[1],
            "cheaper": self.cheaper,
        }
        if self.calibrated is not None:
            values |= self.calibrated.as_dict(self.margin)
        if self.evidence is not None:
            values |= self.evidence.as_dict()
        return values

    @property
    def sentence(self) -> str:
        """The difference and what it shows, in a sentence."""
        mean, low, high = self.difference.mean, self.difference.low, self.difference.high
        names = one_line(self.candidate, 60), one_line(self.baseline, 60)
        where = counted(len(self.pairs.items), "question")
        if self.pairs.n_groups < len(self.pairs.items):
            where += f" in {counted(self.pairs.n_groups, 'group')}"
        difference = (
            f"{names[0]} scores {apart(mean, self.unit)} {names[1]} "
            f"({interval(low, high, self.unit)}) on {where} that both answered"
        )
        return f"{difference}: {self._claimed()}."

    def _claimed(self) -> str:
        if self.evidence is not None:
            return self._by_evidence(self.evidence)
        gap, verdict = self.difference, self.verdict
        best = gap if self.calibrated is None or self._by_questions_alone else self.calibrated
        margin = self.margin
        safe = best.above(-margin)
        if verdict == "equivalent":
            safe += best.below(margin) - 1
        chances = best.below(-margin), best.below(0.0), best.above(0.0), safe
        return claim(verdict, margin, chances, self.needed.to_text(), self.unit)

    @property
    def _by_questions_alone(self) -> bool:
        return self.verdict == "regression" and self.p_regression >= self.sure

    def _by_evidence(self, evidence: Evidence) -> str:
        claims = {
            "regression": "drop",
            "improvement": "gain",
            "equivalent": "no drop",
            "no regression": "no drop",
            "undecided": "drop",
        }
        enough = 1 / (1 - evidence.sure)
        strength = evidence.strength(claims[self.verdict])
        after = f"after {counted(evidence.looks, 'look')}"
        if self.verdict == "undecided":
            other = evidence.strength("no drop" if self.margin else "gain")
            return (
                f"undecided {after}, with evidence of {strength:,.1f} for a regression and of "
                f"{other:,.1f} against one; {enough:.0f} would decide, however often one looks"
            )
        return f"{self.verdict} {after} (evidence {strength:,.0f}; {enough:.0f} decides)"

    def to_text(self) -> str:
        """Return the verdict in words, most important first."""
        lines = [self.sentence, self._on_history(), self._on_looks()]
        table = self.flipped
        lost, won = (table["item"][table["difference"] * sign < 0].to_list() for sign in (1, -1))
        lines.append(on_flips(lost, won, of_scale=self.scale is not None))
        n = len(self.parts)
        if n and (worst := self.parts.iloc[0])["difference"] < 0:
            called = "90%" if n == 1 else f"90% for all {n} parts together"
            ends = interval(worst["low_of_all"], worst["high_of_all"], self.unit, called)
            lines.append(
                f"The worst part is {one_line(worst['part'], 40)}: "
                f"{apart(worst['difference'], self.unit)} the baseline ({ends}) on "
                f"{counted(worst['n_questions'], 'question')}."
            )
        if self.lengths is not None:
            lines.append(on_amounts(self.candidate, "are", "shorter", "longer", self.lengths) + ".")
        if self.costs is not None:
            good = ": as good, and cheaper." if self.cheaper else "."
            lines.append(on_amounts(self.candidate, "cost", "less", "more", self.costs) + good)
        return "\n".join(line for line in lines if line)

    def _on_history(self) -> str:
        history = self.calibrated
        if history is None:
            return ""
        drop = history.below(-self.margin)
        ends = interval(history.quantile(0.05), history.quantile(0.95))
        text = (
            f"Through {counted(history.n_questions, 'question')} calibrated before "
            f"({history.source}) it is expected {apart(history.mean)} the baseline ({ends}), "
            f"with {in_percent(drop)} for a drop{' beyond the margin' if self.margin else ''}"
        )
        if (history.mean + self.margin) * (self.difference.mean + self.margin) >= 0:
            return f"{text}; the questions alone give {in_percent(self.p_regression)}."
        return (
            f"{text}. The questions alone point the other way ({in_percent(self.p_regression)}), "
            f"which one ability does not explain: look at those that flipped."
        )

    def _on_looks(self) -> str:
        if self.evidence is None or self.evidence.new:
            return ""
        return (
            "No question has new answers from both since the last look: each answer counts once, "
            "so run the baseline again too."
        )

    def shown(self, share: float) -> str:
        """Return a question's score as text."""
        return f"{share:.0%}" if self.scale is None else shown_score(self.scale, share)

    def _signed(self, share: float) -> str:
        return f"{self.unit.span * share:+.{self.unit.digits}f}"

    def to_markdown(self) -> str:
        """Return the verdict with its tables, as a comment on a pull request."""
        head, *rest = self.to_text().splitlines()
        lines = [f"### Gate: {self.verdict}", "", f"**{markdown_safe(head)}**", ""]
        lines += [f"- {markdown_safe(line)}" for line in rest]
        if len(self.parts):
            lines += ["", "| part | questions | baseline | candidate | difference | 90% |"]
            lines += ["|---|---:|---:|---:|---:|---|"]
            lines += [
                f"| {markdown_safe(one_line(row.part, 40))} | {row.n_questions} | "
                f"{shown_score(self.scale, row.baseline)} | "
                f"{shown_score(self.scale, row.candidate)} | {self._signed(row.difference)} | "
                f"{self._signed(row.low)} to {self._signed(row.high)} |"
                for row in self.parts.itertuples()
            ]
        table = self.flipped
        moved = "flipped" if self.scale is None else "moved far"
        if len(table):
            lines += ["", f"<details><summary>{counted(len(table), 'question')} that {moved}"]
            lines += ["</summary>", "", "| question | baseline | candidate |", "|---|---:|---:|"]
            lines += [
                f"| {markdown_safe(one_line(row.item, 60))} | {self.shown(row.baseline)} | "
                f"{self.shown(row.candidate)} |"
                for row in table.itertuples()
            ]
            lines += ["", "</details>"]
        return "\n".join(lines) + "\n"
