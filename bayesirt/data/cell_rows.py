"""Store cells that are given one per row, in any order, in a layout."""

from typing import NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.cells import (
    CellList,
    Cells,
    DenseCells,
    SparseCells,
    better_sparse,
    smallest_int,
    store_cells,
)
from bayesirt.data.score_values import Where
from bayesirt.errors import ResponseError

DUPLICATE_RULES = ("error", "trials", "first", "last")
_AT_ONCE = 1 << 20
"""Rows handled at a time, so that 64-bit positions are never held for all of them."""
_COUNT_BITS, _LARGEST_COUNT = 7, np.int8(127)
"""Bits and largest value of a count that a signed 8-bit integer holds."""


def fold_rows(
    shape: tuple[int, int],
    rows: CellList,
    rule: str,
    where: Where,
    *,
    latency: NDArray[np.float64] | None = None,
) -> tuple[Cells, NDArray[np.float64] | None]:
    """Store rows in the better layout, with each pair of subject and item once."""
    check_duplicate_rule(rule)
    if latency is None:
        placed = place_rows(shape, rows, sparse=better_sparse(shape, len(rows.trials)))
        if placed is not None:
            return placed, None
    table = as_table(rows)
    folded = fold_duplicates(table if latency is None else table.assign(x=latency), rule, where)
    cells = store_cells(shape, *(folded[c].to_numpy() for c in ("subject", "item", "y", "n")))
    return cells, None if latency is None else folded["x"].to_numpy()


def as_table(rows: CellList) -> pd.DataFrame:
    """Return rows as `fold_duplicates` takes them, with counts that do not overflow."""
    table = pd.DataFrame({"subject": rows.subject, "item": rows.item})
    return table.assign(y=rows.successes.astype(np.int64), n=rows.trials.astype(np.int64))


def place_rows(
    shape: tuple[int, int], rows: CellList, *, sparse: bool
) -> DenseCells | SparseCells | None:
    """Store rows in a layout, or return None if a pair of subject and item is duplicated."""
    return _ordered(shape, rows) if sparse else _scattered(shape, rows)


def _scattered(shape: tuple[int, int], rows: CellList) -> DenseCells | None:
    most = int(rows.trials.max(initial=1))
    # Single answers are scattered once, coded 1 (wrong) and 2 (right), as scattering is slowest.
    flat = [np.zeros(shape[0] * shape[1], smallest_int(most)) for _ in range(min(most, 2))]
    for start in range(0, len(rows.trials), _AT_ONCE):
        subject, item, successes, trials = (x[start : start + _AT_ONCE] for x in rows)
        cell = subject.astype(np.int64) * shape[1] + item
        for values, counts in zip(
            flat, (successes, trials) if most > 1 else (successes + 1,), strict=True
        ):
            values[cell] = counts
    if most == 1:
        flat = [flat[0] >> 1, np.minimum(flat[0], 1, out=flat[0])]
    dense = DenseCells(*(values.reshape(shape) for values in flat))
    return dense if dense.n_observed == len(rows.trials) else None


def _ordered(shape: tuple[int, int], rows: CellList) -> SparseCells | None:
    kind = smallest_int(int(rows.trials.max(initial=1)))
    kinds: tuple[type[np.signedinteger], ...] = (np.int32, np.int32, kind, kind)
    pair = rows.subject.astype(np.int64) * shape[1] + rows.item
    if not (pair[1:] > pair[:-1]).all():
        if kind is np.int8 and shape[0] * shape[1] < 1 << (63 - 2 * _COUNT_BITS):
            pair, rows = _sorted_together(shape[1], pair, rows)
        else:
            order = np.argsort(pair)
            pair, rows = pair[order], CellList(*(x[order] for x in rows))
        if (pair[1:] == pair[:-1]).any():
            return None
    cells = (x.astype(k, copy=False) for x, k in zip(rows, kinds, strict=True))
    return SparseCells(*shape, CellList(*cells))


def _sorted_together(
    n_items: int, pair: NDArray[np.int64], rows: CellList
) -> tuple[NDArray[np.int64], CellList]:
    """Return sorted pairs and their rows, by sorting pairs that hold the counts in their low bits.

    This is faster than computing the order of the pairs and reordering the rows.
    """
    pair <<= 2 * _COUNT_BITS
    pair |= rows.successes.astype(np.int64) << _COUNT_BITS
    pair |= rows.trials
    pair.sort()
    successes, trials = (
        (pair >> bits).astype(np.int8) & _LARGEST_COUNT for bits in (_COUNT_BITS, 0)
    )
    pair >>= 2 * _COUNT_BITS
    subject = pair // n_items
    return pair, CellList(subject, pair - subject * n_items, successes, trials)


def check_duplicate_rule(rule: str) -> None:
    """Refuse an unknown rule."""
    if rule not in DUPLICATE_RULES:
        raise ResponseError(
            f"`duplicates` must be one of {', '.join(DUPLICATE_RULES)}, got {rule!r}"
        )


def repeats(cells: pd.DataFrame) -> NDArray[np.bool_]:
    """Return whether each row repeats the subject and item of a row before it."""
    return cells.duplicated(["subject", "item"]).to_numpy()


def refuse_repeats(count: int, place: str) -> NoReturn:
    """Refuse rows that repeat a subject and item."""
    raise ResponseError(
        f"{count} rows repeat a subject and item, the first {place}; pass --duplicates trials if "
        f"they are repeated trials, or first or last to keep one"
    )


def fold_duplicates(cells: pd.DataFrame, rule: str, where: Where) -> pd.DataFrame:
    """Return each pair of subject and item once, ordered by subject, then by item."""
    check_duplicate_rule(rule)
    pair = ["subject", "item"]
    again = repeats(cells)
    if again.any():
        if rule == "error":
            refuse_repeats(int(again.sum()), where(int(cells.index[int(np.argmax(again))])))
        if rule == "trials":
            means = {"x": "mean"} if "x" in cells else {}
            cells = cells.groupby(pair, as_index=False).agg({"y": "sum", "n": "sum", **means})
        else:
            cells = cells.drop_duplicates(pair, keep="first" if rule == "first" else "last")
    return cells.sort_values(pair, kind="stable", ignore_index=True)
