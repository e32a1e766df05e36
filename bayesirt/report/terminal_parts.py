"""What all that the command line prints is made of."""

from collections.abc import Sequence

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

MOST_ROWS = 50
"""Of a table that are printed."""

_FILE_WIDTH = 140
_LEFT = (
    "subject", "item", "", "why", "ability", "standing", "best", "benchmark", "anchor", "topic",
    "best three", "gains", "loses",
)  # fmt: skip


ALARM, CAUTION = "bold red", "bold yellow"
"""Styles of what makes a ranking void, and of what else must be read first."""


def new_console() -> Console:
    """Return a console as wide as the table needs where nobody looks at its edge."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_FILE_WIDTH)


def new_table(*columns: str) -> Table:
    """Return a plain table, whose columns of words stand to the left."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        left = column in _LEFT
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    return table


def say_more(console: Console, rows: pd.DataFrame, shown: int = MOST_ROWS) -> None:
    """Print how many rows were left out."""
    if len(rows) > shown:
        console.print(Text(f"... and {len(rows) - shown} more in the files"))


def say_first(console: Console, warnings: Sequence[str], *, sound: bool) -> None:
    """Print what must be read first; where draws are not sound, the first says so."""
    for k, said in enumerate(warnings):
        console.print(Text(said, style=CAUTION if sound or k else ALARM))
