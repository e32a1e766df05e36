"""A study's replications in other processes, on this host or on Dask workers."""

import sys

import jax
import numpy as np
import pytest
from quick_engine import draw_at_once

from bayesirt import ResponseError
from bayesirt.studies import calibration_study, tasks

SIZE = (12, 8)
ENGINES = {"at once": draw_at_once}
KEY = jax.random.key(3)


def test_other_processes_give_the_same_study():
    distributed = pytest.importorskip("distributed", reason="needs Dask")
    with distributed.LocalCluster(1, threads_per_worker=1, dashboard_address=None) as cluster:
        ways = [{}, {"n_processes": 2}, {"scheduler": cluster.scheduler_address}]
        one, *others = (
            calibration_study(ENGINES, [SIZE], 3, key=KEY, **way).replications for way in ways
        )
    assert (one["failed"] == "").all()
    ranks = [c for c in one if c.startswith("rank_")]
    for other in others:
        np.testing.assert_array_equal(one[ranks], other[ranks])


def test_a_silent_scheduler_is_named(monkeypatch):
    pytest.importorskip("distributed", reason="needs Dask")
    monkeypatch.setattr(tasks, "_PATIENCE", 0.2)
    with pytest.raises(ResponseError, match="no Dask scheduler answers at 'tcp:"):
        calibration_study(ENGINES, [SIZE], 1, key=KEY, scheduler="tcp://127.0.0.1:1")


def test_without_dask_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ResponseError, match=r"pip install 'bayesirt\[dask\]'"):
        calibration_study(ENGINES, [SIZE], 1, key=KEY, scheduler="tcp://127.0.0.1:1")
