"""A user-defined scale: the line on which chosen subjects have chosen values."""

from collections.abc import Mapping, Sequence
from math import isfinite

from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.posterior import Posterior

_SURE = 0.95


def line_through(posterior: Posterior, anchors: Mapping[str, float]) -> tuple[float, float]:
    """Return intercept and slope of the line that maps anchors' mean abilities to their values."""
    subjects = posterior.subjects
    check_anchors(anchors, subjects)
    (one, low), *others = sorted(anchors.items(), key=lambda anchor: anchor[1])
    abilities = posterior.reported.theta
    theta = abilities[:, subjects.index(one)]
    if not others:
        return low - float(theta.mean()), 1.0
    other, high = others[0]
    above = abilities[:, subjects.index(other)]
    p_above = float((above > theta).mean())
    if p_above < _SURE:
        raise ResponseError(
            f"{one_line(other)!r} at {high:g} is above {one_line(one)!r} at {low:g} with a "
            f"probability of only {p_above:.0%}; take anchors that clearly differ, the abler one "
            f"higher"
        )
    slope = (high - low) / float(above.mean() - theta.mean())
    return low - slope * float(theta.mean()), slope


def check_anchors(anchors: Mapping[str, float], subjects: Sequence[str]) -> None:
    """Check that a line can go through the anchors, as far as possible without draws."""
    if len(anchors) > 2:
        raise ResponseError(f"a scale has one anchor or two, got {len(anchors)}; leave some out")
    for name, value in anchors.items():
        if name not in subjects:
            raise ResponseError(
                f"the anchor {one_line(name)!r} is not a subject; name one of the ranking"
            )
        if not isfinite(value):
            raise ResponseError(f"the anchor {one_line(name)!r} needs a number, got {value}")
    if len(set(anchors.values())) < len(anchors):
        raise ResponseError("both anchors have the same value; give the abler one a higher value")
