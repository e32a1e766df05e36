"""The sentences of a gate."""

from typing import NamedTuple

from bayesirt.data.scales import Scale, ends_of
from bayesirt.names import brief, counted, in_percent, one_line

_LEAST = 0.0005
"""Differences below half a tenth of a point count as none."""


class Unit(NamedTuple):
    """The unit of differences."""

    name: str = "point"
    span: float = 100.0  # From the lowest score to the highest.
    digits: int = 1

    def number(self, share: float) -> str:
        """Return a share of the span as a number.

        >>> Unit().number(-0.021), Unit("grade", 9.0, 2).number(0.1)
        ('2.1', '0.90')
        """
        text = f"{abs(self.span * share):.{self.digits}f}"
        return text.removesuffix(".0") if self.digits == 1 else text

    def shown(self, share: float) -> str:
        """Return a share of the span with its unit.

        >>> Unit().shown(0.02), Unit().shown(0.01)
        ('2 points', '1 point')
        """
        number = self.number(share)
        return f"{number} {self.name}{'' if number == '1' else 's'}"


def unit_of(scale: Scale | None) -> Unit:
    """Return points (hundredths of the scale), or the scores' own unit.

    >>> unit_of(Scale("graded", ("1", "2", "3"))).shown(0.25)
    '0.50 grades'
    """
    low, high = ends_of(scale)
    if scale is None or (low, high) == (0.0, 1.0):
        return Unit()
    return Unit("grade" if scale.kind == "graded" else "point", high - low, 2)


def apart(mean: float, unit: Unit = Unit()) -> str:  # noqa: B008
    """Return how far one score lies from another.

    >>> apart(-0.021), apart(0.0)
    ('2.1 points below', 'as high as')
    """
    if abs(mean) < _LEAST:
        return "as high as"
    return f"{unit.shown(mean)} {_side(mean)}"


def interval(
    low: float,
    high: float,
    unit: Unit = Unit(),  # noqa: B008
    called: str = "90%",
) -> str:
    """Return an interval.

    >>> interval(-0.038, -0.004), interval(-0.03, 0.012)
    ('90%: 0.4 to 3.8 below', '90%: 3 below to 1.2 above')
    """
    ends = [*map(unit.number, (low, high))]
    if low * high > 0:
        near, far = sorted((low, high), key=abs)
        numbers = [*map(unit.number, (near, far))]
        return f"{called}: {numbers[0]} to {numbers[1]} {_side(low)}"
    return f"{called}: {ends[0]} {_side(low)} to {ends[1]} {_side(high)}"


def _side(difference: float) -> str:
    return "below" if difference < 0 else "above"


def claim(
    verdict: str,
    margin: float,
    probabilities: tuple[float, float, float, float],
    what_decides: str,
    unit: Unit,
) -> str:
    """Return the claim and its probability.

    `probabilities` are of a drop beyond the margin, of a drop, of a rise, and of neither beyond the
    margin, or only of no drop beyond it.
    """
    beyond, worse, better, safe = map(in_percent, probabilities)
    of_margin = f" beyond your margin of {unit.shown(margin)}" if margin else ""
    if verdict == "regression":
        return f"a regression{of_margin} ({beyond} sure)"
    if verdict == "improvement":
        return f"an improvement ({better} sure)"
    if verdict == "equivalent":
        return f"both are equivalent within your margin of {unit.shown(margin)} ({safe} sure)"
    if verdict == "no regression":
        return f"no regression{of_margin} ({safe} sure)"
    decide = f": {what_decides} would decide, if the estimate is right" if what_decides else ""
    if not margin:
        outcome, how = ("a regression", f"{worse} for worse")
        if probabilities[2] > probabilities[1]:
            outcome, how = ("an improvement", f"{better} for better")
        return f"whether that is {outcome} is undecided ({how}){decide}"
    clause = f"a drop is likely ({worse}), but" if probabilities[1] >= 0.9 else "undecided, as"
    return f"{clause} a drop{of_margin} has a probability of {beyond}{decide}"


def on_flips(lost: list[str], won: list[str], *, of_scale: bool) -> str:
    """Return how many questions flipped, with a few names."""
    if not lost and not won:
        return ""
    clause = f"{counted(len(lost), 'question')} that most runs got right went wrong"
    if of_scale:
        clause = f"{counted(len(lost), 'question')} lost a quarter of the scale or more"
    if lost:
        clause += f" ({_some(lost)})"
    return f"{clause}, and {len(won)} the other way{f' ({_some(won)})' if won else ''}."


def _some(names: list[str]) -> str:
    shown = ", ".join(one_line(name, 30) for name in names[:3])
    return shown + (", ..." if len(names) > 3 else "")


def on_amounts(
    candidate: str, verb: str, less: str, more: str, amounts: tuple[float, float]
) -> str:
    """Return a comparison of lengths or costs, without the full stop.

    >>> on_amounts("gpt-y", "cost", "less", "more", (0.02, 0.015))
    'Answers of gpt-y cost 25% less (0.015 against 0.02)'
    """
    before, now = amounts
    if before == now:
        return f"Answers of {one_line(candidate, 40)} {verb} the same ({brief(now)})"
    share = f"{abs(now - before) / before:.0%} " if before > 0 else ""
    return (
        f"Answers of {one_line(candidate, 40)} {verb} {share}{less if now < before else more} "
        f"({brief(now)} against {brief(before)})"
    )
