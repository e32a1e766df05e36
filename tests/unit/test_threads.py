"""Work in the background has its caller's precision and errors, and lets Python exit."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from bayesirt import ResponseError
from bayesirt.threads import in_background

LOOP = """
import sys, time
from bayesirt.threads import in_background, stop_at_exit

def work():
    while True:
        stop_at_exit()
        time.sleep(0.01)

in_background(work)
sys.exit(3)
"""


def test_work_has_the_precision_of_its_caller():
    with jax.enable_x64(False):
        assert in_background(lambda: jnp.ones(2)).result().dtype == jnp.float32
    assert in_background(lambda: jnp.ones(2)).result().dtype == jnp.float64


def test_errors_reach_whoever_asks_for_the_result():
    def refuse():
        raise ResponseError("no")

    future = in_background(refuse)
    with pytest.raises(ResponseError, match="no"):
        future.result()


def test_python_exits_while_work_goes_on():
    run = subprocess.run([sys.executable, "-c", LOOP], timeout=60, capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (3, b"")
