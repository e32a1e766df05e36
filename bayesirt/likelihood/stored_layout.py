"""The likelihood over cells that are left on disk, computed block by block."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from numpy.typing import NDArray

from bayesirt.data.stored_cells import StoredCells
from bayesirt.likelihood.cell_sums import (
    DenseLayout,
    Layout,
    SparseLayout,
    in_row_blocks,
    over_blocks,
)

_opened: WeakValueDictionary[int, StoredCells] = WeakValueDictionary()
_numbers = count()


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["number"],
    meta_fields=["shape", "n_blocks", "n_rows", "is_sparse", "most_cells", "kind"],
)
@dataclass(frozen=True)
class StoredLayout:
    """Blocks of subjects that are read from disk whenever they are needed.

    Compiled code depends only on the sizes of the data; the `number` that identifies them is passed
    at run time. So the code does not keep data alive, and data of equal sizes share it.
    """

    number: Int[Array, ""]  # Identifies the `StoredCells` in this process.
    # The following are those of the `StoredCells`.
    shape: tuple[int, int]
    n_blocks: int
    n_rows: int
    is_sparse: bool
    most_cells: int
    kind: type[np.signedinteger]

    def by_rows(
        self, function: Callable[..., tuple[Any, Any]], rows: Any, *others: Any
    ) -> tuple[Any, Any]:
        """Apply `function(layout, rows, *others)` block by block; sums are added up."""
        by_block = jax.tree.map(self._in_blocks, rows)

        def one_block(block: tuple[Array, Any]) -> tuple[Any, Any]:
            layout = in_row_blocks(self._fetch(block[0]))
            return layout.by_rows(function, block[1], *others)

        values, sums = over_blocks(one_block, (jnp.arange(self.n_blocks), by_block))
        return jax.tree.map(self._in_order, values), sums

    def _in_blocks(self, values: Array) -> Array:
        """Return values of subjects as (block, row, ...): subject i is row i // n_blocks."""
        missing = self.n_blocks * self.n_rows - len(values)
        padded = jnp.pad(values, ((0, missing), *((0, 0),) * (values.ndim - 1)))
        return padded.reshape(self.n_rows, self.n_blocks, *values.shape[1:]).swapaxes(0, 1)

    def _in_order(self, values: Array) -> Array:
        return values.swapaxes(0, 1).reshape(-1, *values.shape[2:])[: self.shape[0]]

    def _fetch(self, k: Array) -> Layout:
        """Read a block from within compiled code."""
        cells = (self.most_cells,) if self.is_sparse else (self.n_rows, self.shape[1])
        counts = [jax.ShapeDtypeStruct(cells, self.kind)] * 2
        positions = [jax.ShapeDtypeStruct(cells, np.int32)] * 2 if self.is_sparse else []
        arrays = jax.pure_callback(
            partial(_read_block, self.most_cells, self.kind),
            (*counts, *positions),
            self.number,
            k,
            vmap_method="sequential",
        )
        if not self.is_sparse:
            return DenseLayout(*arrays)
        sizes = (jnp.zeros(n, jnp.int8) for n in (self.n_rows, self.shape[1]))
        return SparseLayout(*arrays, *sizes)


def stored_layout_of(cells: StoredCells) -> StoredLayout:
    """Return the layout of cells on disk; it is valid as long as the `StoredCells` exist."""
    number = next(_numbers)
    _opened[number] = cells
    sizes = cells.n_blocks, cells.n_rows, cells.is_sparse, cells.most_cells, cells.kind
    return StoredLayout(jnp.array(number, jnp.int32), cells.shape, *sizes)


def _read_block(
    most_cells: int, kind: type[np.signedinteger], number: Array, k: Array
) -> tuple[NDArray[np.integer], ...]:
    """Return successes and trials of a block and, for lists of cells, their padded positions."""
    cells = _opened[int(number)]
    block = cells.block(int(k))
    if not cells.is_sparse:
        return tuple(x.astype(kind, copy=False) for x in block.matrices())
    listed = block.listed()
    missing = (0, most_cells - len(listed.item))
    # Padding has no trials and is in the last row, so that rows stay in order.
    subject = np.pad(listed.subject, missing, constant_values=cells.n_rows - 1)
    item = np.pad(listed.item, missing)
    counts = (np.pad(x.astype(kind), missing) for x in (listed.successes, listed.trials))
    return *counts, subject, item
