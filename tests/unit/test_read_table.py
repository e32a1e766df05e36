"""Progress reports while a table is read."""

import json
from pathlib import Path

from bayesirt.data.readers import json_tables, tables
from bayesirt.data.readers.tables import read_table


def test_blocks_of_a_csv_and_lines_of_json_are_told(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tables, "_LARGEST_ROW", 400)
    monkeypatch.setattr(json_tables, "_LINES_BETWEEN", 30)
    rows = [{"model": f"m{k}", "item": f"q{k}", "score": str(k % 2)} for k in range(100)]
    text = "".join(f"{','.join(row.values())}\n" for row in rows)
    files = {
        "r.csv": "model,item,score\n" + text,
        "r.jsonl": "\n".join(map(json.dumps, rows)),
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        told: list[tuple[int, int]] = []
        frame = read_table(tmp_path / name, progress=lambda *at, told=told: told.append(at))
        assert frame.to_dict("records") == rows
        if name == "r.csv":
            expected = [(min(400 * k, len(content)), len(content)) for k in range(1, 4)]
            assert told[:3] == expected
            assert told[-1] == (len(content), len(content))
        else:
            assert told == [(30, 100), (60, 100), (90, 100)]


def test_a_table_is_read_alike_whether_anybody_is_told_or_not(tmp_path: Path):
    path = tmp_path / "r.csv"
    path.write_text('model,item\n"a\nb",1\nc,2\n')
    told: list[tuple[int, int]] = []
    assert read_table(path).equals(read_table(path, progress=lambda *at: told.append(at)))
    assert told == [(path.stat().st_size,) * 2]
