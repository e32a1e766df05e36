"""Responses in either layout keep their contract, or refuse the input."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_data import as_sparse

from bayesirt.data.cells import CellList, Cells, DenseCells, SparseCells, smallest_int, store_cells
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError

SUCCESSES = np.array([[2, 0, 0, 1], [0, 3, 0, 0], [1, 0, 4, 0]], np.int8)
TRIALS = np.array([[2, 0, 3, 1], [1, 3, 0, 0], [1, 0, 5, 0]], np.int8)
NAMES = {"subjects": ["a", "b", "c"], "items": ["p", "q", "r", "s"]}


def dense() -> DenseCells:
    return DenseCells(SUCCESSES, TRIALS)


def sparse() -> SparseCells:
    return SparseCells(3, 4, dense().listed())


def with_everything(cells: Cells) -> Responses:
    return Responses(
        ("a", "b", "c"),
        ("p", "q", "r", "s"),
        cells,
        latency=np.array([5, np.nan, 2, 1, 9, 4, 3]),
        item_metadata=pd.DataFrame({"topic": [*"xyxy"], "level": range(4)}, index=[*"pqrs"]),
        q_matrix=pd.DataFrame({"k1": [1, 0, 1, 1]}, index=[*"pqrs"]),
    )


def long(*rows: tuple[object, ...], columns: str = "subject item score") -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=columns.split())


@pytest.fixture(params=[dense, sparse])
def responses(request: pytest.FixtureRequest) -> Responses:
    return with_everything(request.param())


def test_cells_are_listed_by_subject_then_item(responses):
    cells = responses.cells.listed()
    assert cells.subject.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert cells.item.tolist() == [0, 2, 3, 0, 1, 0, 2]
    assert cells.successes.tolist() == [2, 0, 1, 0, 3, 1, 4]
    assert cells.trials.tolist() == [2, 3, 1, 1, 3, 1, 5]
    assert {c.dtype for c in cells} == {np.dtype("int32"), np.dtype("int8")}


def test_matrices_are_those_of_the_data(responses):
    for found, expected in zip(responses.cells.matrices(), (SUCCESSES, TRIALS), strict=True):
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("axis", [0, 1])
def test_totals_sum_over_an_axis(responses, axis):
    expected = SUCCESSES.sum(axis), TRIALS.sum(axis), (TRIALS > 0).sum(axis)
    for found, total in zip(responses.cells.totals(axis), expected, strict=True):
        np.testing.assert_array_equal(found, total.astype(np.int64), strict=True)


def test_totals_of_many_small_numbers_do_not_wrap():
    ones = np.ones((2, 1000), np.int8)
    cells = DenseCells(ones, ones)
    assert cells.totals(1).successes.tolist() == [1000, 1000]
    assert SparseCells(2, 1000, cells.listed()).totals(1).trials.tolist() == [1000, 1000]


def test_counts_and_coverage(responses):
    assert (responses.n_subjects, responses.n_items, responses.n_observed) == (3, 4, 7)
    assert responses.coverage == 7 / 12
    assert repr(responses) == (
        "<Responses: 3 subjects x 4 items, 7 responses (58% observed), 69% right>"
    )


def test_summary_is_not_rounded(responses):
    assert responses.summary["value"].to_dict() == {
        "subjects": 3,
        "items": 4,
        "responses": 7,
        "trials": 16,
        "coverage": 7 / 12,
        "accuracy": 11 / 16,
        "lowest accuracy of a subject": 3 / 6,
        "highest accuracy of a subject": 5 / 6,
        "fewest items of a subject": 2,
        "fewest subjects of an item": 1,
        "connected groups": 1,
    }


def test_to_long_has_a_row_a_cell(responses):
    table = responses.to_long()
    assert list(table.columns) == [
        "subject", "item", "successes", "trials", "latency", "topic", "level",
    ]  # fmt: skip
    assert table.iloc[4].to_dict() == {
        "subject": "b", "item": "q", "successes": 3, "trials": 3, "latency": 9, "topic": "y",
        "level": 1,
    }  # fmt: skip
    assert "".join(table["subject"] + table["item"]) == "aparasbpbqcpcr"


def test_from_long_takes_what_to_long_gives(responses):
    again = Responses.from_long(
        responses.to_long().sample(frac=1, random_state=0).sort_values("item"),
        score="successes",
        trials="trials",
        latency="latency",
        item_metadata=["topic", "level"],
    )
    columns = ["subject", "item"]
    pd.testing.assert_frame_equal(
        again.to_long().sort_values(columns, ignore_index=True),
        responses.to_long().sort_values(columns, ignore_index=True),
    )
    assert again.item_metadata.loc[[*"pqrs"]].equals(responses.item_metadata)


def test_select_keeps_order_and_everything(responses):
    part = responses.select(np.array([2, 0]), np.array([2, 3, 0]))
    assert (part.subjects, part.items) == (("c", "a"), ("r", "s", "p"))
    assert part.cells.matrices()[0].tolist() == [[4, 0, 1], [0, 1, 2]]
    assert part.cells.matrices()[1].tolist() == [[5, 0, 1], [3, 1, 2]]
    np.testing.assert_array_equal(part.latency, [3, 4, np.nan, 2, 5])
    assert part.item_metadata["topic"].tolist() == ["x", "y", "x"]
    assert part.q_matrix["k1"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("subjects", "items", "said"),
    [
        ([0], [0, 1], "at least 2 subjects, got 1"),
        ([0, 1], [0], "at least 2 items, got 1"),
        ([0, 1], [2, 3], "subject 'b' has no response at all"),
        ([0, 2], [0, 1], r"item 'q' has no response at all \(1 such items\)"),
        ([0, 0], [0, 1], "subject 'a' appears 2 times"),
    ],
)
def test_select_refuses_what_cannot_be_ranked(responses, subjects, items, said):
    with pytest.raises(ResponseError, match=said):
        responses.select(np.array(subjects), np.array(items))


@pytest.mark.parametrize(
    ("matrix", "groups"),
    [
        ([[1, 0], [0, 1]], [([0, 1], [0, 1])]),
        ([[1, np.nan], [np.nan, 1]], [([0], [0]), ([1], [1])]),
        (
            [[np.nan, 1, np.nan], [0, np.nan, 1], [np.nan, 1, np.nan], [np.nan, 1, np.nan]],
            [([0, 2, 3], [1]), ([1], [0, 2])],
        ),
        ([[1, np.nan], [1, 0], [np.nan, 0]], [([0, 1, 2], [0, 1])]),
    ],
)
@pytest.mark.parametrize("layout", [DenseCells, SparseCells])
def test_components_are_what_responses_connect(matrix, groups, layout):
    responses = Responses.from_arrays(matrix)
    if layout is SparseCells:
        responses = as_sparse(responses)
    assert [(s.tolist(), i.tolist()) for s, i in responses.components()] == groups


@pytest.mark.parametrize(
    ("largest", "kind"),
    [
        (0, np.int8), (127, np.int8), (128, np.int16), (2**15 - 1, np.int16), (2**15, np.int32),
        (2**31 - 1, np.int32), (2**31, np.int64), (2**63 - 1, np.int64),
    ],
)  # fmt: skip
def test_the_smallest_type_that_holds_a_number(largest, kind):
    assert smallest_int(largest) is kind


@pytest.mark.parametrize(
    ("shape", "observed", "layout"),
    [
        ((1000, 1000), 99_999, SparseCells),
        ((1000, 1000), 100_000, DenseCells),
        ((999, 1000), 2000, DenseCells),
    ],
)
def test_few_of_many_cells_are_kept_sparse(shape, observed, layout):
    subject, item = np.divmod(np.arange(observed), shape[1])
    ones = np.ones(observed, np.int64)
    cells = store_cells(shape, subject, item, ones, 200 * ones)
    assert type(cells) is layout
    assert (cells.shape, cells.n_observed) == (shape, observed)
    assert cells.listed().trials.dtype == np.int16
    assert cells.listed().successes.dtype == np.int16


def test_from_arrays_takes_answers_and_nan():
    responses = Responses.from_arrays([[True, False, np.nan], [0, 1, 1]])
    assert responses.cells.matrices()[0].tolist() == [[1, 0, 0], [0, 1, 1]]
    assert responses.cells.matrices()[1].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert responses.subjects == ("subject 1", "subject 2")
    assert responses.items == ("item 1", "item 2", "item 3")
    assert responses.latency is None
    assert responses.item_metadata.shape == (3, 0)


def test_from_arrays_takes_trials_and_names():
    given = np.where(TRIALS > 0, SUCCESSES, np.nan)
    responses = Responses.from_arrays(given, TRIALS, **NAMES)
    assert responses.subjects == ("a", "b", "c")
    np.testing.assert_array_equal(responses.cells.matrices(), [SUCCESSES, TRIALS])


@pytest.mark.parametrize(
    ("successes", "trials", "names", "said"),
    [
        ([1, 0], None, {}, "must be a matrix of subjects x items, got 1 dimensions"),
        ([[1, 0], [1]], None, {}, "`successes` must be a matrix of numbers"),
        ([["a"]], None, {}, "`successes` must be a matrix of numbers"),
        ([[1, 0], [0, 2]], None, {}, "`successes` must be 0 or 1, .* got 2 at subject 'subject 2'"),
        ([[1, 0], [0, np.inf]], None, {}, "finite number, got 'inf' at subject 'subject 2', item"),
        ([[1, 0], [0, 1]], [[1, 1]], {}, r"`trials` has shape \(1, 2\), `successes` \(2, 2\)"),
        ([[1, 0], [0, 1]], [[1, 1], [1, np.nan]], {}, "`trials` is missing"),
        ([[1, 0], [0, np.nan]], [[1, 1], [1, 1]], {}, "`successes` is missing"),
        ([[3, 0], [0, 1]], [[2, 1], [1, 1]], {}, "`successes` is above `trials`: 3 of 2"),
        ([[1, 0], [0, 1]], None, {"items": ["p"]}, "2 items in the data, but 1 names"),
        ([[1, 0], [0, 1]], None, {"items": ["p", "p"]}, "item 'p' appears 2 times"),
        ([[1, 0], [np.nan, np.nan]], None, {}, "subject 'subject 2' has no response at all"),
        ([[1, np.nan], [0, np.nan]], None, {}, "item 'item 2' has no response at all"),
        ([[1], [0]], None, {}, "at least 2 items, got 1"),
        (np.zeros((0, 0)), None, {}, "at least 2 subjects, got 0"),
        (np.full((2, 2), np.nan), None, {}, r"no response at all \(2 such subjects\)"),
    ],
)
def test_from_arrays_refuses(successes, trials, names, said):
    with pytest.raises(ResponseError, match=said):
        Responses.from_arrays(successes, trials, **names)


@pytest.mark.parametrize("nothing", ["", "NA", None, np.nan, pd.NA])
def test_from_wide_leaves_out_what_was_not_observed(nothing):
    frame = pd.DataFrame({"p": ["1", nothing], 7: [0, True]}, index=["a", 1], dtype=object)
    responses = Responses.from_wide(frame)
    assert (responses.subjects, responses.items) == (("a", "1"), ("p", "7"))
    assert responses.cells.matrices()[0].tolist() == [[1, 0], [0, 1]]
    assert responses.cells.matrices()[1].tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame([[1, 0], [0, 1]], index=["a", "a"]), "subject 'a' appears 2 times"),
        (pd.DataFrame([[1, 0], [0, 1]], columns=["p", "p"]), "item 'p' appears 2 times"),
        (pd.DataFrame([[1, 0], [0, 5]], columns=["p", "q"]), "got 5 at subject '1', item 'q'"),
        (pd.DataFrame([[1, 0], [0, "null"]]), r"missing \('null'\) at subject '1', item '1'"),
        (pd.DataFrame(index=["a", "b"]), "at least 2 items, got 0"),
    ],
)
def test_from_wide_refuses(frame, said):
    with pytest.raises(ResponseError, match=said):
        Responses.from_wide(frame)


def test_names_stand_in_order_of_appearance():
    frame = long(("z", "q", 1), ("a", "p", 0), ("z", "p", 1)).set_index(pd.Index([5, 5, 1]))
    responses = Responses.from_long(frame)
    assert (responses.subjects, responses.items) == (("z", "a"), ("q", "p"))
    assert responses.cells.matrices()[0].tolist() == [[1, 1], [0, 0]]
    assert responses.cells.matrices()[1].tolist() == [[1, 1], [0, 1]]


REPEATED = long(
    ("a", "p", 1, 2), ("a", "q", 0, 4), ("b", "p", 0, 0), ("a", "p", 0, 6), ("b", "q", 1, None),
    ("a", "p", 0, 1),
    columns="subject item score tokens",
)  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "successes", "trials", "latency"),
    [
        ("trials", [[1, 0], [0, 1]], [[3, 1], [1, 1]], [3, 4, np.nan, np.nan]),
        ("first", [[1, 0], [0, 1]], [[1, 1], [1, 1]], [2, 4, np.nan, np.nan]),
        ("last", [[0, 0], [0, 1]], [[1, 1], [1, 1]], [1, 4, np.nan, np.nan]),
    ],
)
def test_rows_that_repeat_follow_the_rule(rule, successes, trials, latency):
    responses = Responses.from_long(REPEATED, latency="tokens", duplicates=rule)
    np.testing.assert_array_equal(responses.cells.matrices(), [successes, trials])
    np.testing.assert_array_equal(responses.latency, latency)


def test_rows_that_repeat_are_counted_and_the_first_named():
    with pytest.raises(ResponseError, match=r"^2 rows repeat .* at subject 'a', item 'p'; pass"):
        Responses.from_long(REPEATED)
    with pytest.raises(ResponseError, match=r"must be one of error, trials, .*, got 'mean'"):
        Responses.from_long(REPEATED, duplicates="mean")


def test_a_cell_without_trials_is_no_cell():
    frame = long(
        ("a", "p", 1, 1), ("a", "q", 1, 2), ("b", "p", 0, 2), ("b", "p", 0, 0), ("b", "q", 0, 0),
        columns="subject item successes n",
    )  # fmt: skip
    responses = Responses.from_long(frame, score="successes", trials="n")
    assert responses.cells.matrices()[1].tolist() == [[1, 2], [2, 0]]


@pytest.mark.parametrize("missing", [None, np.nan, "", "NA", "nan", 0, "0.0"])
def test_latency_may_be_missing_or_zero(missing):
    values = ["7", missing, 2.5, 1]
    frame = long(("a", "p", 1), ("a", "q", 0), ("b", "p", 0), ("b", "q", 1)).assign(
        time=pd.Series(values, dtype=object)
    )
    latency = Responses.from_long(frame, latency="time").latency
    np.testing.assert_array_equal(latency, [7, np.nan, 2.5, 1])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (-1, "`time` must not be negative, got -1 at subject 'a', item 'q'"),
        ("soon", "`time` must be a finite number, got 'soon' at subject 'a', item 'q'; rename"),
        (np.inf, "`time` must be a finite number, got 'inf' at subject 'a', item 'q'"),
    ],
)
def test_latency_is_a_length(value, said):
    frame = long(("a", "p", 1, None), ("a", "q", 0, value), columns="subject item score time")
    with pytest.raises(ResponseError, match=said):
        Responses.from_long(frame, latency="time")


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("subject item mark", {}, "^no column `score`; the columns are subject, item, mark$"),
        ("subject item score", {"latency": "t"}, "no column `t`"),
        ("subject item score", {"item_metadata": ["topic"]}, "no column `topic`"),
        ("subject score score", {"item": "subject"}, "the column `score` is duplicated"),
        ("model item score", {"subject": "model", "item_metadata": ["score"]}, "`score` differs"),
    ],
)
def test_columns_must_be_there_once(columns, options, said):
    frame = long(("a", "p", 1), ("a", "q", 0), ("b", "p", 0), ("b", "q", 1), columns=columns)
    with pytest.raises(ResponseError, match=said):
        Responses.from_long(frame, **options)


def test_item_metadata_must_not_vary_within_an_item():
    frame = long(
        ("a", "p", 1, "x"), ("a", "q", 0, None), ("b", "q", 0, np.nan), ("b", "p", 0, "y"),
        columns="subject item score topic",
    )  # fmt: skip
    with pytest.raises(ResponseError, match="`topic` differs between the rows of item 'p'; leave"):
        Responses.from_long(frame, item_metadata=["topic"])
    steady = Responses.from_long(frame.assign(topic=[1, 2, 2, 1]), item_metadata=["topic"])
    assert steady.item_metadata["topic"].to_dict() == {"p": 1, "q": 2}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"subjects": ("a", "b")},
            r"2 subjects x 4 items are named, but the data have shape \(3, 4\)",
        ),
        ({"item_metadata": pd.DataFrame({"t": [1]}, ["p"])}, "item metadata must have one row for"),
        ({"item_metadata": pd.DataFrame({"t": range(4)}, [*"qprs"])}, "in their order"),
        ({"item_metadata": pd.DataFrame({"item": [1]}, ["p"])}, "cannot be named 'item'"),
        ({"q_matrix": pd.DataFrame({"k": [1, 0]}, ["p", "q"])}, "Q-matrix must have one row for"),
        ({"q_matrix": pd.DataFrame({"k": range(4)}, [*"pqrs"])}, "Q-matrix must hold only 0 and 1"),
        ({"cells": DenseCells(SUCCESSES, TRIALS * [1, 1, 1, 0])}, "item 's' has no response"),
        ({"cells": SparseCells(3, 4, CellList(*(c[:5] for c in dense().listed())))}, "'c' has no"),
    ],
)
def test_what_is_promised_is_checked(changes, said):
    with pytest.raises(ResponseError, match=said):
        replace(with_everything(dense()), **changes)


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda y: Responses.from_arrays(y), 10),
        (lambda y: Responses.from_arrays(y.astype(bool)), 10),
        (lambda y: Responses.from_arrays(y, np.ones_like(y)), 10),
        (lambda y: Responses.from_wide(pd.DataFrame(y)), 10),
        (lambda y: Responses.from_long(as_rows(y)), 60),
    ],
    ids=["answers", "booleans", "counts", "wide", "long"],
)
def test_clean_data_take_few_bytes_a_cell(make, most):
    y = np.random.default_rng(0).integers(0, 2, (400, 500), dtype=np.int8)
    tracemalloc.start()
    responses = make(y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(responses.cells.matrices()[0], y)
    assert peak < most * y.size


def as_rows(y: np.ndarray) -> pd.DataFrame:
    subject, item = (x.ravel() for x in np.indices(y.shape, np.int16))
    return pd.DataFrame({"subject": subject, "item": item, "score": y.ravel()})


WIDE = np.array([[1, 0, np.nan], [0, np.nan, 1], [1, 1, 0]])


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(WIDE),
        pd.DataFrame(WIDE).astype("Int8"),
        pd.DataFrame(WIDE).astype(object),
        pd.DataFrame(WIDE).astype("Int8").astype("string"),
        pd.DataFrame(WIDE).map(lambda v: "NA" if np.isnan(v) else f" {v:g} "),
        pd.DataFrame(WIDE).map(lambda v: "" if np.isnan(v) else str(bool(v))),
        pd.DataFrame(WIDE).map(lambda v: None if np.isnan(v) else bool(v)),
    ],
    ids=["floats", "nullable", "objects", "text of pandas", "text", "words", "booleans"],
)
@pytest.mark.parametrize("columns_at_once", [1, 100])
def test_wide_tables_of_every_type_are_counted(table, columns_at_once, monkeypatch):
    monkeypatch.setattr("bayesirt.data.wide_tables._AT_ONCE", 3 * columns_at_once)
    monkeypatch.setattr(Responses, "_from_rows", None)
    successes, trials = Responses.from_wide(table).cells.matrices()
    np.testing.assert_array_equal(np.where(trials, successes, np.nan), WIDE)


def test_clean_matrices_of_few_answers_are_kept_sparse(monkeypatch):
    monkeypatch.setattr("bayesirt.data.cells._SPARSE_FROM", 9)
    monkeypatch.setattr("bayesirt.data.cells._SPARSE_BELOW", 0.8)
    cells = Responses.from_arrays(WIDE).cells
    assert isinstance(cells, SparseCells)
    successes, trials = cells.matrices()
    np.testing.assert_array_equal(np.where(trials, successes, np.nan), WIDE)


@pytest.mark.parametrize("names", [["7", "07", "7"], [7, 0, 7]])
@pytest.mark.parametrize("kind", [None, "category", object])
def test_names_of_every_type_are_numbered(names, kind):
    column = pd.Series([*names, names[0]])
    if kind:
        column = column.astype(kind)
    frame = pd.DataFrame({"subject": column, "item": [*"ppqr"], "score": [1, 0, 1, 1]})
    responses = Responses.from_long(frame)
    assert responses.subjects == (str(names[0]), str(names[1]))
