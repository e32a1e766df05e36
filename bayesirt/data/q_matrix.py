"""Q-matrices: which abilities each item needs.

An unusable Q-matrix is refused when it is made; `QMatrix.findings` reports what makes abilities
hard to distinguish.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.names import check_names, counted, first_few, one_line

_MOST_NAMED = 5


@dataclass(frozen=True, eq=False, repr=False)
class QMatrix:
    """Which abilities each item needs.

    Built by `from_arrays`, or read by `bayesirt.data.readers.read_q_matrix`.

    Attributes
    ----------
    items, abilities : tuple of str
        Unique names.
    needs : bool array, shape (item, ability)
        True where the item needs the ability; each item needs at least one, and each ability is
        needed by at least one item.
    n_left_out : int
        Number of items that `for_items` has left out.

    Raises
    ------
    ResponseError
        For duplicated names, an item without abilities and an ability without items.

    Examples
    --------
    >>> QMatrix.from_arrays([[1, 0], [1, 1], [0, 1]])
    <QMatrix: 3 items x 2 abilities, 1 to 2 abilities per item>
    """

    items: tuple[str, ...]
    abilities: tuple[str, ...]
    needs: NDArray[np.bool_]
    n_left_out: int = 0

    def __post_init__(self) -> None:
        check_names(self.items, "item")
        check_names(self.abilities, "ability")
        if not (self.items and self.abilities):
            raise ResponseError("the Q-matrix is empty; name the abilities that each item needs")
        if self.needs.shape != (len(self.items), len(self.abilities)):
            raise ResponseError(
                f"the Q-matrix has shape {self.needs.shape}, but {len(self.items)} items and "
                f"{len(self.abilities)} abilities are named; give each item a row and each "
                f"ability a column"
            )
        needless, unneeded = _without_any(self.needs, 1), _without_any(self.needs, 0)
        if len(needless):
            raise ResponseError(
                f"no ability is named for {_named(self.items, needless, 'item')}; name "
                f"those needed, or leave the row out"
            )
        if len(unneeded):
            raise ResponseError(
                f"no item needs {_named(self.abilities, unneeded, 'ability')}; drop the column"
            )

    def __repr__(self) -> str:
        counts = self.needs.sum(1)
        return (
            f"<QMatrix: {self.n_items} items x {self.n_abilities} abilities, "
            f"{counts.min()} to {counts.max()} abilities per item>"
        )

    @classmethod
    def from_arrays(
        cls,
        needs: ArrayLike,
        items: Sequence[str] | None = None,
        abilities: Sequence[str] | None = None,
    ) -> "QMatrix":
        """Make a Q-matrix from an array.

        Parameters
        ----------
        needs : array, shape (item, ability)
            0 and 1, or False and True.
        items, abilities : sequence of str, optional
            Names; ``item 1`` and so on by default.

        Returns
        -------
        QMatrix

        Raises
        ------
        ResponseError
            At the first value that is neither 0 nor 1, and for an unusable Q-matrix.

        Examples
        --------
        >>> QMatrix.from_arrays([[1, 0], [0, 1]], abilities=["algebra", "logic"]).abilities
        ('algebra', 'logic')
        """
        values = np.asarray(needs)
        if values.ndim != 2 or not values.size:
            raise ResponseError(
                f"a Q-matrix has a row for each item and a column for each ability, got an array "
                f"of shape {values.shape}; give it both, and at least one of each"
            )
        names = [
            tuple(map(str, given)) if given is not None else _numbered(kind, n)
            for given, kind, n in zip(
                (items, abilities), ("item", "ability"), values.shape, strict=True
            )
        ]
        _check_counts(names, values.shape)
        return cls(names[0], names[1], _zeros_and_ones(values, *names))

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    @property
    def n_abilities(self) -> int:
        """Number of abilities."""
        return len(self.abilities)

    @property
    def n_loadings(self) -> int:
        """Number of ones, that is, of abilities needed, summed over items."""
        return int(self.needs.sum())

    @property
    def loadings(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Item and ability of each one, row by row, which is the order of the slopes."""
        item, ability = np.nonzero(self.needs)
        return item, ability

    @property
    def loading_names(self) -> tuple[str, ...]:
        """Name of each one, such as ``q7: algebra``, in the order of `loadings`."""
        pairs = zip(*self.loadings, strict=True)
        return tuple(f"{self.items[j]}: {self.abilities[k]}" for j, k in pairs)

    def coords(self) -> dict[str, Any]:
        """Return the coordinates of a Dataset over item, ability and loading."""
        item, ability = self.loadings
        return {
            "item": list(self.items),
            "ability": list(self.abilities),
            "ability_other": list(self.abilities),
            "loading": list(self.loading_names),
            "loading_item": ("loading", [self.items[j] for j in item]),
            "loading_ability": ("loading", [self.abilities[k] for k in ability]),
        }

    def as_lists(self) -> dict[str, Any]:
        """Return all abilities, and those of each item, as `read_q_matrix` takes them from JSON."""
        lists = {
            item: [self.abilities[k] for k in np.flatnonzero(row)]
            for item, row in zip(self.items, self.needs, strict=True)
        }
        return {"abilities": list(self.abilities), "items": lists}

    def for_items(self, items: Sequence[str], *, drop_unneeded: bool = False) -> "QMatrix":
        """Return the rows of some items, in their order.

        Parameters
        ----------
        items : sequence of str
            Names of items, such as those of the responses.
        drop_unneeded : bool
            Drop abilities that none of these items needs, instead of refusing them.

        Returns
        -------
        QMatrix
            Without the rows of other items, which `n_left_out` counts.

        Raises
        ------
        ResponseError
            For items without a row, and abilities that none of the items needs.

        Examples
        --------
        >>> q = QMatrix.from_arrays([[1, 0], [0, 1], [1, 1]])
        >>> q.for_items(["item 3", "item 1"]).needs.astype(int).tolist()
        [[1, 1], [1, 0]]
        """
        needs = self.needs[self._positions(items)]
        unneeded = _without_any(needs, 0)
        if len(unneeded) and not drop_unneeded:
            raise ResponseError(
                f"none of the responses' items needs "
                f"{_named(self.abilities, unneeded, 'ability')}; drop the column, or pass "
                f"drop_unneeded=True"
            )
        columns = np.setdiff1d(np.arange(self.n_abilities), unneeded)
        abilities = tuple(self.abilities[k] for k in columns)
        n_left_out = self.n_left_out + self.n_items - len(set(items))
        return QMatrix(tuple(items), abilities, needs[:, columns], n_left_out)

    def _positions(self, items: Sequence[str]) -> NDArray[np.intp]:
        positions = {name: k for k, name in enumerate(self.items)}
        unknown = np.flatnonzero([name not in positions for name in items])
        if len(unknown):
            raise ResponseError(
                f"the Q-matrix has no row for {_named(items, unknown, 'item')} of the responses; "
                f"add the rows, or leave these responses out"
            )
        return np.array([positions[name] for name in items], np.intp)

    def coverage(self, responses: Responses | None = None) -> pd.DataFrame:
        """Return how many items and responses each ability has.

        Parameters
        ----------
        responses : Responses, optional
            Count only the items of these responses; each needs a row.

        Returns
        -------
        DataFrame
            Indexed by ability: the number of items that need it and their share of all items.
            With responses, also the numbers of responses and of trials of these items.

        Raises
        ------
        ResponseError
            If an item of the responses has no row.

        References
        ----------
        Zhang et al. (2026), Table 3.

        Examples
        --------
        >>> QMatrix.from_arrays([[1, 0], [1, 1]]).coverage()["items"].tolist()
        [2, 1]
        """
        needs = self.needs if responses is None else self.needs[self._positions(responses.items)]
        counts = needs.sum(0)
        columns = {"items": counts, "share of items": counts / len(needs)}
        if responses is not None:
            totals = responses.cells.totals(0)
            columns["responses"] = totals.observed @ needs
            columns["trials"] = totals.trials @ needs
        index = pd.Index(self.abilities, name="ability", dtype=object)
        return pd.DataFrame(columns, index=index)

    def findings(self) -> list[str]:
        """Return what makes abilities hard to distinguish, one sentence per finding.

        Returns
        -------
        list of str
            Items left out, abilities with the same items, abilities never needed without another
            one, and columns that add up to others. Empty if there are none.

        Examples
        --------
        >>> for finding in QMatrix.from_arrays([[1, 0], [1, 1]]).findings():
        ...     print(finding)
        ability 'ability 2' is never needed without 'ability 1'; add items that need it alone
        """
        sentences = []
        if self.n_left_out:
            rows = counted(self.n_left_out, "row")
            sentences.append(f"left out {rows} of the Q-matrix for items without responses")
        groups = _equal_columns(self.needs)
        for group in groups:
            if len(group) > 1:
                sentences.append(
                    f"abilities {_quoted([self.abilities[k] for k in group])} are needed by the "
                    f"same items and cannot be distinguished; merge them, or add items that need "
                    f"only one"
                )
        first = np.array([group[0] for group in groups])
        different = self.needs[:, first]
        for k, others in zip(first, _always_beside(different), strict=True):
            if len(others):
                sentences.append(
                    f"ability {one_line(self.abilities[k])!r} is never needed without "
                    f"{_quoted([self.abilities[k] for k in first[others]])}; add items that need "
                    f"it alone"
                )
        rank = int(np.linalg.matrix_rank(different.astype(float)))
        if rank < len(first):
            sentences.append(
                f"the Q-matrix has rank {rank} for {len(first)} different abilities: columns add "
                f"up to others, so only the priors distinguish some abilities; add items that need "
                f"few abilities"
            )
        return sentences


def _without_any(needs: NDArray[np.bool_], axis: int) -> NDArray[np.intp]:
    """Return the positions of items (axis 1) or abilities (axis 0) without a single True."""
    return np.flatnonzero(needs.sum(axis) == 0)


def _equal_columns(needs: NDArray[np.bool_]) -> list[list[int]]:
    """Return the groups of equal columns, ordered by their first members."""
    groups: dict[bytes, list[int]] = {}
    for k, column in enumerate(needs.T):
        groups.setdefault(column.tobytes(), []).append(k)
    return list(groups.values())


def _always_beside(needs: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Return for each column the other columns that are True wherever it is."""
    together = needs.T.astype(np.int64) @ needs.astype(np.int64)
    implied = together == together.diagonal()[:, None]
    np.fill_diagonal(implied, False)
    return [np.flatnonzero(row) for row in implied]


def _zeros_and_ones(
    values: NDArray[np.generic], items: Sequence[str], abilities: Sequence[str]
) -> NDArray[np.bool_]:
    if values.dtype.kind not in "biuf":
        values = _NUMBER(values).astype(float)
        shown = "text or an empty cell"
    else:
        shown = ""
    wrong = (values != 0) & (values != 1)
    if wrong.any():
        item, ability = np.argwhere(wrong)[0]
        value = values[item, ability]
        got = shown if shown and np.isnan(value) else f"{value:g}"
        raise ResponseError(
            f"the Q-matrix must hold only 0 and 1, got {got} at item "
            f"{one_line(items[item])!r}, ability {one_line(abilities[ability])!r}; write 1 where "
            f"the item needs the ability and 0 where not"
        )
    return values == 1


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return np.nan


_NUMBER = np.frompyfunc(_number, 1, 1)


def _numbered(kind: str, n: int) -> tuple[str, ...]:
    return tuple(f"{kind} {k}" for k in range(1, n + 1))


def _check_counts(names: Sequence[Sequence[str]], shape: tuple[int, ...]) -> None:
    for given, n, kind in zip(names, shape, ("items", "abilities"), strict=True):
        if len(given) != n:
            raise ResponseError(
                f"the Q-matrix has {n} {kind}, but {len(given)} names are given; name each once"
            )


def _named(names: Sequence[str], which: NDArray[np.intp], kind: str) -> str:
    """Return chosen names for a sentence, such as ``ability 'a'`` or ``items 'x', 'y'``."""
    chosen = [names[int(k)] for k in which]
    plural = {"item": "items", "ability": "abilities"}[kind]
    return f"{kind if len(chosen) == 1 else plural} {_quoted(chosen)}"


def _quoted(names: Sequence[str]) -> str:
    return first_few([repr(one_line(name, 30)) for name in names], _MOST_NAMED)
