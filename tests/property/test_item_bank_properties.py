"""Properties of item banks with any names and numbers, and under any damage to their files."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bank_data import assert_same_bank, items_step, score_step
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesirt.bank.folder import append_step, create_bank_folder, read_bank
from bayesirt.bank.step import BankItems, BankStep, ReferenceSubjects
from bayesirt.errors import ResponseError
from bayesirt.estimators.fixed_items import KnownItems

steady = settings(deadline=None, derandomize=True, max_examples=25)

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
HOSTILE = ["NA", "None", "nan", "null", "007", "1e5", "True", "../x", "a/b", "C:\\x", "'q\"", " ",
           "two\nlines", "\r\n", "=1+1", "é", "e\u0301", "🙂", "\u202eabc", "\ufeffx"]  # fmt: skip
NAMES = st.sampled_from(HOSTILE) | TEXT.filter(bool)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
DETAILS = st.dictionaries(TEXT, JSON, max_size=3)


def arrays(draw: st.DrawFn, *shape: int, values: st.SearchStrategy[float] = NUMBERS) -> np.ndarray:
    size = int(np.prod(shape))
    return np.array(draw(st.lists(values, min_size=size, max_size=size)), float).reshape(shape)


@st.composite
def bank_items(draw: st.DrawFn, items: list[str], benchmarks: list[str], k: int) -> BankItems:
    """Draw items of random benchmarks, with anchors in each."""
    n = len(items)
    own = [*benchmarks, *draw(st.lists(st.sampled_from(benchmarks), min_size=n, max_size=n))][:n]
    shares = np.array([draw(st.none() | st.integers(1, 9)) for _ in own], float)
    for benchmark in benchmarks:
        among = np.flatnonzero([name == benchmark for name in own])
        if np.isnan(shares[among]).all():
            shares[among[0]] = 1.0
        shares[among] /= np.nansum(shares[among])
    known = KnownItems(
        tuple(items), arrays(draw, n, k), arrays(draw, n), arrays(draw, n, k + 1, k + 1)
    )
    return BankItems(known, tuple(own), shares)


@st.composite
def reference_subjects(draw: st.DrawFn, k: int, n_benchmarks: int) -> ReferenceSubjects:
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    n = len(names)
    accuracy = arrays(draw, n, n_benchmarks, values=st.floats(0, 1) | st.just(float("nan")))
    return ReferenceSubjects(tuple(names), arrays(draw, n, k), arrays(draw, n, k, k), accuracy)


@st.composite
def answers(draw: st.DrawFn, anchors: list[str], subjects: st.SearchStrategy[str]) -> pd.DataFrame:
    pairs = draw(st.lists(st.tuples(subjects, st.sampled_from(anchors)), min_size=1, unique=True))
    trials = [draw(st.integers(1, 2**31 - 1)) for _ in pairs]
    rows = [(*pair, draw(st.integers(0, n)), n) for pair, n in zip(pairs, trials, strict=True)]
    return pd.DataFrame(rows, columns=["subject", "item", "successes", "trials"])


@st.composite
def scores(draw: st.DrawFn, benchmarks: list[str]) -> pd.DataFrame:
    """Draw scores with further columns of each type that can be stored."""
    pair = st.tuples(NAMES, st.sampled_from(benchmarks))
    pairs = draw(st.lists(pair, min_size=1, max_size=4, unique=True))
    n = len(pairs)
    table = pd.DataFrame(pairs, columns=["subject", "benchmark"])
    for name in ("accuracy", "low", "high"):
        table[name] = arrays(draw, n)
    taken = [*table.columns, "step"]
    kinds = [st.none() | TEXT, st.floats(), st.booleans(), st.integers(-(2**63), 2**63 - 1)]
    others = draw(st.lists(NAMES.filter(lambda name: name not in taken), unique=True, max_size=3))
    for name in others:
        kind = draw(st.sampled_from(kinds))
        table[name] = draw(st.lists(kind, min_size=n, max_size=n))
    return table


@st.composite
def steps(draw: st.DrawFn) -> tuple[int, list[BankStep]]:
    """Draw a bank of up to two steps with items and one with scores."""
    k = draw(st.integers(1, 3))
    items = draw(st.lists(NAMES, min_size=4, max_size=8, unique=True))
    benchmarks = draw(st.lists(NAMES, min_size=3, max_size=4, unique=True))
    parts = [(items[:2], benchmarks[:2])]
    if draw(st.booleans()):
        parts.append((items[2:], benchmarks[2:]))
    made = []
    for kind, (some, of) in zip(("create", "add"), parts, strict=False):
        own = draw(bank_items(some, of, k))
        anchors = [name for b in own.benchmark_names for name in own.anchors(b)]
        made.append(
            BankStep(
                kind,
                own,
                draw(st.none() | reference_subjects(k, len(own.benchmark_names))),
                draw(st.none() | answers(anchors, NAMES)),
                figures={b: {"variance": draw(NUMBERS)} for b in of if draw(st.booleans())},
                settings=draw(DETAILS),
                source=draw(DETAILS),
            )
        )
    if draw(st.booleans()):
        of = [b for _, some in parts for b in some]
        made.append(BankStep("score", scores=draw(scores(of)), settings=draw(DETAILS)))
    return k, made


@steady
@given(steps())
def test_any_step_is_read_back_as_it_was_written(drawn: tuple[int, list[BankStep]]):
    n_abilities, (first, *others) = drawn
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "bank")
        bank = create_bank_folder(folder, first, n_abilities)
        assert_same_bank(read_bank(folder), bank)
        for step in others:
            bank = append_step(folder, step)
            assert_same_bank(read_bank(folder), bank)
        found = read_bank(folder)
    assert found.benchmark_names == bank.benchmark_names
    assert found.items.names == bank.items.names
    assert {b: found.anchors(b) for b in found.benchmark_names} == {
        b: bank.anchors(b) for b in bank.benchmark_names
    }
    pd.testing.assert_frame_equal(found.answer_table, bank.answer_table)
    pd.testing.assert_frame_equal(found.history, bank.history)
    assert len(found.history) == sum(len(s.scores) for s in drawn[1] if s.scores is not None)


@pytest.fixture(scope="module")
def whole() -> Iterator[Path]:
    """Return the folder of a bank with each kind of file."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "bank")
        create_bank_folder(folder, items_step("maths"), 2)
        append_step(folder, items_step("law", "add"))
        append_step(folder, score_step("maths", "law"))
        yield folder


def assert_noticed(folder: Path, file: Path, data: bytes) -> None:
    original = file.read_bytes()
    try:
        file.write_bytes(data)
        with pytest.raises(ResponseError):
            read_bank(folder)
    finally:
        file.write_bytes(original)


def files_of(folder: Path) -> list[Path]:
    return sorted(x for x in folder.rglob("*") if x.is_file() and x.name != "bank.lock")


@settings(steady, max_examples=100)
@given(st.data())
def test_any_flipped_byte_is_noticed(whole: Path, data: st.DataObject):
    file = data.draw(st.sampled_from(files_of(whole)), "file")
    flipped = bytearray(file.read_bytes())
    flipped[data.draw(st.integers(0, len(flipped) - 1), "at")] ^= data.draw(st.integers(1, 255))
    assert_noticed(whole, file, bytes(flipped))


@steady
@given(st.data())
def test_any_loss_or_gain_of_bytes_is_noticed(whole: Path, data: st.DataObject):
    file = data.draw(st.sampled_from(files_of(whole)), "file")
    original = file.read_bytes()
    first = data.draw(st.integers(0, len(original) - 1), "first")
    last = data.draw(st.integers(first + 1, len(original)), "last")
    assert_noticed(whole, file, original[:first] + original[last:])
    assert_noticed(whole, file, original[:last] + original[first:])


@pytest.mark.parametrize("mask", [0x01, 0x20])
def test_each_flipped_byte_of_the_record_is_noticed(whole: Path, mask: int):
    file = whole / "bank.json"
    original = file.read_bytes()
    for at in range(len(original)):
        flipped = bytes([*original[:at], original[at] ^ mask, *original[at + 1 :]])
        assert_noticed(whole, file, flipped)
