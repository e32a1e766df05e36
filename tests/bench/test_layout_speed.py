"""Time of one Newton pass over a matrix and over a list of its observed cells.

`_SPARSE_BELOW` in `bayesirt.data.cells` is the coverage at which the two cost about the same.
"""

import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt.data import cells as kept
from bayesirt.data.cells import DenseCells, SparseCells
from bayesirt.data.responses import Responses
from bayesirt.estimators.cell_sums import CellSums, cell_sums
from bayesirt.likelihood.cell_sums import ByRows, in_row_blocks, layout_of
from bayesirt.likelihood.families import LOGIT

COVERAGES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
SHAPES = {"1e5": (250, 400), "1e6": (1000, 1000), "1e7": (2500, 4000)}
CLEAR = 3.0
"""A layout that is this many times slower must not be chosen."""


def seconds(work: Callable[[], CellSums]) -> float:
    jax.block_until_ready(work())
    times = []
    for _ in range(5):
        began = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - began)
    return min(times)


def layouts(shape: tuple[int, int], coverage: float) -> tuple[ByRows, ByRows, int]:
    """Return a matrix and a list of the same cells, and the number of cells."""
    rng = np.random.default_rng(0)
    seen = rng.uniform(size=shape) < coverage
    seen[:, 0] = seen[0] = True
    dense = DenseCells((seen & (rng.uniform(size=shape) < 0.5)).astype(np.int8), seen.astype("i1"))
    names = [tuple(f"{k}" for k in range(n)) for n in shape]
    cells = dense, SparseCells(*shape, dense.listed())
    matrix, listed = (in_row_blocks(layout_of(Responses(*names, c))) for c in cells)
    return matrix, listed, dense.n_observed


@pytest.mark.bench
@pytest.mark.parametrize("size", SHAPES)
def test_the_quicker_layout_is_chosen(size: str, capsys):
    shape = SHAPES[size]
    rng = np.random.default_rng(1)
    point = rng.normal(size=shape[0]), rng.uniform(0.5, 2, shape[1]), rng.normal(size=shape[1])
    one_pass = jax.jit(cell_sums, static_argnums=1, static_argnames="dtype")
    lines, wrong = [], []
    for coverage in COVERAGES:
        matrix, listed, n_observed = layouts(shape, coverage)
        ratios = []
        for dtype in (jnp.float32, jnp.float64):
            of_list, of_matrix = (
                seconds(partial(one_pass, layout, LOGIT, *point, dtype=dtype))
                for layout in (listed, matrix)
            )
            ratios.append(of_list / of_matrix)
        chosen = kept.better_sparse(shape, n_observed)
        lines.append(
            f"  coverage {coverage:4.2f}: list / matrix {ratios[0]:5.2f} in 32 bits, "
            f"{ratios[1]:5.2f} in 64, {'list' if chosen else 'matrix'} is kept"
        )
        slower = min(ratios) if chosen else 1 / max(ratios)
        if slower > CLEAR:
            wrong.append(coverage)
    with capsys.disabled():
        print(f"\n{size} cells", *lines, sep="\n")
    assert size == "1e5" or not wrong, "a matrix of 1e5 cells is kept though lists are quicker"
