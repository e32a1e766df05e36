"""The journal of answers: no answer is lost, and no question is asked twice."""

import json

import pytest
from fake_llm import FakeLLM

from bayesirt import ResponseError
from bayesirt.profiles.annotation import annotate

ABILITIES = {"algebra": "Solving.", "logic": "Concluding."}
ITEMS = {f"q{k}": f"text {k}" for k in range(6)}
BY_TEXT = {text: ["logic"] if k % 2 else ["algebra"] for k, text in enumerate(ITEMS.values())}


def annotated(journal, ask, items=ITEMS, **options):
    return annotate(items, ABILITIES, ask, journal=journal, **{"batch_size": 2, **options})


def test_a_second_call_asks_nothing_and_says_the_same(tmp_path):
    first = annotated(tmp_path / "new" / "a.jsonl", FakeLLM(BY_TEXT))
    llm = FakeLLM({})
    second = annotated(tmp_path / "new" / "a.jsonl", llm)
    assert llm.asked == []
    assert second.needs == first.needs
    assert (first.n_asked, first.n_known) == (3, 0)
    assert (second.n_asked, second.n_known) == (0, 3)


def test_pool_and_taxonomy_are_not_asked_twice_either(tmp_path):
    journal = tmp_path / "a.jsonl"
    llm = FakeLLM(BY_TEXT, taxonomy=ABILITIES)
    first = annotate(ITEMS, None, llm, journal=journal)
    second = annotate(ITEMS, None, FakeLLM({}), journal=journal)
    assert (second.n_asked, second.needs, second.pool) == (0, first.needs, first.pool)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ConnectionError, SystemExit])
def test_an_interrupted_call_keeps_what_was_answered(tmp_path, error):
    journal = tmp_path / "a.jsonl"

    def stop(texts):
        if "text 4" in texts.values():
            raise error("no line")

    interrupted = FakeLLM(BY_TEXT, spoil=stop)
    with pytest.raises(error, match="no line") as caught:
        annotated(journal, interrupted)
    assert "2 answers are kept in" in caught.value.__notes__[0]
    llm = FakeLLM(BY_TEXT)
    done = annotated(journal, llm)
    assert llm.asked == [interrupted.asked[-1]]
    assert (done.n_asked, done.n_known, len(done.needs)) == (1, 2, 6)


@pytest.mark.parametrize("lost", range(1, 40))
def test_a_half_written_last_line_is_asked_again(tmp_path, lost):
    journal = tmp_path / "a.jsonl"
    first = annotated(journal, FakeLLM(BY_TEXT))
    data = journal.read_bytes()
    journal.write_bytes(data[:-lost])
    done = annotated(journal, FakeLLM(BY_TEXT))
    assert (done.needs, done.n_asked) == (first.needs, 1)
    assert journal.read_bytes() == data


def test_a_half_written_first_line_is_written_again(tmp_path):
    journal = tmp_path / "a.jsonl"
    annotated(journal, FakeLLM(BY_TEXT))
    data = journal.read_bytes()
    for length in range(data.index(b"\n")):
        journal.write_bytes(data[:length])
        assert annotated(journal, FakeLLM(BY_TEXT)).n_asked == 3
        assert journal.read_bytes() == data


def test_refused_answers_are_kept_and_more_retries_ask_only_what_is_open(tmp_path):
    journal = tmp_path / "a.jsonl"
    llm = FakeLLM(BY_TEXT, spoil=lambda texts: "no" if "text 3" in texts.values() else None)
    first = annotated(journal, llm, retries=1)
    assert list(first.failed) == ["q3"]
    assert annotated(journal, FakeLLM({}), retries=1).failures == first.failures
    llm = FakeLLM(BY_TEXT)
    second = annotated(journal, llm, retries=2)
    assert (second.failures, len(second.needs)) == ((), 6)
    assert ["This is attempt 2." in user for _, user in llm.asked] == [True]


@pytest.mark.parametrize(
    ("options", "n_asked"),
    [
        ({"llm": "another"}, 3),
        ({"guidance": "Be strict."}, 3),
        ({"batch_size": 3}, 2),
        ({"retries": 5, "most_characters": 500, "most_abilities": 9}, 0),
        ({"items": {**ITEMS, "q6": "text 0"}}, 1),
        ({"items": {k: v for k, v in ITEMS.items() if k != "q5"}}, 1),
        ({"items": {f"renamed {k}": v for k, v in ITEMS.items()}}, 0),
    ],
)
def test_answers_are_used_only_for_what_was_asked_and_of_whom(tmp_path, options, n_asked):
    journal = tmp_path / "a.jsonl"
    annotated(journal, FakeLLM(BY_TEXT))
    assert annotated(journal, FakeLLM(BY_TEXT), **options).n_asked == n_asked
    assert annotated(journal, FakeLLM({})).n_asked == 0


def test_answers_of_any_characters_come_back(tmp_path):
    odd = 'two\nlines\r\u2028 \ud800 "{}" {"items": {"1": ["logic"], "2": ["logic"]}}'
    for llm in (FakeLLM({}, spoil=lambda _: odd), FakeLLM({})):
        done = annotated(tmp_path / "a.jsonl", llm)
        assert set(done.needs.values()) == {("logic",)}
    assert done.n_known == 3


@pytest.mark.parametrize(
    "content", [b"item,text\nq1,x\n", b"{}\n", b"no line break", b"\n", b"\xff\xfe"]
)
def test_a_file_that_is_something_else_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "items.csv"
    path.write_bytes(content)
    llm = FakeLLM(BY_TEXT)
    with pytest.raises(ResponseError, match="holds no answers of an LLM; name another file"):
        annotated(path, llm)
    assert path.read_bytes() == content
    assert llm.asked == []


@pytest.mark.parametrize("line", ["", "{", "[]", "7", '{"key": "x"}', '{"key": 1, "answer": "x"}'])
def test_a_damaged_line_is_named(tmp_path, line):
    journal = tmp_path / "a.jsonl"
    annotated(journal, FakeLLM(BY_TEXT))
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([*lines[:2], line, *lines[3:], ""]))
    with pytest.raises(ResponseError, match=r"a\.jsonl, line 3: .* delete the line"):
        annotated(journal, FakeLLM(BY_TEXT))


def test_a_file_that_cannot_be_written_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(ResponseError, match="is a folder; name a file"):
        annotated(tmp_path, FakeLLM(BY_TEXT))
    (tmp_path / "file").write_text("x")
    with pytest.raises(ResponseError, match="cannot be written"):
        annotated(tmp_path / "file" / "a.jsonl", FakeLLM(BY_TEXT))


def test_a_file_that_vanishes_meanwhile_stops_the_call(tmp_path):
    folder = tmp_path / "folder"

    def remove(_):
        (folder / "a.jsonl").unlink()
        folder.rmdir()

    with pytest.raises(ResponseError, match="cannot be written"):
        annotated(folder / "a.jsonl", FakeLLM(BY_TEXT, spoil=remove))


def test_ask_must_return_text():
    with pytest.raises(TypeError, match="`ask` must return text, got dict"):
        annotated(None, lambda *_: json.loads('{"items": {}}'))
