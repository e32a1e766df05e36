"""Lengths of wrong answers: how long they are, and whether modelling them predicts better."""

from dataclasses import dataclass

import numpy as np

from bayesirt.checks.predictive_gain import (
    MOST_CELLS,
    MOST_DRAWS,
    PredictionGain,
    compare_models,
)
from bayesirt.data.responses import Responses
from bayesirt.posterior import LOW_MIDDLE_HIGH, Posterior


@dataclass(frozen=True)
class WrongLengths:
    """LaRT with separate lengths of wrong answers, compared with plain LaRT."""

    # Low, median and high of the ratio of a wrong answer's length to a right one's, for the same
    # subject, as the geometric mean over items; low and high bound its 90% interval.
    factor: tuple[float, float, float]
    prediction: PredictionGain  # Over plain LaRT.

    def to_text(self) -> str:
        """Return how long wrong answers are, and whether modelling that predicts better."""
        low, median, high = self.factor
        text = (
            f"Wrong answers are {median:.2f} times as long as right ones (90%: {low:.2f} to "
            f"{high:.2f})"
        )
        text += (
            ", but modelling that fits worse",
            ", and whether modelling that fits better is uncertain",
            ", and modelling that fits better",
        )[self.prediction.surely + 1]
        return f"{text}: {self.prediction.numbers()}."


def compare_wrong_lengths(
    responses: Responses,
    posterior: Posterior,
    plain: Posterior,
    *,
    most_draws: int = MOST_DRAWS,
    most_cells: int = MOST_CELLS,
    seed: int = 0,
) -> WrongLengths:
    """Compare LaRT with separate lengths of wrong answers to plain LaRT.

    Parameters
    ----------
    responses : Responses
        With lengths.
    posterior, plain : Posterior
        Of LaRT with and without the option, of these responses.
    most_draws : int
        Most draws to use of each posterior, evenly spread over its chains.
    most_cells : int
        Most cells to use; of more, so many are sampled at random to represent all.
    seed : int
        Seed of that sample.

    Returns
    -------
    WrongLengths

    Raises
    ------
    ValueError
        If the posteriors are not these, or the responses have no lengths.

    See Also
    --------
    bayesirt.checks.predictive_gain.compare_models
    """
    if not posterior.has_wrong_lengths or plain.has_wrong_lengths or not plain.has_speeds:
        raise ValueError("compare LaRT with lengths of wrong answers to LaRT without them")
    if responses.latency is None:
        raise ValueError("the responses have no lengths")
    gain = compare_models(
        responses, posterior, plain, most_draws=most_draws, most_cells=most_cells, seed=seed
    )
    return WrongLengths(wrong_factor(posterior), gain)


def wrong_factor(posterior: Posterior) -> tuple[float, float, float]:
    """Return (low, median, high) of the ratio of lengths of wrong answers to right ones."""
    low, median, high = np.exp(np.quantile(posterior.draws("delta").mean(1), LOW_MIDDLE_HIGH))
    return float(low), float(median), float(high)
