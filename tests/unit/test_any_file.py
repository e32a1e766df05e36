"""Results in any file format are read alike, or refused with advice."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayesirt import Responses, read_responses
from bayesirt.data.readers import LeftOutWarning
from bayesirt.errors import ResponseError

N, J = 4, 3
Y = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 1, 0]])
WIDE = pd.DataFrame(Y, [f"m{i}" for i in range(N)], [f"q{j}" for j in range(J)])
LONG = WIDE.stack().reset_index().set_axis(["model", "question", "score"], axis=1)


def written(frame: pd.DataFrame, **options) -> str:
    return frame.to_csv(index=False, **options)


def scored(right: str, wrong: str) -> pd.DataFrame:
    return LONG.assign(score=np.where(LONG["score"] == 1, right, wrong))


def nested() -> str:
    rows = (
        {"model": {"name": m}, "question": {"id": q}, "result": {"correct": bool(y)}}
        for m, q, y in LONG.itertuples(index=False)
    )
    return "\n".join(map(json.dumps, rows))


TEXTS = {
    "titles.csv": written(LONG.set_axis(["Model Name", "Question ID", "Is Correct"], axis=1)),
    "records.json": LONG.to_json(orient="records"),
    "under.json": json.dumps({"created": 1, "results": LONG.to_dict("records")}),
    "columns.json": json.dumps(LONG.to_dict("list")),
    "frame.json": LONG.to_json(),
    "nested.jsonl": nested(),
    "yes.csv": written(scored("Yes", "no")),
    "correct.csv": written(scored("correct", "Incorrect")),
    "percent.csv": written(scored("100%", "0%")),
    "comma.csv": written(scored("1,0", "0,0"), sep=";"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_it_is_read_as_it_is(tmp_path: Path, name: str):
    (tmp_path / name).write_text(TEXTS[name])
    assert_read(read_responses(tmp_path / name))


def assert_read(responses: Responses) -> None:
    assert responses.subjects == tuple(WIDE.index)
    assert responses.items == tuple(WIDE.columns)
    np.testing.assert_array_equal(responses.cells.matrices()[0], Y)


def test_shares_with_decimal_commas_or_percent_signs_are_scores(tmp_path: Path):
    for right, wrong in (("0,75", "0,5"), ("75%", "50%"), ("75,0%", "50,0%")):
        (tmp_path / "r.csv").write_text(written(scored(right, wrong), sep=";"))
        responses = read_responses(tmp_path / "r.csv")
        assert responses.scale is not None
        assert responses.scale.kind == "continuous"
        assert set(responses.cells.matrices()[0].ravel().tolist()) == {5000, 7500}


def test_an_index_without_a_name_is_that_of_models(tmp_path: Path):
    WIDE.to_csv(tmp_path / "r.csv")
    with pytest.warns(LeftOutWarning, match="--items-in rows"):
        assert_read(read_responses(tmp_path / "r.csv"))


def test_a_row_without_a_score_was_not_run(tmp_path: Path):
    rows = LONG.astype({"score": object})
    rows.loc[4, "score"] = ""
    (tmp_path / "r.csv").write_text(written(rows))
    rows.assign(score=pd.to_numeric(rows["score"])).to_parquet(tmp_path / "r.parquet")
    with pytest.warns(LeftOutWarning, match="1 of 12 rows"):
        responses = read_responses(tmp_path / "r.csv")
    assert responses.n_observed == N * J - 1
    assert responses.cells.matrices()[1][1, 1] == 0
    with pytest.warns(LeftOutWarning, match="1 of 12 rows"):
        assert read_responses(tmp_path / "r.parquet").n_observed == N * J - 1
    assert Responses.from_long(rows, subject="model", item="question").n_observed == N * J - 1


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path):
    for k, part in enumerate((LONG[:5], LONG[5:9], LONG[9:])):
        part.to_parquet(tmp_path / f"part-{k}.parquet")
    (tmp_path / "_SUCCESS").touch()
    assert_read(read_responses(tmp_path))
    on_disk = read_responses(tmp_path, out_of_core=True)
    assert on_disk.n_observed == N * J
    assert_read(read_responses(tmp_path, subject="model", item="question", score="score"))
    LONG.rename(columns={"score": "other"}).to_parquet(tmp_path / "part-9.parquet")
    with pytest.raises(ResponseError, match=r"part-9\.parquet has other columns"):
        read_responses(tmp_path)


def excel(*sheets: pd.DataFrame) -> bytes:
    """Return a workbook that contains only cells of text and numbers."""
    names = "".join(
        f'<sheet name="s{k}" sheetId="{k}" r:id="r{k}"/>' for k in range(1, len(sheets) + 1)
    )
    related = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    targets = "".join(
        f'<Relationship Id="r{k}" Type="{related}/worksheet" Target="worksheets/s{k}.xml"/>'
        for k in range(1, len(sheets) + 1)
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as book:
        book.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}"><Relationship Id="a" '
            f'Type="{related}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        book.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{related}"><sheets>{names}</sheets></workbook>',
        )
        book.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}">{targets}</Relationships>',
        )
        for k, sheet in enumerate(sheets, 1):
            rows = "".join(
                "<row>" + "".join(map(cell, row)) + "</row>"
                for row in [list(sheet.columns), *sheet.itertuples(index=False)]
            )
            book.writestr(
                f"xl/worksheets/s{k}.xml",
                f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>',
            )
    return file.getvalue()


def cell(value: object) -> str:
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return f"<c><v>{value}</v></c>"


def test_a_sheet_of_a_workbook_is_read(tmp_path: Path):
    path = tmp_path / "r.xlsx"
    for frame in (LONG, WIDE.reset_index(names="model")):
        path.write_bytes(excel(frame))
        assert_read(read_responses(path))
    path.write_bytes(excel(LONG, LONG))
    with pytest.raises(ResponseError, match="one sheet with results, and has s1, s2"):
        read_responses(path)
    bomb = io.BytesIO(excel(LONG))
    with zipfile.ZipFile(bomb, "a", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/more.xml", bytes(1 << 25))
    path.write_bytes(bomb.getvalue())
    with pytest.raises(ResponseError, match="unpacks to more than"):
        read_responses(path)
    path.write_bytes(b"x")
    with pytest.raises(ResponseError, match="not an Excel file"):
        read_responses(path)


REFUSED = {
    "battles.csv": ("model_a,model_b,winner\na,b,a\n", "Bradley-Terry"),
    "numbers.csv": ("1,0,1\n0,0,1\n", "no names: its first line holds scores"),
    "numbered.csv": (",q1,q2\n0,1,0\n1,0,1\n", "numbers its rows but does not name models"),
    "mixed.csv": ("model,item,score\nm,q,50%\nm,r,0.5\n", "finite number, got '50%'"),
    "empty.csv": ("model,item,score,tokens\nm,q,,5\nn,q,,7\n", "at least 2 subjects"),
    "lists.json": ("[1, 2]", "neither a list of objects"),
    "other.json": ('{"a": 1}', "is not a log of"),
    "thousands.csv": ('model,item,score\nm,q,"1,500"\n', "finite number, got '1,500'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_of_answers_is_told_what_it_is(tmp_path: Path, name: str):
    text, said = REFUSED[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(ResponseError, match=said):
        read_responses(tmp_path / name)


def test_text_among_scores_and_percentages_of_a_full_score_are_refused(tmp_path: Path):
    path = tmp_path / "r.csv"
    for odd in ("1e999", "1,500", "perhaps"):
        path.write_text(written(LONG.assign(score=["0.5"] * (N * J - 1) + [odd])))
        with pytest.raises(ResponseError, match=f"got '{odd}' .*; give numbers, or percentages"):
            read_responses(path, kind="continuous")
    path.write_text(written(scored("75%", "50%")))
    with pytest.raises(ResponseError, match="leave out --scale"):
        read_responses(path, full=100)


def test_results_are_piped_into_the_module():
    command = [sys.executable, "-m", "bayesirt", "check", "-"]
    found = subprocess.run(
        command, input=TEXTS["nested.jsonl"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert "subjects" in found.stdout


def test_nothing_piped_is_refused():
    command = [sys.executable, "-m", "bayesirt", "check", "-"]
    found = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert found.stderr == ("bayesirt: standard input is empty; pipe results into the command\n")
