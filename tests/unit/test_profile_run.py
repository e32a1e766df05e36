"""Rows of a Q-matrix that are fitted, predicted or left out."""

import pytest

from bayesirt.data.q_matrix import QMatrix
from bayesirt.errors import ResponseError
from bayesirt.profiles.profile_run import ProfileSettings, notes_on, split_rows

Q = QMatrix.from_arrays(
    [[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1]],
    ["a", "b", "c", "new", "alien 1", "alien 2"],
    ["algebra", "logic", "poetry"],
)


def test_rows_of_new_items_are_predicted_if_their_abilities_are_known():
    own, new = split_rows(Q, ["c", "a", "b"])
    assert own.items == ("c", "a", "b")
    assert own.abilities == ("algebra", "logic")
    assert own.needs.astype(int).tolist() == [[1, 1], [1, 0], [0, 1]]
    assert new is not None
    assert new.items == ("new",)
    assert new.abilities == ("algebra",)


def test_where_all_items_have_responses_nothing_is_predicted():
    known = Q.for_items(["a", "b", "c"], drop_unneeded=True)
    own, new = split_rows(known, known.items)
    assert new is None
    assert notes_on(known, own) == ()


def test_notes_name_abilities_that_no_response_needs_and_count_their_items():
    own, _ = split_rows(Q, ["a", "b", "c"])
    (note,) = notes_on(Q, own)
    assert note == "no item with responses needs 'poetry': left out together with 2 items"
    rest = Q.for_items([name for name in Q.items if name != "alien 2"])
    assert notes_on(rest, own)[0].endswith("left out together with 1 item")


def test_notes_tell_what_cannot_be_told_apart():
    own, _ = split_rows(Q, ["c", "a"])
    assert any("'logic' is never needed without 'algebra'" in note for note in notes_on(Q, own))


def test_responses_without_a_row_are_refused():
    with pytest.raises(ResponseError, match="no row for item 'z'"):
        split_rows(Q, ["a", "z"])


def test_settings_say_what_is_assumed():
    settings = ProfileSettings(structure="general")
    assert "general abilities" in settings.describe_model()
