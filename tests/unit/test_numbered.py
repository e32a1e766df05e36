"""Values of columns, numbered part by part as if the column had been read whole."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bayesirt.data.readers.numbered import ItemValues, NumberedNames, NumberedValues
from bayesirt.errors import ResponseError


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("encoded", [True, False])
def test_numbers_are_those_of_the_whole_column(seed: int, encoded: bool):
    rng = np.random.default_rng(seed)
    values = [None if k == 7 else f"v{k}" for k in rng.integers(0, 30, 400)]
    parts = [pa.array(part.tolist(), pa.string()) for part in np.array_split(values, 9)]
    numbered = NumberedValues(str)
    found = [numbered.numbers(part.dictionary_encode() if encoded else part) for part in parts]
    codes, names = pd.factorize(np.array([str(value) for value in values], object))
    np.testing.assert_array_equal(np.concatenate(found), codes)
    assert list(numbered.known) == names.tolist()


def test_a_dictionary_that_is_repeated_may_be_larger_than_what_rows_name():
    known = pa.array(["a", "b", "c"])
    parts = [pa.DictionaryArray.from_arrays(pa.array(k, pa.int8()), known) for k in ([2], [0, 2])]
    for whole, expected in ((False, [[0], [1, 0]]), (True, [[2], [0, 2]])):
        numbered = NumberedValues(str, whole=whole)
        assert [numbered.numbers(part).tolist() for part in parts] == expected
        assert list(numbered.known) == (["a", "b", "c"] if whole else ["c", "a"])


@pytest.mark.parametrize("nameless", [None, ""])
def test_the_first_row_without_a_name_is_told(nameless: str | None):
    names = NumberedNames("item")
    names.positions(pa.array(["a", "b"]), 0)
    with pytest.raises(ResponseError, match=r"^the item's name is missing in data row 4;"):
        names.positions(pa.array(["a", nameless, "c", nameless]), 2)


def test_an_item_that_varies_is_found_whether_in_one_part_or_in_two():
    once, twice = ItemValues(), ItemValues()
    once.add(pa.array([1.0, 2.0, 2.0, 3.0]), np.array([0, 1, 1, 0]), 2)
    assert once.varying == 0
    twice.add(pa.array([1.0, np.nan]), np.array([0, 1]), 2)
    twice.add(pa.array([5.0, None]), np.array([2, 1]), 3)
    assert twice.varying is None  # a NaN is a gap
    assert twice.of_items(pa.float64()).to_pylist() == [1.0, None, 5.0]
    twice.add(pa.array([6.0]), np.array([2]), 3)
    assert twice.varying == 2
