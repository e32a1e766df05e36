"""Equal slopes are tried where positive ones do not converge, and used where they are sound."""

import numpy as np
import pytest
from made_posterior import posterior_of

from bayesirt import Posterior, Priors
from bayesirt.inference.other_slopes import WIDE, with_other_slopes

N, J = 12, 5
EQUAL = Priors(slopes="rasch")


def drawn(*, apart: float, sigma_a: float, priors: Priors) -> Posterior:
    """Return draws of two chains whose abilities lie `apart`."""
    rng = np.random.default_rng(0)
    theta = np.linspace(-1, 1, N) + 0.1 * rng.normal(size=(2, 500, N))
    theta[1, :, 0] += apart
    spread = np.full((2, 500), sigma_a) + 0.01 * rng.normal(size=(2, 500))
    attrs = {"complete": 1, "engine": "blocked", "priors": priors.describe()}
    return posterior_of(np.tri(N, J), theta=theta, sigma_a=spread, attrs=attrs)


WANDERING = drawn(apart=5, sigma_a=2 * WIDE, priors=Priors())
SOUND = drawn(apart=0, sigma_a=0.5, priors=EQUAL)


def test_sound_equal_slopes_take_the_place_of_wandering_ones():
    asked = []
    found, priors, said = with_other_slopes(
        WANDERING, Priors(), lambda priors: asked.append(priors) or SOUND
    )
    assert found is SOUND
    assert asked == [priors] == [EQUAL]
    assert "--slopes rasch" in said


def test_the_first_draws_stay_where_the_others_are_no_better():
    found, priors, said = with_other_slopes(WANDERING, Priors(), lambda _: WANDERING)
    assert found is WANDERING
    assert priors == Priors()
    assert "--slopes rasch" not in said
    assert said


@pytest.mark.parametrize(
    "given",
    [
        drawn(apart=0, sigma_a=2 * WIDE, priors=Priors()),
        drawn(apart=5, sigma_a=0.5, priors=Priors()),
        drawn(apart=5, sigma_a=2 * WIDE, priors=Priors(slopes="free")),
    ],
    ids=["sound", "narrow", "free"],
)
def test_nothing_is_drawn_again_for_another_reason(given: Posterior):
    def refuse(priors: Priors) -> Posterior:
        raise AssertionError(f"drawn again with {priors}")

    assert with_other_slopes(given, Priors(), refuse) == (given, Priors(), "")
