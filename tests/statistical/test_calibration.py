"""Blocked chains draw from the posterior: simulation-based calibration at a small size."""

import time

import jax
import numpy as np
import pytest
from jax import Array

from bayesirt import Posterior, Responses, RunOptions, sample_posterior
from bayesirt.studies import calibration_study
from bayesirt.studies.calibration import CalibrationStudy
from bayesirt.studies.replication import Design

pytestmark = pytest.mark.statistical

SIZE = (12, 8)
REPLICATIONS = 100
FALSE_ALARM = 1e-3


@pytest.fixture(scope="module")
def study() -> CalibrationStudy:
    """Run blocked chains, and shrink their draws (log a for slopes) halfway to their means."""
    last: list[Posterior] = []

    def blocked(responses: Responses, key: Array) -> Posterior:
        last[:] = [
            sample_posterior(
                responses,
                key=key,
                options=RunOptions(num_chains=2, num_warmup=300, num_samples=500),
            )
        ]
        return last[0]

    def halved(responses: Responses, key: Array) -> Posterior:
        right = {name: last[0][name] for name in ("theta", "a", "d")}
        right["a"] = np.log(right["a"])
        nearer = {k: v.mean((0, 1)) + 0.5 * (v - v.mean((0, 1))) for k, v in right.items()}
        nearer["a"] = np.exp(nearer["a"])
        return Posterior.from_samples(nearer, {}, responses, {})

    began = time.perf_counter()
    engines = {"blocked": blocked, "halved": halved}
    result = calibration_study(
        engines, [SIZE], REPLICATIONS, key=jax.random.key(0), design=Design(false_alarm=FALSE_ALARM)
    )
    print(f"{REPLICATIONS} replications in {time.perf_counter() - began:.0f} s")
    print(result.to_text())
    return result


def test_blocked_stays_inside_the_envelope_in_all_quantities(study: CalibrationStudy):
    """A correct sampler fails with another key once in a thousand."""
    ranks = study.summary[study.summary["engine"] == "blocked"]
    print(ranks.to_string())
    assert len(ranks) == 7
    assert (ranks["failed"] == 0).all()
    assert (ranks["verdict"] == "calibrated").all()
    assert (ranks["dependent"] <= 0.02 * REPLICATIONS).all()


def test_intervals_of_blocked_cover_as_often_as_they_say(study: CalibrationStudy):
    """A correct sampler fails with another key once in a thousand."""
    coverage = study.coverage[study.coverage["engine"] == "blocked"]
    print(coverage.to_string())
    assert len(coverage) == 10
    assert (coverage["verdict"] == "calibrated").all()


def test_these_replications_are_enough_to_catch_draws_half_as_wide(study: CalibrationStudy):
    """Ranks of θ and d catch them, and so do intervals of all parameters.

    Ranks of one slope do not: its posterior is hardly narrower than its heavy-tailed prior.
    """
    ranks = study.summary[study.summary["engine"] == "halved"].set_index("quantity")
    assert ranks.loc[["theta", "d"], "verdict"].tolist() == ["too narrow"] * 2
    coverage = study.coverage[study.coverage["engine"] == "halved"]
    of_all = coverage[coverage["group"].isin(["theta", "a", "d"])]
    assert len(of_all) > 0
    assert (of_all["verdict"] != "calibrated").all()
