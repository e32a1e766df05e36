"""Columns whose values are numbered as rows are read: names, and metadata of items."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayesirt.data.table_columns import refuse_nameless

_UNSEEN = -1


class NumberedValues:
    """Values numbered in order of appearance, across the dictionaries of all parts of a file."""

    def __init__(self, value_of: Callable[[Any], Hashable], *, whole: bool = False) -> None:
        self.known: dict[Any, int] = {}
        self._value_of, self._whole = value_of, whole
        self._dictionary: pa.Array | None = None
        self._number = np.empty(0, np.int32)

    def numbers(self, column: pa.Array) -> NDArray[np.int32]:
        """Return the number of each row's value; new values are added to the known ones."""
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes = column.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
        # Most row groups repeat the previous dictionary.
        if self._dictionary is None or not column.dictionary.equals(self._dictionary):
            self._dictionary = column.dictionary
            self._number = np.full(len(column.dictionary) + 1, _UNSEEN, np.int32)  # Nulls are last.
            if self._whole:
                self._add(np.arange(len(column.dictionary)))
        numbers = self._number[codes]
        if len(numbers) and numbers.min() == _UNSEEN:
            self._add(_by_appearance(codes[numbers == _UNSEEN], len(self._number)))
            numbers = self._number[codes]
        return numbers

    def _add(self, codes: NDArray[np.integer]) -> None:
        assert self._dictionary is not None
        missing = codes == len(self._dictionary)
        values = self._dictionary.take(pa.array(codes, mask=missing)).to_pylist()
        known = self.known
        self._number[codes] = [known.setdefault(self._value_of(v), len(known)) for v in values]


def _by_appearance(codes: NDArray[np.integer], n_codes: int) -> NDArray[np.intp]:
    """Return the distinct codes in order of first appearance; -1 becomes the largest code."""
    first = np.full(n_codes, len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # Assigned in reverse, so the first row wins.
    distinct = np.flatnonzero(first < len(codes))
    return distinct[np.argsort(first[distinct])]


def can_be_numbered(kind: pa.DataType) -> bool:
    """Return whether values of this type can be numbered; lists, for example, cannot.

    >>> can_be_numbered(pa.float64()), can_be_numbered(pa.list_(pa.string()))
    (True, False)
    """
    try:
        NumberedValues(str).numbers(pa.nulls(1, kind))
    except pa.ArrowException:
        return False
    return True


class NumberedNames(NumberedValues):
    """Names numbered in order of appearance; other values become text as in Python."""

    def __init__(self, kind: str, *, whole: bool = False) -> None:
        super().__init__(lambda value: "" if value is None else str(value), whole=whole)
        self._kind = kind

    def positions(self, column: pa.Array, n_before: int) -> NDArray[np.int32]:
        """Return the position of each row's name."""
        numbers = self.numbers(column)
        nameless = numbers == self.known[""] if "" in self.known else np.zeros(1, bool)
        if nameless.any():
            refuse_nameless(self._kind, n_before + int(np.argmax(nameless)))
        return numbers

    def name(self, position: int) -> str:
        """Return the name at a position."""
        return str(list(self.known)[position])


class ItemValues:
    """A column that describes items, reduced from one value per row to one per item."""

    def __init__(self) -> None:
        # NaN counts as missing, as it would never equal a known value.
        self._values = NumberedValues(lambda value: value if value == value else None)
        self._of_item = np.empty(0, np.int32)
        self.varying: int | None = None

    def add(self, column: pa.Array, item: NDArray[np.integer], n_items: int) -> None:
        """Add the values of some rows."""
        if self.varying is not None:
            return
        numbers = self._values.numbers(column)
        more = np.full(n_items - len(self._of_item), _UNSEEN, np.int32)
        self._of_item = np.append(self._of_item, more)
        stored = self._of_item[item]
        if len(stored) and stored.min() == _UNSEEN:
            new = stored == _UNSEEN
            self._of_item[item[new][::-1]] = numbers[new][::-1]
            stored = self._of_item[item]
        differs = stored != numbers
        if differs.any():
            self.varying = int(item[np.argmax(differs)])

    def of_items(self, kind: pa.DataType) -> pa.DictionaryArray:
        """Return the value of each item."""
        values = pa.array(list(self._values.known), kind)
        return pa.DictionaryArray.from_arrays(
            pa.array(self._of_item, mask=self._of_item == _UNSEEN), values
        )
