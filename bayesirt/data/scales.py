"""Kinds of answers: right or wrong, one of a few ordered grades, or a score, bounded or not.

For every kind, a cell holds successes out of trials: right answers, steps of a scale above the
lowest grade, or ten-thousandths of the way from the lowest score to the highest.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesirt.errors import ResponseError
from bayesirt.names import one_line

Kind = Literal["binary", "graded", "continuous", "unbounded"]
KINDS: tuple[Kind, ...] = ("binary", "graded", "continuous", "unbounded")

PARTS = 10_000
"""Parts of a continuous score; finer differences do not matter."""
HUNDREDTH = 0.01
"""Precision to which continuous scores are recorded, where models of them are compared."""
MOST_GRADES = 21
_CALLED = {"binary": "answer", "graded": "grade", "continuous": "score", "unbounded": "score"}
_FEW, _SEVERAL = 0.1, 3
"""Values unlike the others count as mistakes up to this share, or if fewer than this number."""
_WIDEST = 25.0
"""Largest range of unbounded scores, in standard deviations."""
_LIKERT = (
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("strongly disagree", "disagree", "neither agree nor disagree", "agree", "strongly agree"),
    ("very poor", "poor", "fair", "good", "very good"),
    ("poor", "fair", "good", "very good", "excellent"),
    ("never", "rarely", "sometimes", "often", "always"),
)
"""Labels in their common order."""


@dataclass(frozen=True)
class Scale:
    """Kind of scores, if they are not right or wrong.

    A cell's successes are then steps above the lowest grade, or ten-thousandths of the way from the
    lowest score to the highest.

    Attributes
    ----------
    kind : {"binary", "graded", "continuous", "unbounded"}
    labels : tuple of str
        Grades, the lowest first. Empty if they are to be detected.
    full : float
        The full score of a continuous scale; for unbounded scores, the highest observed score.
    low : float
        The lowest score: 0, or for unbounded scores the lowest observed score.

    Raises
    ------
    ResponseError
        For too few, too many or duplicated labels, or a full score that is not above the lowest.

    Examples
    --------
    >>> Scale("graded", ("poor", "fair", "good")).steps
    2
    """

    kind: Kind
    labels: tuple[str, ...] = ()
    full: float = 1.0
    low: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ResponseError(f"answers are {', '.join(KINDS)}, not {self.kind!r}")
        if not self.low < self.full < np.inf:
            raise ResponseError(f"--scale must be a positive full score, got {self.full:g}")
        if self.labels and not 3 <= len(self.labels) <= MOST_GRADES:
            raise ResponseError(
                f"a scale has 3 to {MOST_GRADES} grades, got {len(self.labels)}; with two, score "
                f"answers 0 and 1"
            )
        if len({label.casefold() for label in self.labels}) < len(self.labels):
            raise ResponseError("--order must name each grade once, the lowest first")

    @property
    def steps(self) -> int:
        """Trials of a cell."""
        return PARTS if self.fine else max(1, len(self.labels) - 1)

    @property
    def called(self) -> str:
        """Name of a single answer: answer, grade or score."""
        return _CALLED[self.kind]

    @property
    def fine(self) -> bool:
        """Whether answers are scores, which rarely coincide except at the ends."""
        return self.kind in ("continuous", "unbounded")

    def value(self, share: ArrayLike) -> Any:
        """Convert a share of the way from the lowest score to the highest to the scores' unit.

        It remains a share if grades are words.
        """
        low, high = ends_of(self)
        return low + np.asarray(share) * (high - low)

    @property
    def ends(self) -> tuple[float, float] | None:
        """Lowest and highest score as numbers, or None if grades are words."""
        if self.fine:
            return self.low, self.full
        try:
            return float(self.labels[0]), float(self.labels[-1])
        except ValueError:
            return None


def ends_of(scale: Scale | None) -> tuple[float, float]:
    """Return the lowest and the highest score as numbers, by default 0 and 1.

    >>> ends_of(None), ends_of(Scale("graded", ("1", "2", "3")))
    ((0.0, 1.0), (1.0, 3.0))
    """
    return (scale and scale.ends) or (0.0, 1.0)


def score_name(scale: Scale | None) -> str:
    """Return the name of the mean of a subject's answers.

    >>> score_name(None), score_name(Scale("continuous"))
    ('accuracy', 'mean score')
    """
    return "accuracy" if scale is None else f"mean {scale.called}"


def shown_score(scale: Scale | None, share: float) -> str:
    """Format a share of the full score as a percentage, a grade or a score.

    >>> shown_score(None, 0.5), shown_score(Scale("graded", ("1", "2", "3")), 0.75)
    ('50.0%', '2.50')
    """
    ends = None if scale is None else scale.ends
    if scale is None or ends is None or (ends == (0, 1) and scale.kind != "unbounded"):
        return f"{share:.1%}"
    digits = 1 if ends[1] > MOST_GRADES else 2
    if scale.kind == "unbounded":  # A thousandth of the observed range is visible.
        digits = max(0, 3 - int(np.ceil(np.log10(ends[1] - ends[0]))))
    return f"{scale.value(share):,.{digits}f}"


def scale_given(kind: str | None, order: Sequence[str], full: float | None) -> Scale | None:
    """Return the scale that the options --kind, --order and --scale ask for, if any."""
    labels = tuple(label.strip() for text in order for label in text.split(","))
    if labels and kind not in (None, "graded"):
        raise ResponseError(f"--order belongs to graded answers; leave out --kind {kind}")
    if full is not None and kind not in (None, "continuous"):
        raise ResponseError(f"--scale belongs to continuous scores; leave out --kind {kind}")
    if labels and full is not None:
        raise ResponseError("--order is for grades, --scale for scores; leave out one of them")
    chosen = kind or ("graded" if labels else "continuous" if full is not None else None)
    return None if chosen is None else Scale(chosen, labels, 1.0 if full is None else full)  # type: ignore[arg-type]


def stored_scale(text: str) -> Scale | None:
    """Return a scale that was stored as JSON, or None for empty text."""
    if not text:
        return None
    try:
        values = json.loads(text)
        ends = float(values["full"]), float(values.get("low", 0))
        return Scale(values["kind"], tuple(map(str, values["labels"])), *ends)
    except (KeyError, TypeError, ValueError):
        raise ResponseError("the stored kind of answers cannot be read; convert again") from None


def refuse_other_answers(scale: Scale | None, model: str, takes: Kind) -> None:
    """Refuse a model for another kind of answers."""
    kind = "binary" if scale is None else scale.kind
    if kind != takes:
        called = {"binary": "right and wrong"}
        way_out = "leave it out"
        if kind != "binary":
            way_out = f"pass --kind {takes}, or leave {model} out"
        if takes == "binary":
            way_out = "pass --threshold to make them so"
        raise ResponseError(
            f"{model} is for {called.get(takes, takes)} answers, and these are "
            f"{called.get(kind, kind)}; {way_out}"
        )


class Column(NamedTuple):
    """A column of scores without missing values, as its distinct values and their codes."""

    name: str
    codes: NDArray[np.intp]
    distinct: NDArray[np.object_]
    numbers: NDArray[np.float64] | None  # The whole column, if all values are numbers.
    where: Callable[[int], str]  # Returns the location of a row in words.


def scored(column: Column, requested: Scale | None) -> tuple[NDArray[np.int64], Scale] | None:
    """Return successes of each score and their scale, or None if scores are right or wrong.

    `requested` is the scale that the user asked for, if any.
    """
    numbers = column.numbers
    if numbers is not None and requested is not None and requested.fine:
        of_kind = _continuous if requested.kind == "continuous" else _unbounded
        return of_kind(numbers, requested, column.name)
    if numbers is None or (requested is not None and requested.labels):
        return _labelled(column, requested)
    if requested is not None or _look_graded(numbers):
        return _graded(numbers, column)
    if look_continuous(numbers):
        return _continuous(numbers, Scale("continuous"), column.name)
    return None


def _look_graded(numbers: NDArray[np.float64]) -> bool:
    """Return whether scores are whole numbers on a short scale, apart from a few mistakes."""
    whole = numbers == np.round(numbers)
    beyond = (numbers != 0) & (numbers != 1)
    if whole.mean() < 1 - _FEW or beyond.mean() <= _FEW or beyond.sum() < _SEVERAL:
        return False
    grades = np.unique(numbers[whole])
    return len(grades) >= 3 and grades[0] >= 0 and bool(np.ptp(grades) < MOST_GRADES)


def look_continuous(numbers: NDArray[np.float64]) -> bool:
    """Return whether all scores are from 0 to 1, and more than a few are neither 0 nor 1."""
    between = (numbers > 0) & (numbers < 1)
    within = (numbers >= 0) & (numbers <= 1)
    return bool(within.all() and between.mean() > _FEW and between.sum() >= _SEVERAL)


def _graded(numbers: NDArray[np.float64], column: Column) -> tuple[NDArray[np.int64], Scale]:
    whole = numbers == np.round(numbers)
    lowest, highest = (int(x) for x in (numbers[whole].min(), numbers[whole].max()))
    if not whole.all():
        row = int(np.argmin(whole))
        raise ResponseError(
            f"`{column.name}` holds grades from {lowest} to {highest}, but also {numbers[row]:g} "
            f"{column.where(row)}; correct it, or pass --kind continuous --scale {highest}"
        )
    if highest - lowest < 2:
        held = "one grade" if highest == lowest else "two grades"
        raise ResponseError(
            f"`{column.name}` holds only {held}, and a scale has three or more; check the column, "
            f"or score answers 0 and 1"
        )
    if highest - lowest >= MOST_GRADES:
        raise ResponseError(
            f"`{column.name}` holds whole numbers from {lowest} to {highest}, too many for grades; "
            f"pass --scale {highest} for scores from 0 to {highest}"
        )
    labels = tuple(str(grade) for grade in range(lowest, highest + 1))
    return (numbers - lowest).astype(np.int64), Scale("graded", labels)


def _labelled(column: Column, requested: Scale | None) -> tuple[NDArray[np.int64], Scale] | None:
    """Return the position of each label in the order of grades, and the scale."""
    if requested is None and len(column.distinct) > MOST_GRADES:
        return None
    texts = [str(value).strip() for value in column.distinct]
    seen = [text.casefold().removesuffix(".0") for text in texts]
    order = (requested and requested.labels) or _known_order({*seen})
    if order is None:
        if requested is None and not all(any(map(str.isalpha, text)) for text in texts):
            return None
        named = ", ".join(one_line(text, 20) for text in texts[:5])
        raise ResponseError(
            f"`{column.name}` holds the labels {named}, whose order is not known; pass --order "
            f"with all of them, the lowest first and separated by commas"
        )
    at = _places(column, order, "correct it, or name it in --order")
    if len({*at}) == 1:
        raise ResponseError(
            f"`{column.name}` holds only {one_line(texts[0], 40)!r}; without other grades there "
            f"is nothing to rank"
        )
    return at[column.codes], Scale("graded", tuple(order))


def _places(column: Column, order: Sequence[str], way_out: str) -> NDArray[np.int64]:
    """Return the position of each distinct label in an order."""
    places = {label.casefold(): k for k, label in enumerate(order)}
    positions = []
    for value in column.distinct:
        text = str(value).strip()
        if (label := text.casefold().removesuffix(".0")) not in places:
            raise ResponseError(
                f"`{column.name}` holds {one_line(text, 40)!r}, which is not one of "
                f"{', '.join(order)}; {way_out}"
            )
        positions.append(places[label])
    return np.array(positions, np.int64)


def on_scale(column: Column, scale: Scale) -> NDArray[np.int64]:
    """Return successes of scores on a known scale; the scores may be few, or all equal."""
    if not scale.fine:
        return _places(column, scale.labels, "correct it")[column.codes]
    if column.numbers is None:
        raise ResponseError(f"`{column.name}` must hold numbers, as calibrated answers do")
    shares = (column.numbers - scale.low) / (scale.full - scale.low)
    if scale.kind == "unbounded":
        return np.round(PARTS * shares).astype(np.int64)
    bad = (shares < 0) | (shares > 1)
    if bad.any():
        raise ResponseError(
            f"`{column.name}` must lie between 0 and {scale.full:g}, as calibrated answers do, got "
            f"{column.numbers[bad][0]:g} {column.where(int(np.argmax(bad)))}"
        )
    return in_parts(shares)


def _known_order(seen: set[str]) -> tuple[str, ...] | None:
    order = next((order for order in _LIKERT if seen <= {*order}), None)
    if order is None:
        return None
    places = [order.index(label) for label in seen]
    return order[min(places) : max(places) + 1]


def _continuous(
    numbers: NDArray[np.float64], scale: Scale, column: str
) -> tuple[NDArray[np.int64], Scale]:
    shares = numbers / scale.full
    bad = (shares < 0) | (shares > 1)
    if bad.any():
        odd, full = numbers[bad][0], np.max(numbers)
        hint = f"; pass --scale {100 if full > 10 else full:g} if that is the full score"
        raise ResponseError(
            f"`{column}` must lie between 0 and {scale.full:g}, got {odd:g}"
            f"{hint if odd > 0 else '; shift the scores'}"
        )
    inside = (shares > 0) & (shares < 1)
    if not inside.any():
        raise ResponseError(
            f"`{column}` holds nothing between 0 and {scale.full:g}: these answers are right or "
            f"wrong; leave out --kind continuous"
        )
    return in_parts(shares), replace(scale, labels=())


def _unbounded(
    numbers: NDArray[np.float64], scale: Scale, column: str
) -> tuple[NDArray[np.int64], Scale]:
    low, high, sd = numbers.min(), numbers.max(), numbers.std()
    if low == high:
        raise ResponseError(
            f"`{column}` holds only {low:g}; without other scores there is nothing to rank"
        )
    if high - low > _WIDEST * sd:
        far = max((low, high), key=lambda end: abs(end - np.median(numbers)))
        raise ResponseError(
            f"`{column}` has {far:g}, so far from all other scores that these would hardly differ; "
            f"correct it, or take logarithms of scores first"
        )
    parts = np.round(PARTS * ((numbers - low) / (high - low))).astype(np.int64)
    return parts, replace(scale, labels=(), low=float(low), full=float(high))


def in_parts(shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return scores from 0 to 1 in ten-thousandths; only 0 and 1 themselves become the ends.

    >>> in_parts(np.array([0, 0.00001, 0.5, 1])).tolist()
    [0, 1, 5000, 10000]
    """
    parts = np.round(PARTS * shares).astype(np.int64)
    inside = (shares > 0) & (shares < 1)
    return np.where(inside, np.clip(parts, 1, PARTS - 1), parts)
