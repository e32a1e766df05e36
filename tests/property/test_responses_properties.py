"""Properties of responses with any names, order and layout."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_data import as_sparse
from unit.test_names import HOSTILE, SCORES, WRITERS

from bayesirt.data.readers import read_responses
from bayesirt.data.responses import Responses

steady = settings(deadline=None, derandomize=True, max_examples=50)

NAMES = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8
)


@st.composite
def tables(draw: st.DrawFn, most_trials: int = 4, names: st.SearchStrategy[str] = NAMES):
    """Draw names, successes and trials, with a response in each row and column."""
    shape = draw(st.integers(2, 5)), draw(st.integers(2, 5))
    sides = [draw(st.lists(names, min_size=n, max_size=n, unique=True)) for n in shape]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    trials = rng.integers(0, most_trials + 1, shape)
    trials[:, 0] += trials.sum(1) == 0
    trials[0] += trials.sum(0) == 0
    return rng.binomial(trials, 0.5), trials, *sides


def as_responses(table) -> Responses:
    successes, trials, subjects, items = table
    return Responses.from_arrays(successes, trials, subjects=subjects, items=items)


def contents(responses: Responses) -> dict[tuple[str, str], tuple[int, int]]:
    """Return successes and trials by pairs of names."""
    table = responses.to_long()
    pairs = zip(table["subject"], table["item"], strict=True)
    counts = zip(table["successes"].tolist(), table["trials"].tolist(), strict=True)
    return dict(zip(pairs, counts, strict=True))


@steady
@given(tables(), st.randoms(use_true_random=False))
def test_from_long_undoes_to_long_in_any_order(table, random):
    responses = as_responses(table)
    order = list(range(responses.n_observed))
    random.shuffle(order)
    again = Responses.from_long(responses.to_long().iloc[order], score="successes", trials="trials")
    assert contents(again) == contents(responses)
    assert set(again.subjects) == set(responses.subjects)


@steady
@given(tables(), st.data())
def test_relabelling_permutes(table, data):
    successes, trials, subjects, items = table
    rows = data.draw(st.permutations(range(len(subjects))))
    columns = data.draw(st.permutations(range(len(items))))
    responses = as_responses(table)
    permuted = responses.select(np.array(rows), np.array(columns))
    assert permuted.subjects == tuple(subjects[i] for i in rows)
    for found, matrix in zip(permuted.cells.matrices(), (successes, trials), strict=True):
        np.testing.assert_array_equal(found, matrix[np.ix_(rows, columns)])
    for axis, order in ((1, rows), (0, columns)):
        for found, total in zip(
            permuted.cells.totals(axis), responses.cells.totals(axis), strict=True
        ):
            np.testing.assert_array_equal(found, total[order])
    assert contents(permuted) == contents(responses)
    assert len(permuted.components()) == len(responses.components())


@steady
@given(tables())
def test_dense_and_sparse_are_equal(table):
    dense = as_responses(table)
    sparse = as_sparse(dense)
    for axis in (0, 1):
        for one, other in zip(dense.cells.totals(axis), sparse.cells.totals(axis), strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
    for one, other in zip(dense.cells.matrices(), sparse.cells.matrices(), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    pd.testing.assert_frame_equal(dense.to_long(), sparse.to_long())
    pd.testing.assert_frame_equal(dense.summary, sparse.summary)
    assert repr(dense) == repr(sparse)


@steady
@given(tables(), st.randoms(use_true_random=False))
def test_trials_are_repeated_rows(table, random):
    responses = as_responses(table)
    rows = [
        {"subject": subject, "item": item, "score": int(k < right)}
        for (subject, item), (right, of) in contents(responses).items()
        for k in range(of)
    ]
    random.shuffle(rows)
    repeated = Responses.from_long(pd.DataFrame(rows), duplicates="trials")
    assert contents(repeated) == contents(responses)


@steady
@given(tables())
def test_deleting_a_cell_equals_masking_it(table):
    successes, trials, subjects, items = table
    row, column = np.divmod(np.arange(trials.size), trials.shape[1])
    frame = pd.DataFrame(
        {
            "subject": np.array(subjects, object)[row],
            "item": np.array(items, object)[column],
            "successes": successes.ravel(),
            "trials": trials.ravel(),
        }
    )
    masked = Responses.from_long(frame, score="successes", trials="trials")
    deleted = Responses.from_long(frame[frame["trials"] > 0], score="successes", trials="trials")
    assert contents(masked) == contents(deleted)


@steady
@given(tables(most_trials=1))
def test_components_part_the_cells(table):
    responses = as_responses(table)
    parts = responses.components()
    assert sorted(np.concatenate([s for s, _ in parts]).tolist()) == [*range(len(table[2]))]
    assert sorted(np.concatenate([i for _, i in parts]).tolist()) == [*range(len(table[3]))]
    inside = sum(int((table[1][np.ix_(s, i)] > 0).sum()) for s, i in parts)
    assert inside == responses.n_observed
    assert [len(s) for s, _ in parts] == sorted((len(s) for s, _ in parts), reverse=True)


OF_HOSTILE = (SCORES, np.ones_like(SCORES), HOSTILE, HOSTILE)


@pytest.mark.parametrize("turned", [None, False, True], ids=["long", "wide", "items in rows"])
@pytest.mark.parametrize("file", WRITERS)
def test_any_name_survives_any_file(tmp_path, file, turned):
    @settings(steady, max_examples=25)
    @given(tables(most_trials=4 if turned is None else 1))
    @example(OF_HOSTILE)
    def survives(table):
        responses, told = as_responses(table), {}
        rows = responses.to_long()
        if turned is not None:
            cells = np.where(table[1] > 0, table[0].astype(str), "").astype(object)
            rows = pd.DataFrame(cells, responses.subjects, responses.items)
            rows = rows.T if turned else rows
            rows.insert(0, "name of row", rows.index)
            told = {"items_in": "rows" if turned else "columns"}
        WRITERS[file](rows.reset_index(drop=True), tmp_path / file)
        again = read_responses(tmp_path / file, **told)
        assert contents(again) == contents(responses)
        assert again.subjects == responses.subjects
        assert turned is None or again.items == responses.items

    survives()
