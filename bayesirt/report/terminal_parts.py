"""Building blocks of the command line's output."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os.path import commonprefix

import pandas as pd
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod
from rich.table import Table
from rich.text import Text

from bayesirt.names import one_line

MOST_ROWS = 50
"""Rows of a table that are printed."""

_FILE_WIDTH = 140
_NAMES = (
    "subject", "item", "cluster", "above", "below", "benchmark", "anchor", "topic", "best",
    "second", "third", "gains", "loses",
)  # fmt: skip
_LEFT = (*_NAMES, "", "why", "ability", "standing")
_APART = 2
"""Spaces between two columns of a table."""
_NAME_WIDTHS = 14, 40
"""Width to which long names shrink before a column is dropped, and their largest width."""

ALARM, CAUTION = "bold red", "bold yellow"
"""Styles of warnings that make a ranking void, and of other warnings."""


def new_console() -> Console:
    """Return a console; without a terminal it has a fixed, generous width."""
    console = Console(highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console
    return Console(highlight=False, width=_FILE_WIDTH)


class PlainTable:
    """A table that fits: it shortens long names, then drops the least important columns."""

    def __init__(self, columns: Sequence[str], drop: Sequence[str]) -> None:
        self.columns = columns
        self.drop = drop
        self.rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: str) -> None:
        """Add a row; trailing cells may be left out."""
        self.rows.append((*cells, *[""] * (len(self.columns) - len(cells))))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        positions, width = self._fitting(options.max_width)
        shorten = self._shorten(width)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for k in positions:
            justify: JustifyMethod = "left" if self.columns[k] in _LEFT else "right"
            table.add_column(Text(self.columns[k]), justify=justify, no_wrap=True)
        for row in self.rows:
            cells = (shorten(row[k]) if self.columns[k] in _NAMES else row[k] for k in positions)
            table.add_row(*map(Text, cells))
        yield table

    def _fitting(self, width: int) -> tuple[list[int], int]:
        """Return which columns fit, and the width of names."""
        least, most = _NAME_WIDTHS
        positions, drop = list(range(len(self.columns))), list(self.drop)
        while True:
            names = [k for k in positions if self.columns[k] in _NAMES]
            others = sum(self._width(k) for k in positions if k not in names)
            room = width - others - _APART * (len(positions) - 1)
            of_names = room // max(len(names), 1)
            needed = max((min(self._width(k), least) for k in names), default=0)
            if of_names >= needed or not drop:
                longest = max((self._width(k) for k in names), default=0)
                return positions, max(min(of_names, most, longest), 4)
            gone = self._places(drop.pop(0))
            positions = [k for k in positions if k not in gone]

    def _places(self, column: str) -> list[int]:
        """Return the places of a column and its interval; of the interval alone for ``x 90%``."""
        title = column.removesuffix(" 90%")
        position = next((k for k, name in enumerate(self.columns) if name == title), None)
        if position is None:
            return []
        interval = [k for k in (position + 1,) if self.columns[k : k + 1] == ("90%",)]
        return interval if title != column else [position, *interval]

    def _width(self, k: int) -> int:
        return max(map(cell_len, (self.columns[k], *(row[k] for row in self.rows))))

    def _shorten(self, width: int) -> Callable[[str], str]:
        """Return the way of shortening that keeps the most names distinct.

        Ways cut names in the middle, nearer to either end, or at their common beginning and end.
        """
        cells = (zip(self.columns, row, strict=True) for row in self.rows)
        names = {cell for row in cells for column, cell in row if column in _NAMES and cell}
        ways: list[Callable[[str], str]] = [
            partial(one_line, width=width, head=width * k // 4) for k in (2, 1, 3, 0)
        ]
        start, end = (len(commonprefix([x[::way] for x in names])) for way in (1, -1))  # noqa: RUF071

        def without_the_same(name: str) -> str:
            return one_line(f"…{name[start : len(name) - end]}…" if name else "", width)

        if min(map(len, names), default=0) > start + end:
            ways.append(without_the_same)
        return max(ways, key=lambda way: len({*map(way, names)}))


def new_table(*columns: str, drop: Sequence[str] = ()) -> PlainTable:
    """Return a plain table with columns of words aligned to the left.

    `drop` names the columns that a narrow terminal may omit, least important first: each goes with
    its interval, or, for ``x 90%``, the interval alone.
    """
    return PlainTable(columns, drop)


def say_more(console: Console, rows: pd.DataFrame, shown: int = MOST_ROWS) -> None:
    """Print how many rows were left out."""
    if len(rows) > shown:
        console.print(Text(f"... and {len(rows) - shown} more in the files"))


def say_first(console: Console, warnings: Sequence[str], *, sound: bool) -> None:
    """Print the warnings; if the draws are not sound, the first one says so."""
    for k, warning in enumerate(warnings):
        console.print(Text(warning, style=CAUTION if sound or k else ALARM))
