"""Conversion of the columns of a long table into positions, metadata, lengths and costs."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.score_values import Where, parse_numbers
from bayesirt.errors import ResponseError
from bayesirt.names import first_few, one_line

_MOST_LISTED = 12
OWN_COLUMNS = frozenset({"subject", "item", "successes", "trials", "latency", "cluster", "cost"})


@dataclass(frozen=True)
class LongColumns:
    """Column names of a table with one row per response."""

    subject: Hashable = "subject"
    item: Hashable = "item"
    score: Hashable = "score"
    trials: Hashable = None
    latency: Hashable = None
    cluster: Hashable = None
    cost: Hashable = None
    item_metadata: Sequence[Hashable] = ()  # Columns that describe items.
    subject_metadata: Sequence[Hashable] = ()  # Columns that describe subjects.

    @property
    def values(self) -> dict[str, Hashable]:
        """Columns of the answers by role."""
        roles = {"score": self.score, "trials": self.trials, "latency": self.latency}
        return {role: column for role, column in roles.items() if column}

    @property
    def named(self) -> list[Hashable]:
        """All named columns."""
        of_subjects = [column for column in (self.cluster, self.cost) if column]
        of_cells = [self.subject, self.item, *self.values.values()]
        return [*of_cells, *self.item_metadata, *self.subject_metadata, *of_subjects]


def check_columns(frame: pd.DataFrame, wanted: Iterable[Hashable]) -> None:
    """Refuse a table that lacks a wanted column, or has it twice."""
    for column in wanted:
        count = sum(column == other for other in frame.columns)
        if not count:
            near = get_close_matches(str(column), [str(name) for name in frame.columns], 1)
            hint = f"did you mean `{one_line(near[0])}`? " if near else ""
            raise ResponseError(
                f"no column `{one_line(str(column))}`; {hint}the columns are {list_columns(frame)}"
            )
        if count > 1:
            raise ResponseError(f"the column `{one_line(str(column))}` is duplicated; drop one")


def no_column(
    column: str, known: Iterable[object], kind: str = "item", otherwise: str = "they have none"
) -> ResponseError:
    """Return the error for a column that does not describe the items or subjects."""
    names = [str(name) for name in known]
    hint = f"they have {', '.join(map(one_line, names[:_MOST_LISTED]))}" if names else otherwise
    if near := get_close_matches(column, names, 1):
        hint = f"did you mean {near[0]!r}?"
    return ResponseError(f"the {kind}s have no column {one_line(column)!r}; {hint}")


def is_blank(values: pd.Series) -> "pd.Series[bool]":
    """Return where a column is missing or blank."""
    return values.isna() | (values.astype(str).str.strip() == "")


def list_columns(frame: pd.DataFrame) -> str:
    """List the first columns of a table for a sentence."""
    return first_few([one_line(str(column), 24) for column in frame.columns], _MOST_LISTED)


def encode_names(names: pd.Series, kind: str) -> tuple[NDArray[np.int32], list[str]]:
    """Return the position of each row's name among the unique names, in order of appearance."""
    encoding = _distinct(names)
    if encoding is None:
        codes, unique = pd.factorize(name_rows(names, kind))
    else:
        positions, distinct = encoding
        renamed, unique = pd.factorize(name_rows(distinct, kind))
        codes = renamed[positions]
    return codes.astype(np.int32), [str(name) for name in unique]


def _distinct(names: pd.Series) -> tuple[NDArray[np.intp], pd.Series] | None:
    """Return each row's position among the distinct names, if these are plain and complete."""
    categories = isinstance(names.dtype, pd.CategoricalDtype)
    if not (categories or isinstance(names.dtype, pd.StringDtype) or names.dtype.kind in "iu"):
        return None
    codes, distinct = pd.factorize(names)
    values = pd.Series(distinct.categories[distinct.codes] if categories else distinct)
    return None if (codes < 0).any() or (values == "").any() else (codes, values)


def name_rows(names: pd.Series, kind: str) -> pd.Series | NDArray[np.object_]:
    """Return the name of each row as text."""
    text = _as_text(names)
    missing = names.isna().to_numpy() | np.asarray(text == "", bool)
    if missing.any():
        refuse_nameless(kind, int(np.argmax(missing)))
    return text


def refuse_nameless(kind: str, row: int) -> NoReturn:
    """Refuse a row without a name."""
    raise ResponseError(
        f"the {kind}'s name is missing in data row {row + 1}; fill it in or leave the row out"
    )


def _as_text(values: pd.Series) -> pd.Series | NDArray[np.object_]:
    if isinstance(values.dtype, pd.StringDtype):
        return values.fillna("")
    text = np.empty(len(values), object)
    text[:] = [
        str(v, "utf-8", "surrogateescape") if isinstance(v, bytes) else str(v) for v in values
    ]
    return text


def first_varying(values: pd.Series, item: NDArray[np.integer]) -> int | None:
    """Return the position of the first item whose rows differ in a column, or None."""
    text = values if isinstance(values.dtype, pd.StringDtype) else _as_text(values)
    code = np.where(values.isna().to_numpy(), -1, pd.factorize(text)[0])
    first = np.unique(item, return_index=True)[1]
    varies = code != code[first[item]]
    return int(item[np.argmax(varies)]) if varies.any() else None


def describe_items(
    frame: pd.DataFrame,
    item: NDArray[np.integer],
    items: Sequence[str],
    columns: Sequence[Hashable],
    kind: str = "item",
) -> pd.DataFrame:
    """Return the columns that describe items or subjects, with one row for each."""
    for column in columns:
        varying = first_varying(frame[column], item)
        if varying is not None:
            raise ResponseError(
                f"`{one_line(str(column))}` differs between the rows of {kind} "
                f"{one_line(items[varying])!r}; leave the column out, or make it part of the "
                f"{kind}'s name"
            )
    if not columns:
        return pd.DataFrame(index=pd.Index(items, dtype=object))
    first = np.unique(item, return_index=True)[1]
    return frame[list(columns)].iloc[first].set_axis(pd.Index(items, dtype=object), axis=0)


def parse_latency(values: pd.Series, column: str, where: Where) -> NDArray[np.float64]:
    """Return response lengths or times; NaN where they are missing or zero."""
    parsed = parse_amounts(values, column, where, "response length or time")
    return np.where(parsed == 0, np.nan, parsed)


def parse_amounts(values: pd.Series, column: str, where: Where, kind: str) -> NDArray[np.float64]:
    """Return non-negative amounts; NaN where they are missing."""
    words = {"", "na", "nan", "none", "null"}
    missing = values.isna().to_numpy()
    if not pd.api.types.is_numeric_dtype(values.dtype):
        missing = missing | np.array([str(v).strip().lower() in words for v in values], bool)
    parsed = np.full(len(values), np.nan)
    observed = np.flatnonzero(~missing)
    parsed[observed] = parse_numbers(
        values.iloc[observed], column, lambda k: where(int(observed[k])),
        f"rename the column if it is not a {kind}",
    )  # fmt: skip
    if (parsed < 0).any():
        row = int(np.argmax(parsed < 0))
        raise ResponseError(
            f"`{column}` must not be negative, got {parsed[row]:g} {where(row)}; empty the cell"
        )
    return parsed


def check_index(metadata: pd.DataFrame, names: Sequence[str], kind: str) -> None:
    """Refuse metadata without exactly one row for each item or subject."""
    if list(metadata.index) != list(names):
        raise ResponseError(
            f"the {kind} metadata must have one row for each {kind}, in their order"
        )


def check_tables_of_items(
    items: Sequence[str], metadata: pd.DataFrame, q_matrix: pd.DataFrame | None
) -> None:
    """Refuse metadata or a Q-matrix without exactly one row for each item."""
    taken = [c for c in metadata.columns if c in OWN_COLUMNS]
    if taken:
        raise ResponseError(f"item metadata cannot be named {taken[0]!r}; rename the column")
    for label, table in (("item metadata", metadata), ("Q-matrix", q_matrix)):
        if table is not None and list(table.index) != list(items):
            raise ResponseError(f"the {label} must have one row for each item, in their order")
    if q_matrix is not None and not q_matrix.isin([0, 1]).to_numpy().all():
        raise ResponseError("the Q-matrix must hold only 0 and 1")
