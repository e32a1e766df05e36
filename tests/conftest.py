"""Shared by all tests: 64 bits, four devices, a compilation cache, small data."""

import ctypes
import gc
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from bayesirt.jax_settings import add_flag

if "device_count" not in os.environ.get("XLA_FLAGS", ""):
    add_flag("--xla_force_host_platform_device_count=4")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two test processes share two cores

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
"""Packages that a folder of slow tests needs beyond the extra `test`."""
collect_ignore = [
    folder
    for folder, package in NEEDS.items()
    if "BAYESIRT_REQUIRE_BROWSER" not in os.environ and not find_spec(package)
]

SHARED = Path(__file__).parents[2] / "shared"


PROCESS = Path("/proc/self")
MOST_MAPS = 30_000
"""About half of Linux' limit per process; each compiled function holds several."""
MOST_PAGES = 3 << 18
"""Of 4 kB each: 3 GB, so that two processes fit in memory."""


SLOW_ROOMS = {"browser", "notebook", "oracle", "reference", "statistical", "studies"}
"""Folders of slow tests: second opinions on numbers, and whole studies, pages and notebooks."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow rooms, before tests are selected by their marks."""
    for item in items:
        if item.path.parent.name in SLOW_ROOMS:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Collect garbage less often, and never examine the objects that exist now: it saves time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture(scope="module", autouse=True)
def room_for_compiled_code() -> Iterator[None]:
    """Drop compiled code between modules before a process holds so much that it would crash."""
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
    """Replace pictures in reports by sketches, except in modules that set DRAWN."""
    with pictures_by(svg if getattr(request.module, "DRAWN", False) else sketch):
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real data next to a developer's checkout, or skip the test."""
    if not SHARED.is_dir():
        pytest.skip("needs the folder of real data next to a developer's checkout")
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
    """Return the run on the small responses that `make_stored.py` stored."""
    run = load_run(Path(__file__).parent / "stored" / "small")
    assert run.posterior.successes.tolist() == small.cells.matrices()[0].tolist()
    return run
