"""Models of one ability, with or without guessing: starting points of chains, and pivots."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.estimators.marginal import usual_items
from bayesirt.inference.blocked import Position
from bayesirt.inference.chain_starts import (
    LEAST_SE,
    LEAST_SLOPE,
    MOST_SE,
    SURE_SIGN,
    Start,
    place_leaning,
    place_population,
    usable,
)
from bayesirt.inference.two_way import TwoWay
from bayesirt.likelihood.passes import Passes
from bayesirt.models import ResponseModel
from bayesirt.point_estimate import PointEstimate


class OneAbility(TwoWay):
    """The 2PL, and models that add further item parameters to it."""

    @property
    def interweaves(self) -> bool:
        """As for any model, unless many answers determine all parameters of items.

        At 400 x 200, the effective draws of σ_a are then a sixth fewer and others hardly change,
        and a sweep costs three evaluations of the data instead of four.
        """
        return super().interweaves and not (self.many_answers and not self.model.family.further)

    def start(self, point: PointEstimate, data: Any) -> Start:  # noqa: ARG002
        """Return centre and width of the chains' starts, at unconstrained sites.

        Poorly determined items start within one unit; free slopes start above zero.
        """
        priors, theta_se = self.model.priors, usable(point["theta_se"])
        slope = np.maximum(np.nan_to_num(point["a"], nan=1.0), LEAST_SLOPE)
        log_a_se = np.clip(np.nan_to_num(point["a_se"], nan=1.0) / slope, LEAST_SE, MOST_SE)
        d, d_se = point["d"], usable(point["d_se"])
        unit = slope.mean() if priors.slopes == "rasch" else 1.0
        start: Start = ({"theta": unit * point["theta"]}, {"theta": unit * theta_se})
        for name, values, width in _further(self.model, point):
            place_population(start, name, values, width)
            if self.model.known_spreads:
                del start[0][f"sigma_{name}"], start[1][f"sigma_{name}"]
        if priors.kind == "fixed":
            b_se = np.clip(d_se / slope, LEAST_SE, MOST_SE)
            start[0].update(a=np.log(slope), b=np.clip(-d / slope, -4, 4))
            start[1].update(a=log_a_se, b=b_se)
            return start
        if priors.slopes == "rasch":
            place_population(start, "d", d, d_se)
            return start
        if priors.slopes == "positive":
            place_population(start, "a", np.log(slope), log_a_se)
        else:
            place_population(start, "a", slope, slope * np.minimum(log_a_se, SURE_SIGN))
        place_leaning(start, "d", d, d_se, ("mu_b", slope))
        return start

    def pivots(self, passes: Passes, sites: Position) -> Float[Array, " item"] | None:
        """Return about each item's threshold m; log slope and a m + d hardly correlate."""
        priors = self.model.priors
        bent = priors.kind == "hierarchical" and priors.slopes == "positive"
        return passes.thresholds(sites["theta"]) if bent else None


def _further(
    model: ResponseModel, point: PointEstimate
) -> Iterator[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
    """Yield name, centre and width of the starts of item parameters beyond slope and intercept."""
    transforms = dict(zip(model.family.further, usual_items(model).to_values[2:], strict=True))
    for name, usual in model.usual.items():
        centre, width = (np.full(len(point["a"]), x) for x in usual)
        if name in point.parameters:
            centre, further = (
                np.asarray(transforms[name].inv(point[name] + x)) for x in (0, point[f"{name}_se"])
            )
            # An item that starts far out in a tail, where the likelihood is flat, may stay there.
            width = np.fmin(width, 0.2 * np.abs(further - centre))
        yield name, centre, width
