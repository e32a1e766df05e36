"""Whether a run fits into memory, known before it starts."""

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
"""Python, JAX and what it compiles."""
_OF_A_DRAW = 2.5
"""A draw is on the device, on the host, and being summarised."""
_OF_A_BLOCK = 3
"""Laplace holds its matrix over the smaller side, the factor of it, and one on the way there."""
_OF_AN_ITEM = 2
"""Parameters that an item has on the side that is kept."""
_OF_A_LENGTH = 24
"""Bytes of a cell that LaRT holds its log length in, beside those of its answer."""
_OF_SEVERAL = 60
"""Bytes of a cell of which several abilities speak."""
_OF_A_CELL = {
    "dense": {"point": 45, "nuts": 50, "blocked": 10, "laplace": 10},
    "sparse": {"point": 180, "nuts": 90, "blocked": 170, "laplace": 170},
}
"""Bytes at the peak, from measured ones in 64 bits and rather too many than too few; of each chain
where there are chains."""


def check_memory(
    method: Method, responses: Responses, *, model: ResponseModel, options: RunOptions
) -> None:
    """Refuse a run that will not fit into memory."""
    needed, there = bytes_needed(method, responses, model, options), bytes_there()
    if isinstance(responses.cells, StoredCells):
        raise ResponseError(
            f"{method} would need about {in_gigabytes(needed)} of memory for "
            f"{responses.n_observed:,} responses, {in_gigabytes(there)} are free, and these "
            f"responses were left on disk; fit_cbmm gives a point estimate of them from there"
        )
    if needed <= there:
        return
    exact_first: list[Method] = ["nuts", "blocked", "laplace"]
    fitting = [
        engine
        for engine in exact_first
        if engine in model.engines and bytes_needed(engine, responses, model, options) <= there
    ]
    other = f"or ask for engine {fitting[0]}, which would fit" if fitting else "no engine would fit"
    raise ResponseError(
        f"{method} needs about {in_gigabytes(needed)} of memory for {responses.n_observed:,} "
        f"responses and {options.num_chains} x {options.num_samples:,} draws, "
        f"{in_gigabytes(there)} are free; keep fewer draws, {other}"
    )


def bytes_needed(
    method: Method, responses: Responses, model: ResponseModel, options: RunOptions
) -> float:
    """Return about how many bytes a run takes at its peak, in 64 bits, the estimate included."""
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
        # Speeds and lengths are as many again; Laplace holds the draws of answers beside them.
        of_a_draw *= 3 if method == "laplace" else 2
    draws = _OF_A_DRAW * options.num_chains * options.num_samples * of_a_draw
    return _AT_LEAST + max(point, run + draws)


def bytes_there() -> float:
    """Return how much memory is free on the device that JAX would use."""
    statistics = jax.local_devices()[0].memory_stats()
    if statistics and "bytes_limit" in statistics:
        return statistics["bytes_limit"] - statistics["bytes_in_use"]
    return host_bytes_free()
