"""Check, before a run starts, whether it fits into memory."""

import jax

from bayesirt.data.cells import SparseCells
from bayesirt.data.free_memory import host_bytes_free, in_gigabytes
from bayesirt.data.responses import Responses
from bayesirt.data.stored_cells import StoredCells
from bayesirt.errors import ResponseError
from bayesirt.inference.laplace import DENSE_UP_TO
from bayesirt.inference.options import RunOptions
from bayesirt.models import Method, ResponseModel

_AT_LEAST = 500_000_000
"""Bytes for Python, JAX and compiled programs."""
_OF_A_DRAW = 2.5
"""Copies of each draw: on the device, on the host, and while it is summarised."""
_OF_A_BLOCK = 3
"""Matrices over the smaller side that Laplace holds: one, its factor and a temporary one."""
_OF_AN_ITEM = 2
"""Parameters per item on the side that is kept."""
_OF_A_LENGTH = 24
"""Bytes per cell for LaRT's log length, in addition to those for the answer."""
_OF_SEVERAL = 60
"""Bytes per cell with several abilities."""
_OF_A_CELL = {
    "dense": {"point": 45, "nuts": 50, "blocked": 10, "laplace": 10},
    "sparse": {"point": 180, "nuts": 90, "blocked": 170, "laplace": 170},
}
"""Peak bytes per cell (and per chain), measured in 64 bits and rounded up."""


def check_memory(
    method: Method, responses: Responses, *, model: ResponseModel, options: RunOptions
) -> None:
    """Refuse a run that does not fit into memory."""
    needed, space = bytes_needed(method, responses, model, options), bytes_there()
    if isinstance(responses.cells, StoredCells):
        raise ResponseError(
            f"{method} would need about {in_gigabytes(needed)} of memory for "
            f"{responses.n_observed:,} responses, but only {in_gigabytes(space)} are free and "
            f"these responses were left on disk; fit_cbmm gives a point estimate from disk"
        )
    if needed <= space:
        return
    exact_first: list[Method] = ["nuts", "blocked", "laplace"]
    fitting = [
        engine
        for engine in exact_first
        if engine in model.engines and bytes_needed(engine, responses, model, options) <= space
    ]
    other = f"or use engine {fitting[0]}, which would fit" if fitting else "no engine would fit"
    raise ResponseError(
        f"{method} needs about {in_gigabytes(needed)} of memory for {responses.n_observed:,} "
        f"responses and {options.num_chains} x {options.num_samples:,} draws, "
        f"but only {in_gigabytes(space)} are free; keep fewer draws, {other}"
    )


def bytes_needed(
    method: Method, responses: Responses, model: ResponseModel, options: RunOptions
) -> float:
    """Return the approximate peak memory of a run in bytes, in 64 bits, with the point estimate."""
    n_subjects, n_items = responses.n_subjects, responses.n_items
    held = responses.cells
    sparse = held.is_sparse if isinstance(held, StoredCells) else isinstance(held, SparseCells)
    cells = responses.n_observed if sparse else n_subjects * n_items
    of_a_cell = _OF_A_CELL["sparse" if sparse else "dense"]
    mesh, n_abilities = options.mesh, model.loadings(n_items).n_abilities
    share = 1.0 if mesh is None else min(1.0, jax.local_device_count() / mesh.size)
    each = of_a_cell[method] if n_abilities == 1 else max(of_a_cell[method], _OF_SEVERAL)
    point, run = cells * of_a_cell["point"], share * cells * each
    smaller = min(n_subjects, _OF_AN_ITEM * n_items)
    if method != "laplace":
        run *= options.num_chains
    elif smaller <= DENSE_UP_TO:
        run += 8 * _OF_A_BLOCK * smaller**2
    of_a_draw = 8 * (n_abilities * (n_subjects + n_items) + 2 * n_items)
    if model.lengths:
        point, run = point + cells * _OF_A_LENGTH, run + cells * _OF_A_LENGTH
        # Speeds and lengths double the draws; Laplace also holds those of the answers.
        of_a_draw *= 3 if method == "laplace" else 2
    draws = _OF_A_DRAW * options.num_chains * options.num_samples * of_a_draw
    return _AT_LEAST + max(point, run + draws)


def bytes_there() -> float:
    """Return the free memory, in bytes, of the device that JAX uses."""
    statistics = jax.local_devices()[0].memory_stats()
    if statistics and "bytes_limit" in statistics:
        return statistics["bytes_limit"] - statistics["bytes_in_use"]
    return host_bytes_free()
