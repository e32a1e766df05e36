"""Rows of the data sharded over the devices of a mesh, on one host or several.

Each device holds the responses of some subjects and evaluates their cells. Sums for items are added
up over devices; parameters, which are few, are replicated on all devices.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import multihost_utils
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Axes
from numpy.typing import NDArray

from bayesirt.data.cells import CellList, SparseCells
from bayesirt.data.responses import Responses
from bayesirt.inference.key_bits import from_bits, to_bits
from bayesirt.likelihood.cell_sums import DenseLayout, Layout, SparseLayout, in_blocks, layout_of

_ROWS = "rows"

Tree = TypeVar("Tree")


@partial(
    jax.tree_util.register_dataclass, data_fields=["layouts"], meta_fields=["mesh", "n_subjects"]
)
@dataclass(frozen=True, eq=False)
class RowShards:
    """Shards with the same number of rows for each device."""

    # Each array has a leading axis, the device. Padding rows and cells have no trials.
    layouts: Any
    mesh: Mesh  # With one axis.
    n_subjects: int

    def by_rows(
        self, function: Callable[..., tuple[Any, Any]], rows: Any, *others: Any
    ) -> tuple[Any, Any]:
        """Apply a function to each device's rows on that device."""
        n_devices, n_subjects = self.mesh.size, self.n_subjects
        n_rows = _rows_each(n_subjects, n_devices)

        def on_device(layouts: Any, rows: Any, others: Any) -> tuple[Any, Any]:
            device = jax.lax.axis_index(_ROWS)
            layout = jax.tree.map(lambda x: x[0], layouts)
            device_rows = jax.tree.map(lambda x: in_blocks(x, n_devices, n_rows)[device], rows)
            values, sums = function(layout, device_rows, *others)
            among_all = jax.tree.map(partial(_placed, device, n_devices), values)
            # One message for everything: with several hosts its latency dominates.
            numbers, as_before = ravel_pytree((among_all, sums))
            return as_before(jax.lax.psum(numbers, _ROWS))

        values, sums = jax.shard_map(
            on_device,
            mesh=self.mesh,
            in_specs=(Axes(_ROWS), Axes(), Axes()),
            out_specs=(Axes(), Axes()),
            check_vma=False,  # the check refuses loops whose first sums are plain zeros
        )(self.layouts, rows, others)
        joined = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:n_subjects], values)
        return joined, sums

    def of_items(self, values: Array) -> Array:
        """Return values of items, broadcast to be combined with values of cells."""
        return self.layouts.of_items(values)

    def over_items(self, values: Array, weights: Array) -> Array:
        """Return Σ_j values_ij weights_j for cells placed by `share_cells`."""

        def own(cells: tuple[Layout, Array], _: None, weights: Array) -> tuple[Array, tuple[()]]:
            return cells[0].over_items(cells[1], weights), ()

        return self._with(values).by_rows(own, None, weights)[0]

    def over_subjects(self, values: Array, weights: Array) -> Array:
        """Return Σ_i weights_i values_ij for cells placed by `share_cells`."""

        def own(cells: tuple[Layout, Array], weights: Array) -> tuple[tuple[()], Array]:
            return (), cells[0].over_subjects(cells[1], weights)

        return self._with(values).by_rows(own, weights)[1]

    def _with(self, values: Array) -> "RowShards":
        return replace(self, layouts=(self.layouts, values))


def share_rows(responses: Responses, mesh: Mesh) -> RowShards:
    """Place each device's shard of the rows on it."""
    n_devices = mesh.size
    n_rows = _rows_each(responses.n_subjects, n_devices)
    if isinstance(responses.cells, SparseCells):
        subject, item, successes, trials = _by_device(responses.cells.cells, n_rows, n_devices)
        sizes = (np.zeros((n_devices, n), np.int8) for n in (n_rows, responses.n_items))
        shares: Any = SparseLayout(successes, trials, subject, item, *sizes)  # type: ignore[arg-type]
    else:
        blocks = partial(in_blocks, n_blocks=n_devices, n_rows=n_rows, xp=np)
        shares = DenseLayout(*map(blocks, responses.cells.matrices()))
    return RowShards(_placed_shares(shares, mesh), _mesh_of_rows(mesh), responses.n_subjects)


def share_cells(values: Array, responses: Responses, mesh: Mesh) -> Array:
    """Place values of cells, in the order of a layout, on the devices of their rows."""
    array, n_devices = np.asarray(values), mesh.size
    n_rows = _rows_each(responses.n_subjects, n_devices)
    if isinstance(responses.cells, SparseCells):
        shares = _by_bounds(array, _bounds(responses.cells.cells, n_rows, n_devices), 0)
    else:
        shares = in_blocks(array, n_devices, n_rows, xp=np)
    return _placed_shares(shares, mesh)


def _placed_shares(shares: Any, mesh: Mesh) -> Any:
    """Place on each device the shard at its position along the first axis."""
    sharding = NamedSharding(_mesh_of_rows(mesh), Axes(_ROWS))
    return jax.tree.map(
        lambda x: jax.make_array_from_callback(x.shape, sharding, x.__getitem__), shares
    )


def place_rows(responses: Responses, mesh: Mesh | None) -> Layout | RowShards:
    """Place responses on the device, or on the devices of a mesh."""
    return layout_of(responses) if mesh is None else share_rows(responses, mesh)


def everywhere(mesh: Mesh) -> NamedSharding:
    """Return the sharding of arrays that are replicated on every device."""
    return NamedSharding(_mesh_of_rows(mesh), Axes())


def put_everywhere(tree: Tree, mesh: Mesh | None) -> Tree:
    """Replicate the first process's arrays on every device of a mesh.

    Results of processes on different hosts may differ in the last digit, but a chain's must not.
    """
    if mesh is None:
        return tree
    bits = jax.tree.map(to_bits, tree)
    if spans_processes(mesh):
        bits = multihost_utils.broadcast_one_to_all(bits)
    return jax.tree.map(from_bits, jax.device_put(bits, everywhere(mesh)), tree)


def spans_processes(mesh: Mesh | None) -> bool:
    """Return whether a mesh has devices of several processes."""
    return mesh is not None and len({device.process_index for device in mesh.devices.flat}) > 1


def _placed(device: Array, n_devices: int, rows: Array) -> Array:
    """Return one device's rows in an array for all devices, 0 elsewhere."""
    return jnp.zeros((n_devices, *rows.shape), rows.dtype).at[device].set(rows)


def _rows_each(n_subjects: int, n_devices: int) -> int:
    return -(-n_subjects // n_devices)


def _mesh_of_rows(mesh: Mesh) -> Mesh:
    return Mesh(mesh.devices.ravel(), (_ROWS,))


def _by_device(cells: CellList, n_rows: int, n_devices: int) -> CellList:
    """Return each device's cells, with subjects numbered from 0, padded to equal lengths."""
    bounds = _bounds(cells, n_rows, n_devices)
    subject = _by_bounds(cells.subject % n_rows, bounds, n_rows - 1)
    others = (cells.item, cells.successes, cells.trials)
    return CellList(subject, *(_by_bounds(values, bounds, 0) for values in others))


def _bounds(cells: CellList, n_rows: int, n_devices: int) -> NDArray[np.intp]:
    """Return the start of each device's cells, and the end of the last."""
    return np.searchsorted(cells.subject, n_rows * np.arange(n_devices + 1))


def _by_bounds(values: NDArray[Any], bounds: NDArray[np.intp], fill: int) -> NDArray[Any]:
    """Return each device's cells in a row, padded to equal lengths."""
    shares = np.full((len(bounds) - 1, int(np.diff(bounds).max())), fill, values.dtype)
    for share, first, last in zip(shares, bounds, bounds[1:], strict=False):
        share[: last - first] = values[first:last]
    return shares
