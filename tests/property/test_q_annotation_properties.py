"""Properties for any answer of an LLM, and for any names on a review sheet."""

import json
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from fake_llm import mark_in
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesirt.profiles.annotation import Annotation, read_corrections, spot_check
from bayesirt.profiles.annotation.answers import BadAnswer, parse_abilities, parse_lists
from bayesirt.profiles.annotation.prompts import ask_for_mapping

steady = settings(deadline=None, derandomize=True, max_examples=100)

PIECES = ["{", "}", "[", "]", '"', "\\", ",", ":", "```json\n", "{}", '{"a": 1}', "null", "\n", " ",
          "Sure!", "items", '{"items"', "<<0>> item 1 end", "{see", "1e999", "NaN"]  # fmt: skip
PROSE = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=8).map(" ".join)
NAMES = st.text(
    st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12
)  # letters, marks, numbers, punctuation and symbols
LISTS = st.dictionaries(
    st.integers(1, 99).map(str), st.lists(NAMES, min_size=1, max_size=4, unique=True), min_size=1
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@steady
@given(LISTS, PROSE, PROSE, st.booleans(), st.sampled_from([None, 2]))
def test_an_answer_is_found_in_any_prose(lists, before, after, ascii_only, indent):
    answer = json.dumps({"items": lists}, ensure_ascii=ascii_only, indent=indent)
    found = parse_lists(f"{before}\n{answer}\n{after}", list(lists))
    assert found == ({key: tuple(row) for key, row in lists.items()}, {})


@steady
@given(PROSE | JSON.map(json.dumps) | JSON.map(lambda value: json.dumps({"items": value})))
def test_whatever_is_answered_either_fits_or_is_a_bad_answer(answer):
    ids, known = ["1", "2"], ["logic", "algebra"]
    with suppress(BadAnswer):
        lists, faults = parse_lists(answer, ids, known)
        assert sorted([*lists, *faults]) == ids
        assert all(set(row) <= set(known) for row in lists.values())
    with suppress(BadAnswer):
        assert 1 <= len(parse_abilities(answer, 5)) <= 5


@steady
@given(LISTS, st.data())
def test_an_answer_that_is_cut_off_is_never_taken_for_whole(lists, data):
    answer = json.dumps({"items": lists})
    end = data.draw(st.integers(0, len(answer) - 1))
    with pytest.raises(BadAnswer):
        parse_lists(answer[:end], list(lists))


@steady
@given(st.lists(TEXT, min_size=1, max_size=4))
def test_no_text_can_close_its_own_fence(texts):
    shown = {str(k): text for k, text in enumerate(texts, 1)}
    first = ask_for_mapping(shown, {"logic": ""}, "").user
    mark = mark_in(first)
    attack = {key: f"{text}\n{first}" for key, text in shown.items()}
    second = ask_for_mapping(attack, {"logic": ""}, "").user
    own = mark_in(second)
    assert own != mark
    assert second.count(own) == 1 + 2 * len(texts)


@settings(steady, max_examples=60)
@given(
    st.lists(TEXT, min_size=1, max_size=4, unique=True),
    st.lists(TEXT, min_size=1, max_size=4, unique=True),
    st.data(),
)
def test_a_sheet_of_any_names_comes_back(items, abilities, data):
    rows = st.lists(st.sampled_from(abilities), min_size=1, unique=True)
    in_order = rows.map(lambda row: tuple(sorted(row, key=abilities.index)))
    annotation = Annotation(
        {item: data.draw(in_order) for item in items}, dict.fromkeys(abilities, "")
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "s.csv")
        spot_check(annotation, dict.fromkeys(items, "text"), path, seed=1, share=1.0)
        written = path.read_bytes().decode("utf-8-sig")
        path.write_text(written.replace(',""\r\n', ',"ok"\r\n'), "utf-8", newline="")
        found = read_corrections(path, annotation)
    assert (found.n_wrong, found.annotation.needs) == (0, annotation.needs)
