"""Contract of every study: it resumes, runs in any process, and writes its findings."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from sent_tasks import without_processes
from tiny_studies import STUDIES, at_once

from bayesirt.errors import ResponseError
from bayesirt.studies.engine import Part, Study, do_tasks
from bayesirt.studies.tasks import Task

KEY = jax.random.key(3)
TIMES = ("seconds", "compiling", "time_ratio")


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        at_once(patch)
        yield


@pytest.fixture(scope="module", params=STUDIES)
def done(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, quick: None
) -> tuple[str, Study, Path]:
    """Return a study's name, its result, and its folder."""
    folder = tmp_path_factory.mktemp("study") / request.param
    return request.param, STUDIES[request.param](key=KEY, folder=folder), folder


def assert_same(one: Study, other: Study) -> None:
    """Compare rows and tables of two runs, except for times."""
    assert one.tables.keys() == other.tables.keys()
    pairs = [(one.tables[name], other.tables[name]) for name in one.tables]
    for a, b in [(one.replications, other.replications), *pairs]:
        pd.testing.assert_frame_equal(without_times(a), without_times(b))


def without_times(table: pd.DataFrame) -> pd.DataFrame:
    """Drop columns of times, and cBMM's rows of ratios of times."""
    if "claim" in table:
        table = table[~table["claim"].str.match("growth|speedup")]
    return table.drop(columns=[c for c in table if str(c).startswith(TIMES)])


def test_a_study_cut_short_goes_on_where_it_was(done: tuple[str, Study, Path], tmp_path: Path):
    name, study, folder = done
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    logs = sorted(tmp_path.rglob("replications.csv"))
    kept = {}
    for log in logs:
        lines = log.read_text().splitlines(keepends=True)
        kept[log] = lines[:-1]
        log.write_text("".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2])
    told: list[tuple[int, int]] = []
    again = STUDIES[name](key=KEY, folder=tmp_path, progress=lambda *n: told.append(n))
    n_tasks = told[-1][1]
    assert told == [(k, n_tasks) for k in range(told[0][0], n_tasks + 1)]
    assert 1 <= len(told) <= len(logs)
    for log, lines in kept.items():
        assert log.read_text().splitlines(keepends=True)[: len(lines)] == lines
    assert_same(again, study)
    STUDIES[name](key=KEY, folder=tmp_path, progress=lambda *_: pytest.fail("nothing was left"))


def test_another_key_is_another_study(done: tuple[str, Study, Path]):
    name, _, folder = done
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(ResponseError, match="other settings"):
        STUDIES[name](key=jax.random.key(4), folder=folder)
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_work_that_is_sent_gives_the_same_study(
    done: tuple[str, Study, Path], monkeypatch: pytest.MonkeyPatch
):
    name, study, _ = done
    without_processes(monkeypatch)
    assert_same(STUDIES[name](key=KEY, n_processes=2), study)


def test_a_study_writes_what_it_found(done: tuple[str, Study, Path], tmp_path: Path):
    _, study, _ = done
    study.save(tmp_path)
    tables = {**study.tables, "claims": study.claims}
    files = {f"{name}.csv" for name in tables} | {f"{name}.svg" for name in study.figures}
    assert {path.name for path in tmp_path.iterdir()} == files | {"verdict.txt"}
    for name, table in tables.items():
        if len(table):
            read = pd.read_csv(tmp_path / f"{name}.csv", keep_default_na=name != "claims",
                               na_values=[""] if name != "claims" else None)  # fmt: skip
            assert list(read) == list(table), name
            assert len(read) == len(table), name
    assert all((tmp_path / f"{name}.svg").stat().st_size > 1000 for name in study.figures)
    assert (tmp_path / "verdict.txt").read_text("utf-8") == study.to_text() + "\n"


def test_every_claim_is_a_figure_of_its_own(done: tuple[str, Study, Path]):
    claims = done[1].claims
    assert len(claims) >= 10
    assert not claims["claim"].duplicated().any()
    assert not claims["claim"].str.contains(r"[{}]|\bnan\b").any()
    assert np.isfinite(claims["here"]).sum() > len(claims) / 2


PARTS = {"one": Part(("k",), ("value",)), "other": Part(("k", "method"), ("value",))}


def made_tasks(n: int = 3) -> list[Task]:
    """Return tasks that yield one row of part `one` and two of part `other`."""
    return [
        Task(
            [("one", (k,)), ("other", (k, "a")), ("other", (k, "b"))],
            lambda k=k: [{"value": k / 3}, {"value": k}, {"value": np.nan}],
        )
        for k in range(n)
    ]


def test_rows_are_on_disk_when_their_task_ends(tmp_path: Path):
    seen = []
    logs = [tmp_path / "replications.csv", tmp_path / "other" / "replications.csv"]
    do_tasks(
        made_tasks(), PARTS, {}, {
            "folder": tmp_path,
            "progress": lambda *n: seen.append((*n, *(len(f.read_text().split()) for f in logs))),
        },
    )  # fmt: skip
    assert seen == [(k, 3, 1 + k, 1 + 2 * k) for k in (1, 2, 3)]


def test_a_task_with_one_lost_row_is_done_again_and_no_row_twice(tmp_path: Path):
    whole = do_tasks(made_tasks(), PARTS, {}, {"folder": tmp_path})
    log = tmp_path / "other" / "replications.csv"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]) + lines[-1][:2])
    told = []
    again = do_tasks(
        made_tasks(), PARTS, {}, {"folder": tmp_path, "progress": lambda *n: told.append(n)}
    )
    assert told == [(3, 3)]
    for name, rows in whole.items():
        pd.testing.assert_frame_equal(again[name], rows)
    log.unlink()
    fresh = do_tasks(made_tasks(), PARTS, {}, {"folder": tmp_path})
    pd.testing.assert_frame_equal(fresh["other"], whole["other"])


def test_what_is_no_log_of_the_study_is_left_alone(tmp_path: Path):
    for damage, said in (("k,values\n", "other columns"), ("", "")):
        folder = tmp_path / f"damaged {len(damage)}"
        do_tasks(made_tasks(), PARTS, {}, {"folder": folder})
        (folder / "replications.csv").write_text(damage)
        if said:
            with pytest.raises(ResponseError, match=said):
                do_tasks(made_tasks(), PARTS, {}, {"folder": folder})
            assert (folder / "replications.csv").read_text() == damage
        else:
            assert len(do_tasks(made_tasks(), PARTS, {}, {"folder": folder})["one"]) == 3
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.txt").write_text("mine")
    with pytest.raises(ResponseError, match="not a study"):
        do_tasks(made_tasks(), PARTS, {}, {"folder": tmp_path / "mine"})
    with pytest.raises(ResponseError, match="cannot be written"):
        do_tasks(made_tasks(), PARTS, {}, {"folder": tmp_path / "mine" / "mine.txt"})
    with pytest.raises(ResponseError, match="other settings"):
        do_tasks(made_tasks(), PARTS, {"a": 1}, {"folder": tmp_path / "damaged 0"})


def test_a_task_that_breaks_ends_the_study_and_keeps_what_was_done(tmp_path: Path):
    def broken() -> list[dict[str, float]]:
        raise ZeroDivisionError

    tasks = [*made_tasks(2), Task([("one", (2,))], broken)]
    with pytest.raises(ZeroDivisionError):
        do_tasks(tasks, PARTS, {}, {"folder": tmp_path})
    told = []
    rows = do_tasks(
        made_tasks(), PARTS, {}, {"folder": tmp_path, "progress": lambda *n: told.append(n)}
    )
    assert (len(rows["one"]), told) == (3, [(3, 3)])
