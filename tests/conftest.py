"""What all tests share: 64 bits, four devices, a cache of compiled code, small data."""

import ctypes
import gc
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two processes of tests share two cores

import jax
import numpy as np
import pytest
from sketches import pictures_by, sketch

from bayesirt.data.responses import Responses
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.run_folder import load_run
from bayesirt.report.page import svg

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".jax_cache"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

NEEDS = {"browser": "selenium", "notebook": "nbclient"}
"""What the tests of a folder, all of them slow, need beyond the extra of the quick ones."""
collect_ignore = [
    folder
    for folder, package in NEEDS.items()
    if "BAYESIRT_REQUIRE_BROWSER" not in os.environ and not find_spec(package)
]

SHARED = Path(__file__).parents[2] / "shared"


PROCESS = Path("/proc/self")
MOST_MAPS = 30_000
"""About half of what Linux allows a process; compiled code holds several for each function."""
MOST_PAGES = 3 << 18
"""Of 4 kB: 3 GB, so that two processes have room beside each other."""


def pytest_collection_finish() -> None:
    """Look through what is there for good, and for cycles of rubbish, less often: it takes time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture(scope="module", autouse=True)
def room_for_compiled_code() -> Iterator[None]:
    """Forget compiled code between modules when a process holds so much that it would crash."""
    yield
    if not (PROCESS / "statm").exists():
        return
    n_maps = (PROCESS / "maps").read_bytes().count(b"\n")
    n_pages = int((PROCESS / "statm").read_text().split()[1])
    if n_maps > MOST_MAPS or n_pages > MOST_PAGES:
        jax.clear_caches()
        gc.collect()
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            trim(0)


@pytest.fixture(scope="module", autouse=True)
def sketches(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let reports sketch their pictures, but in modules with DRAWN, which are about them."""
    with pictures_by(svg if getattr(request.module, "DRAWN", False) else sketch):
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real data beside a developer's checkout, or skip."""
    if not SHARED.is_dir():
        pytest.skip("needs the folder of real data beside a developer's checkout")
    return SHARED


def simulate(
    n_subjects: int, n_items: int, seed: int = 0
) -> tuple[Responses, np.ndarray, np.ndarray, np.ndarray]:
    """Draw θ ~ N(0, 1), log a ~ N(0, .4), d ~ N(0, 1) and complete 2PL responses."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=n_subjects)
    a, d = np.exp(0.4 * rng.normal(size=n_items)), rng.normal(size=n_items)
    p = 1 / (1 + np.exp(-(theta[:, None] * a + d)))
    return Responses.from_arrays((rng.uniform(size=p.shape) < p).astype(int)), theta, a, d


@pytest.fixture(scope="session")
def small() -> Responses:
    """Return 30 x 20 simulated responses: the shape that most tests share."""
    return simulate(30, 20)[0]


@pytest.fixture(scope="session")
def small_run(small: Responses) -> Run:
    """Return a run on the small responses that `make_stored.py` made and kept."""
    run = load_run(Path(__file__).parent / "stored" / "small")
    assert run.posterior.successes.tolist() == small.cells.matrices()[0].tolist()
    return run
