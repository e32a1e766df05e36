"""Review sheets: the sample, the verdicts, and the estimate for the other items."""

import csv
from collections import Counter

import numpy as np
import pytest
from scipy.integrate import quad

from bayesirt import ResponseError
from bayesirt.profiles.annotation import Annotation, read_corrections, spot_check

ABILITIES = {"algebra": "Solving.", "logic": "Concluding.", "geometry": "Measuring."}
NAMES = list(ABILITIES)
NEEDS = {f"q{k}": (NAMES[k % 2],) if k % 10 else ("algebra", "geometry") for k in range(100)}
TEXTS = {item: f"Text of {item}." for item in NEEDS}
ANNOTATION = Annotation(NEEDS, {**ABILITIES, "poetry": "Rhyming."})
HEADER = ["item", "text", "abilities", "ok or right abilities"]


def sheet_of(path, annotation=ANNOTATION, texts=TEXTS, **options):
    spot_check(annotation, texts, path, **{"seed": 1, **options})
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def fill(path, rows, verdicts, delimiter=","):
    """Write a filled-in sheet as a spreadsheet program would."""
    filled = [rows[0], *([*row[:3], v] for row, v in zip(rows[1:], verdicts, strict=True))]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(filled)


def test_a_tenth_is_drawn_and_written_with_an_empty_column(tmp_path):
    drawn = spot_check(ANNOTATION, TEXTS, tmp_path / "new" / "s.csv", seed=1)
    assert len(drawn) == 10
    rows = list(csv.reader((tmp_path / "new" / "s.csv").read_text("utf-8-sig").splitlines()))
    assert rows[0] == HEADER
    assert rows[1:] == [[k, TEXTS[k], "; ".join(NEEDS[k]), ""] for k in drawn]
    again = spot_check(ANNOTATION, TEXTS, tmp_path / "again.csv", seed=1)
    other = spot_check(ANNOTATION, TEXTS, tmp_path / "other.csv", seed=2)
    assert again == drawn != other


def test_each_item_is_drawn_as_often_and_rare_abilities_every_time(tmp_path):
    counts: Counter[str] = Counter()
    for seed in range(400):
        path = tmp_path / f"{seed}.csv"
        drawn = spot_check(ANNOTATION, TEXTS, path, seed=seed)
        assert len(set(drawn)) == 10
        assert sum("geometry" in NEEDS[item] for item in drawn) == 1
        counts.update(drawn)
    # Binomial(400, .1): six standard deviations for 100 items fail with probability below 1e-6.
    assert len(counts) == 100
    assert max(abs(n - 40) for n in counts.values()) < 6 * np.sqrt(400 * 0.1 * 0.9)


@pytest.mark.parametrize("share", [0.001, 0.333, 0.999, 1.0])
def test_any_share_is_drawn_without_repetition(tmp_path, share):
    drawn = spot_check(ANNOTATION, TEXTS, tmp_path / "s.csv", seed=3, share=share)
    assert len(set(drawn)) == len(drawn) == int(np.ceil(share * 100))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_corrections_come_back_whatever_the_delimiter(tmp_path, delimiter):
    rows = sheet_of(tmp_path / "s.csv")
    verdicts = ["ok", " OK ", "logic;geometry", "poetry", "algebra;\nlogic; "] + ["ok"] * 5
    fill(tmp_path / "s.csv", rows, verdicts, delimiter)
    found = read_corrections(tmp_path / "s.csv", ANNOTATION)
    items = [row[0] for row in rows[1:]]
    right = {items[2]: ("logic", "geometry"), items[3]: ("poetry",), items[4]: ("algebra", "logic")}
    assert found.annotation.needs == {**NEEDS, **right}
    assert list(found.annotation.needs) == list(NEEDS)
    assert found.annotation.q_matrix.abilities == (*NAMES, "poetry")
    assert (found.n_checked, found.n_wrong, found.error_rate) == (10, 3, 0.3)
    row = found.summary.set_index("item").loc[items[3]]
    assert (row["added"], row["removed"]) == (("poetry",), NEEDS[items[3]])
    assert "3 of 10 checked items were wrong (30.0%, 90% interval" in found.to_text()


def test_a_correction_that_says_the_same_is_no_error(tmp_path):
    rows = sheet_of(tmp_path / "s.csv", share=0.02)
    fill(tmp_path / "s.csv", rows, [row[2] for row in rows[1:]])
    found = read_corrections(tmp_path / "s.csv", ANNOTATION)
    assert (found.n_wrong, found.annotation.needs) == (0, NEEDS)


@pytest.mark.parametrize(("wrong", "n"), [(0, 10), (3, 10), (10, 10)])
def test_the_interval_has_its_probability_under_jeffreys_posterior(tmp_path, wrong, n):
    rows = sheet_of(tmp_path / "s.csv")
    fill(tmp_path / "s.csv", rows, ["poetry"] * wrong + ["ok"] * (n - wrong))
    low, high = read_corrections(tmp_path / "s.csv", ANNOTATION, prob=0.8).interval

    def density(p):
        return p ** (wrong - 0.5) * (1 - p) ** (n - wrong - 0.5)

    inside, whole = quad(density, low, high)[0], quad(density, 0, 1)[0]
    assert inside / whole == pytest.approx(0.8 if 0 < wrong < n else 0.9, abs=1e-6)
    assert (low == 0, high == 1) == (wrong == 0, wrong == n)


HOSTILE = {
    "=1+1": '=HYPERLINK("http://x")',
    "'=1+1": "+1",
    "@SUM(A1)": "-1\r\n+2",
    "a,b;c\td": 'say "no"',
    "two\nlines": "\0\ud800",
    "\tx": "x" * 40_000,
    " ": "blank",
    "Ä—é": "漢字",
}
HOSTILE_ABILITIES = ["=cmd|' /C calc'!A0", "sets; logic", 'a "quoted" one', "+", "'x", " y ", "ok",
                     "-1\n2", "|z", "'=w", "y"]  # fmt: skip


def hostile_annotation() -> Annotation:
    needs = {
        item: (HOSTILE_ABILITIES[k], *HOSTILE_ABILITIES[k + 2 :]) for k, item in enumerate(HOSTILE)
    }
    return Annotation(needs, dict.fromkeys(HOSTILE_ABILITIES, ""))


def test_hostile_names_come_back_and_no_cell_is_a_formula(tmp_path):
    annotation = hostile_annotation()
    rows = sheet_of(tmp_path / "s.csv", annotation, HOSTILE, share=1.0)
    assert all(not cell.startswith(tuple("=+-@\t\r\n|%")) for row in rows for cell in row)
    assert max(len(cell) for row in rows for cell in row) < 32_768
    fill(tmp_path / "s.csv", rows, [row[2] for row in rows[1:]])
    found = read_corrections(tmp_path / "s.csv", annotation)
    assert (found.n_checked, found.n_wrong) == (len(HOSTILE), 0)
    assert {k: set(v) for k, v in found.annotation.needs.items()} == {
        k: set(v) for k, v in annotation.needs.items()
    }


@pytest.mark.parametrize("ability", HOSTILE_ABILITIES)
def test_each_hostile_ability_can_stand_alone(tmp_path, ability):
    annotation = Annotation({"q1": (ability,)}, dict.fromkeys(HOSTILE_ABILITIES, ""))
    rows = sheet_of(tmp_path / "s.csv", annotation, {"q1": "x"})
    fill(tmp_path / "s.csv", rows, [f"{rows[1][2]};"])
    assert read_corrections(tmp_path / "s.csv", annotation).annotation.needs == {"q1": (ability,)}


def test_people_may_write_names_without_our_apostrophe(tmp_path):
    annotation = Annotation({"=1+1": ("-1",)}, {"-1": "", "'x": ""})
    path = tmp_path / "s.csv"
    for verdict, needs in (("-1", ("-1",)), ("'x", ("'x",)), ("''x; -1", ("-1", "'x"))):
        path.write_text(f"item,text,abilities,ok or right abilities\n=1+1,x,-1,{verdict}\n")
        assert read_corrections(path, annotation).annotation.needs == {"=1+1": needs}


REFUSED = {
    "not filled in": (0, {3: ""}, "column 'ok or right abilities' of item .* is empty; write ok"),
    "unknown ability": (
        0,
        {3: "logic; magic"},
        "holds 'logic; magic', which is not a list of known",
    ),
    "open quotes": (0, {3: '"logic'}, "not a list of known abilities"),
    "only semicolons": (0, {3: ";"}, "not a list of known abilities"),
    "wrong column": (0, {2: "poetry", 3: "ok"}, "are not those of the annotation; write corr"),
    "unknown item": (0, {0: "Q1", 3: "ok"}, "item 'Q1' that the annotation does not have"),
}


@pytest.mark.parametrize(("row", "cells", "said"), REFUSED.values(), ids=REFUSED)
def test_a_sheet_that_does_not_fit_is_refused_in_a_sentence(tmp_path, row, cells, said):
    rows = sheet_of(tmp_path / "s.csv", share=0.02)
    for column, cell in cells.items():
        rows[1 + row][column] = cell
    fill(tmp_path / "s.csv", rows, [cells[3], "ok"])
    with pytest.raises(ResponseError, match=said):
        read_corrections(tmp_path / "s.csv", ANNOTATION)


def test_a_sheet_with_a_column_lost_or_a_row_twice_is_refused(tmp_path):
    rows = sheet_of(tmp_path / "s.csv", share=0.01)
    fill(tmp_path / "s.csv", [*rows, rows[1]], ["ok", "ok"])
    with pytest.raises(ResponseError, match=r"item .* appears 2 times"):
        read_corrections(tmp_path / "s.csv", ANNOTATION)
    (tmp_path / "s.csv").write_text("item,abilities\nq1,logic\n")
    with pytest.raises(ResponseError, match="no column `ok or right abilities`"):
        read_corrections(tmp_path / "s.csv", ANNOTATION)
    with pytest.raises(ResponseError, match="`prob` must lie between 0 and 1"):
        read_corrections(tmp_path / "s.csv", ANNOTATION, prob=1.0)


def test_a_sheet_is_not_written_over_nor_without_texts(tmp_path):
    sheet_of(tmp_path / "s.csv")
    with pytest.raises(ResponseError, match="already exists and may hold corrections"):
        spot_check(ANNOTATION, TEXTS, tmp_path / "s.csv", seed=1)
    with pytest.raises(ResponseError, match="`share` must be above 0"):
        spot_check(ANNOTATION, TEXTS, tmp_path / "t.csv", seed=1, share=0.0)
    with pytest.raises(ResponseError, match="has no text; pass all items' texts"):
        spot_check(ANNOTATION, {}, tmp_path / "t.csv", seed=1)
    assert [p.name for p in tmp_path.iterdir()] == ["s.csv"]
