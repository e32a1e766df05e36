"""The file that replications are appended to as they end, so that a study can go on later."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bayesirt.errors import ResponseError
from bayesirt.names import one_line

_SETTINGS, _ROWS = "study.json", "replications.csv"
_WORDS = frozenset({"engine", "method", "warned", "failed"})


class ReplicationLog:
    """Rows of a study, in memory and, where a folder is given, in a file."""

    def __init__(
        self, columns: Sequence[str], settings: Mapping[str, Any], folder: Path | None = None
    ) -> None:
        self._columns = list(columns)
        self._rows: list[dict[str, Any]] = []
        self._path = None if folder is None else folder / _ROWS
        if folder is None:
            return
        try:
            _claim(folder, settings)
            self._rows = _read(folder / _ROWS, self._columns)
        except OSError as error:
            shown = one_line(str(folder), 400)
            raise ResponseError(f"{shown} cannot be written: {error.strerror}") from error

    def append(self, row: Mapping[str, Any]) -> None:
        """Keep a row; one write a row, so that a study cut short loses none but the last."""
        self._rows.append(dict(row))
        if self._path is not None:
            with self._path.open("a", encoding="utf-8", newline="") as file:
                csv.DictWriter(file, self._columns, lineterminator="\n").writerow(row)

    def values_of(self, columns: Sequence[str]) -> set[tuple[Any, ...]]:
        """Return the values that these columns hold together."""
        return {tuple(row[name] for name in columns) for row in self._rows}

    @property
    def table(self) -> pd.DataFrame:
        """All rows; numbers are floats, NaN where the engine failed."""
        table = pd.DataFrame(self._rows, columns=self._columns)
        numbers = [name for name in self._columns if name not in _WORDS]
        return table.astype(dict.fromkeys(numbers, float))


def _claim(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings, or make sure that the folder's are the same."""
    folder.mkdir(parents=True, exist_ok=True)
    path, text = folder / _SETTINGS, json.dumps(settings, indent=2, sort_keys=True) + "\n"
    shown = one_line(str(folder), 400)
    if not path.exists():
        if any(folder.iterdir()):
            raise ResponseError(f"{shown} holds files that are no study; name another folder")
        path.write_text(text, "utf-8")
    elif path.read_text("utf-8") != text:
        raise ResponseError(
            f"{shown} holds a study with other settings (see {_SETTINGS}); name another folder"
        )


def _read(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Read the rows, cutting off one that was not written to its end."""
    whole = path.read_bytes() if path.exists() else b""
    whole = whole[: whole.rfind(b"\n") + 1]
    if not whole:
        path.write_text(",".join(columns) + "\n", "utf-8")
        return []
    path.write_bytes(whole)
    header, *lines = csv.reader(whole.decode().splitlines())
    if header != list(columns):
        raise ResponseError(f"{one_line(str(path), 400)} has other columns; name another folder")
    return [
        {k: v if k in _WORDS else float(v or "nan") for k, v in zip(columns, line, strict=True)}
        for line in lines
    ]
