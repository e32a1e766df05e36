"""Review sheets with some items for people to check, safe to open in a spreadsheet program."""

import csv
import io
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.whole_file import write_whole
from bayesirt.errors import ResponseError
from bayesirt.names import one_line, spreadsheet_safe
from bayesirt.profiles.annotation.annotation import Annotation

ITEM, TEXT, ABILITIES, VERDICT = "item", "text", "abilities", "ok or right abilities"
OK = "ok"

_LONGEST_TEXT = 30_000
"""Longest text shown, as a cell of a spreadsheet holds 32,767 characters."""


def spot_check(
    annotation: Annotation,
    items: Mapping[str, str],
    path: str | Path,
    *,
    seed: int,
    share: float = 0.1,
) -> list[str]:
    """Write a sheet of randomly drawn items for people to check.

    Parameters
    ----------
    annotation : Annotation
    items : mapping of str
        From item to text.
    path : str or Path
        CSV file, in UTF-8. Its last column is empty: write ``ok`` there if the abilities are
        right, or else list the right ones, separated by ``;``. `read_corrections` reads it.
    seed : int
    share : float
        Share of the annotated items to draw, rounded up.

    Returns
    -------
    list of str
        The items drawn, in the annotation's order.

    Raises
    ------
    ResponseError
        If the share is invalid, a text is missing, or the file already exists.

    Notes
    -----
    Items are drawn evenly along their rarest abilities, each with the same probability, so that
    rare abilities are checked in proportion to their share of items, and the estimated share of
    wrong items is unbiased.

    References
    ----------
    Zhang et al. (2026), Section 2.3: 10% are checked.
    """
    path, q = Path(path), annotation.q_matrix
    if not 0 < share <= 1:
        raise ResponseError(f"`share` must be above 0 and at most 1, got {share}")
    if path.exists():
        raise ResponseError(
            f"{one_line(str(path), 400)} already exists and may hold corrections; name another file"
        )
    drawn = [q.items[k] for k in _draw(q, share, seed)]
    without = [item for item in drawn if item not in items]
    if without:
        raise ResponseError(f"item {one_line(without[0])!r} has no text; pass all items' texts")
    rows = [(k, _shown_text(items[k]), join_names(annotation.needs[k])) for k in drawn]
    write_whole(path, _csv([(ITEM, TEXT, ABILITIES, VERDICT), *((*row, "") for row in rows)]))
    return drawn


def join_names(names: Sequence[str]) -> str:
    """Return names as one cell, such as ``algebra; logic``; quoted as in CSV where necessary.

    >>> join_names(["algebra", "sets; logic"])
    'algebra; "sets; logic"'
    """
    return "; ".join(_quoted(name) for name in names)


def split_names(cell: str) -> list[str]:
    r"""Return the names in a cell, which are separated by semicolons or line breaks.

    >>> split_names('algebra; "sets; logic"\ncounting;')
    ['algebra', 'sets; logic', 'counting']
    """
    lines = io.StringIO(cell, newline="")
    rows = csv.reader(lines, delimiter=";", skipinitialspace=True, strict=True)
    return [name for row in rows for name in row if name]


def escaped(cell: str) -> str:
    """Escape a cell so that no spreadsheet program takes it for a formula; see `unescaped`.

    >>> escaped("=1+1"), escaped("'tis"), escaped("x")
    ("'=1+1", "''tis", 'x')
    """
    return f"'{cell}" if cell.startswith("'") else spreadsheet_safe(cell)


def unescaped(cell: str) -> str:
    """Return the original of an escaped cell."""
    return cell.removeprefix("'")


def _draw(q: QMatrix, share: float, seed: int) -> NDArray[np.intp]:
    """Draw items at even steps along their rarest abilities, from a random start."""
    rng = np.random.default_rng(seed)
    counts = q.needs.sum(0)
    rarest = np.where(q.needs, counts, q.n_items + 1).argmin(1)
    order = np.lexsort((rng.random(q.n_items), rarest))
    n = ceil(share * q.n_items)
    steps = ((rng.random() + np.arange(n)) * (q.n_items / n)).astype(np.intp)
    return np.sort(order[np.minimum(steps, q.n_items - 1)])


def _quoted(name: str) -> str:
    plain = name == name.strip() and not any(c in name for c in ';"\r\n')
    return name if plain else '"' + name.replace('"', '""') + '"'


def _shown_text(text: str) -> str:
    text = text.encode("utf-8", "replace").decode().replace("\0", "")
    left_out = len(text) - _LONGEST_TEXT
    if left_out <= 0:
        return text
    return f"{text[:_LONGEST_TEXT]}\n[{left_out:,} characters left out here]"


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    """Return rows as CSV, with the byte-order mark by which spreadsheet programs detect UTF-8."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerows([escaped(cell) for cell in row] for row in rows)
    return file.getvalue().encode("utf-8-sig")
