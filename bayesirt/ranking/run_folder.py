"""The folder of a run, written completely or not at all."""

import csv
import ctypes
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from bayesirt.data.whole_file import saying_why
from bayesirt.errors import ResponseError
from bayesirt.names import one_line, spreadsheet_safe
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.kept_ranking import kept_ranking, ranked, with_ranking
from bayesirt.ranking.kept_topics import load_topics, save_topics
from bayesirt.ranking.length_gain import LengthGain, correlation
from bayesirt.ranking.record import Record
from bayesirt.ranking.score_order import led_by_score
from bayesirt.ranking.settings import Settings
from bayesirt.ranking.subject_ranking import Ranking
from bayesirt.verdict import Verdict

if TYPE_CHECKING:
    from bayesirt.checks.wrong_lengths import WrongLengths

RECORD = "run.json"
Q_MATRIX, PROFILES = "q_matrix.json", "profiles.csv"
_LENGTHS, CLUSTERS, _REPEATS = "lengths.csv", "clusters.csv", "repeats.csv"
_TOPICS, _TOPICS_KEPT, _DIFFICULTY = "ranking_by_topic.csv", "topics.npz", "difficulty.csv"
_SKILLS, _COMBINATIONS = "skills.csv", "combinations.csv"
_MOST_SQUARE, _NEIGHBOURS = 1000, 20
_FILES = frozenset(
    {
        "ranking.csv",
        "items.csv",
        _LENGTHS,
        CLUSTERS,
        _REPEATS,
        _TOPICS,
        _TOPICS_KEPT,
        _DIFFICULTY,
        _SKILLS,
        _COMBINATIONS,
        "pairwise.csv",
        "point.nc",
        "posterior.nc",
        "report.html",
        RECORD,
        Q_MATRIX,
        PROFILES,
        "abilities.csv",
        "ability_pairs.csv",
        "predictions.csv",
        "predicted_scores.csv",
    }
)
"""Files of a ranking, or of ability profiles."""
_OF_DAMAGE = (OSError, EOFError, KeyError, TypeError, ValueError, BadZipFile, zlib.error)


def check_output(folder: Path, *, overwrite: bool) -> None:
    """Make sure, before any work, that a run can be written."""
    shown = one_line(str(folder), 400)
    with saying_why(folder):
        _check_folder(folder, shown, overwrite)
    parent = next(p for p in folder.absolute().parents if os.path.lexists(p))
    if not parent.is_dir():
        raise ResponseError(f"{shown} lies below a file; name another folder with --out")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ResponseError(f"{shown} cannot be written: no permission in {parent}")


def _check_folder(folder: Path, shown: str, overwrite: bool) -> None:
    if os.path.lexists(folder) and not folder.is_dir():
        raise ResponseError(f"{shown} is a file; name a folder with --out")
    if not folder.exists() or not any(folder.iterdir()):
        return
    groups = _groups(folder)
    if not holds_run(folder):
        raise ResponseError(
            f"{shown} holds files that are not a run; name another folder with --out"
        )
    if not overwrite:
        raise ResponseError(f"{shown} already holds a run; pass --overwrite to replace it")
    foreign = [p for p in folder.iterdir() if p.name not in _FILES and p not in groups]
    foreign += [p for group in groups for p in group.iterdir() if p.name not in _FILES]
    if foreign:
        name = one_line(foreign[0].name)
        raise ResponseError(
            f"{shown} holds {name!r} beside a run, and --overwrite would delete it; move it away "
            f"or name another folder with --out"
        )


def _groups(folder: Path) -> list[Path]:
    return sorted(record.parent for record in folder.glob(f"group_*/{RECORD}"))


def write_folder(folder: Path, fill: Callable[[Path], None], *, overwrite: bool) -> None:
    """Fill a temporary folder, then move it into place as a whole."""
    check_output(folder, overwrite=overwrite)
    folder = folder.absolute()
    with saying_why(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".bayesirt-", dir=folder.parent) as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            new.mkdir()
            fill(new)
            if folder.exists() and _exchange(new, folder):
                return
            if folder.exists():
                folder.rename(old)
            try:
                new.rename(folder)
            except OSError:
                if old.exists():
                    old.rename(folder)
                raise


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders atomically; return False where that is not possible.

    With two renames in turn, a process that is killed in between would leave no folder there.
    """
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    cwd, exchanging = -100, 2
    paths = os.fsencode(one), os.fsencode(other)
    return rename is not None and rename(cwd, paths[0], cwd, paths[1], exchanging) == 0


def save_run(run: Run, folder: Path, report: str) -> None:
    """Write a run's files, and its report as HTML, into an empty folder."""
    tables = {
        "ranking.csv": run.ranking.table,
        "items.csv": run.items,
        "pairwise.csv": pairs_table(run.ranking.pairwise),
        _LENGTHS: run.gain and run.gain.summary,
        CLUSTERS: run.clusters and run.clusters.summary,
        _REPEATS: run.repeats and run.repeats.table,
        _DIFFICULTY: run.difficulty and run.difficulty.table,
        _SKILLS: run.skills and run.skills.effects,
        _TOPICS: run.topics and run.topics.table,
    }
    if run.skills and len(run.skills.combinations):
        tables[_COMBINATIONS] = run.skills.combinations
    run.point.save(folder / "point.nc")
    with_ranking(run.posterior, run.ranking).save(folder / "posterior.nc")
    if run.topics:
        save_topics(run.topics, folder / _TOPICS_KEPT)
    write_rest(folder, tables, report, run.record)


def write_rest(
    folder: Path, tables: Mapping[str, pd.DataFrame | None], report: str, record: Record[Any]
) -> None:
    """Write a run's files other than draws: its tables, report and record."""
    for name, table in tables.items():
        if table is not None:
            write_table(table, folder / name)
    (folder / "report.html").write_text(report, "utf-8")
    (folder / RECORD).write_text(record.to_json(), "utf-8")


def pairs_table(pairwise: pd.DataFrame) -> pd.DataFrame:
    """Return P(row above column) as a table: all pairs, or, of many subjects, neighbours.

    Columns are `subject` and one per subject. With more than 1,000 subjects there is a row per pair
    at most 20 places apart: `subject`, `other` (the lower of both) and `p_above`.
    """
    n = len(pairwise)
    if n <= _MOST_SQUARE:
        table = pairwise.reset_index(drop=True)
        table.insert(0, "subject", list(pairwise.index), allow_duplicates=True)
        return table
    one, offset = (x.ravel() for x in np.indices((n, _NEIGHBOURS)))
    inside = one + offset + 1 < n
    one, other = one[inside], (one + offset + 1)[inside]
    names, p_above = np.asarray(pairwise.index, object), pairwise.to_numpy()[one, other]
    return pd.DataFrame({"subject": names[one], "other": names[other], "p_above": p_above})


def holds_run(folder: Path) -> bool:
    """Return whether a folder holds a run, of one ranking or of several groups."""
    return os.path.isfile(folder / RECORD) or bool(_groups(folder))


def load_run(folder: Path) -> Run:
    """Read a run that `save_run` wrote; refuse a folder that holds none, or a damaged one."""
    shown = one_line(str(folder), 400)
    if not os.path.isfile(folder / RECORD):
        groups = _groups(folder)
        hint = (
            f"name one of its groups, such as {groups[0]}"
            if groups
            else f"make one with bayesirt rank --out {shown}"
        )
        raise ResponseError(f"{shown} holds no run; {hint}")
    if (folder / PROFILES).is_file():
        raise ResponseError(
            f"{shown} holds results by several abilities (bayesirt profile or rank --model mirt), "
            f"not by one; make those with bayesirt rank, without --model mirt"
        )
    try:
        record = Record.from_json((folder / RECORD).read_text("utf-8"), Settings.stored)
        posterior = _judged(Posterior.load(folder / "posterior.nc"), record)
        point = PointEstimate.load(folder / "point.nc")
        ranking = kept_ranking(posterior) or ranked(posterior, record.settings)[0]
        gain = _load_gain(folder / _LENGTHS, posterior, ranking)
        if misfit := record.diagnostics.get("misfit"):
            ranking = led_by_score(ranking, misfit)
        wrong = _load_wrong(record, posterior)
        path = folder / _TOPICS_KEPT
        topics = load_topics(path) if path.is_file() else None
        return Run(point, posterior, ranking, record, gain, wrong, topics=topics)
    except _OF_DAMAGE as error:
        reason = one_line(str(error), 120)
        raise ResponseError(f"the run in {shown} is damaged ({reason}); make it again") from error


def _judged(posterior: Posterior, record: Record[Settings]) -> Posterior:
    """Return draws with the verdict from the record, if it is complete."""
    names = {field.name for field in fields(Verdict)}
    if not names <= record.diagnostics.keys():
        return posterior
    values = {name: record.diagnostics[name] for name in names}
    return posterior.judged(Verdict(**values | {"complaints": tuple(values["complaints"])}))


def _load_gain(path: Path, posterior: Posterior, ranking: Ranking) -> LengthGain | None:
    """Read what lengths added, with the ranking's names: CSV changes some, but not their order."""
    if not posterior.has_speeds:
        return None
    table = pd.read_csv(path).assign(subject=list(ranking.summary["subject"]))
    return LengthGain(table, correlation(posterior))


def _load_wrong(record: Record[Settings], posterior: Posterior) -> "WrongLengths | None":
    """Read what lengths of wrong answers changed; the lengths themselves come from the draws."""
    if not posterior.has_wrong_lengths:
        return None
    from bayesirt.checks.predictive_gain import PredictionGain
    from bayesirt.checks.wrong_lengths import WrongLengths, wrong_factor

    gain = PredictionGain(**record.diagnostics["wrong_lengths"])
    return WrongLengths(wrong_factor(posterior), gain)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table that a spreadsheet can open."""
    path.write_bytes(csv_of(table).encode())


def csv_of(table: pd.DataFrame) -> str:
    """Return a table as CSV that a spreadsheet can open: no cell is taken for a formula."""
    columns = [
        values.map(_safe_cell) if values.dtype.kind == "O" else values
        for _, values in table.items()
    ]
    safe = pd.concat(columns, axis=1).set_axis([_safe_cell(c) for c in table.columns], axis=1)
    unusual = any("\r" in str(name) for name in (*safe.columns, *safe.iloc[:, 0]))
    quoting = csv.QUOTE_NONNUMERIC if unusual else csv.QUOTE_MINIMAL
    return safe.to_csv(index=False, lineterminator="\n", quoting=quoting)


def _safe_cell(value: object) -> object:
    return spreadsheet_safe(value) if isinstance(value, str) else value
