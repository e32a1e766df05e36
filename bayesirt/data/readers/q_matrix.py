"""Read a `QMatrix` from a wide or a long table, or from JSON."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.readers.column_roles import ITEM_NAMES
from bayesirt.data.readers.tables import read_table, read_text
from bayesirt.data.table_columns import check_columns, encode_names, list_columns, name_rows
from bayesirt.errors import ResponseError
from bayesirt.names import check_names, one_line

ABILITY_NAMES = ("ability", "skill", "attribute", "concept", "knowledge_concept")


def read_q_matrix(
    path: str | Path, *, item: str | None = None, ability: str | None = None
) -> QMatrix:
    """Read which abilities each item needs.

    Parameters
    ----------
    path : str or Path
        CSV, TSV, JSON Lines or Parquet, optionally with ``.gz``: wide, with a column for the item
        and a column of 0 and 1 for each ability; or long, with a row for each ability that an
        item needs. JSON: an object that maps items to lists of abilities, either alone or as
        ``items`` along with a list of all ``abilities``, which orders them.
    item : str, optional
        Column of the items' names; by default detected by `ITEM_NAMES`.
    ability : str, optional
        Column of the abilities' names in a long table; by default detected by `ABILITY_NAMES`.

    Returns
    -------
    QMatrix

    Raises
    ------
    ResponseError
        If the file cannot be read; the reason is one sentence.
    """
    path = Path(path)
    if path.suffix.lower() == ".json":
        return _from_json(_parse(read_text(path), one_line(path.name)), one_line(path.name))
    frame = read_table(path)
    check_columns(frame, [name for name in (item, ability) if name is not None])
    item = item or _find(frame, ITEM_NAMES)
    if item is None:
        raise ResponseError(
            f"{one_line(path.name)} has no column for the item; name it `item` (the columns are "
            f"{list_columns(frame)})"
        )
    ability = ability or _find(frame.drop(columns=item), ABILITY_NAMES)
    if ability is not None and not set(map(str, frame[ability])) <= {"0", "1"}:
        return _from_long(frame[item], frame[ability])
    names = [str(name) for name in name_rows(frame[item], "item")]
    check_names(names, "item")
    columns = frame.drop(columns=item)
    if columns.empty:
        raise ResponseError(
            f"{one_line(path.name)} has no column besides the items; add one for each ability"
        )
    return QMatrix.from_arrays(columns.to_numpy(object), names, [str(c) for c in columns])


def _find(frame: pd.DataFrame, common: Sequence[str]) -> str | None:
    by_lower = {str(c).strip().lower(): str(c) for c in reversed(frame.columns)}
    return next((by_lower[name] for name in common if name in by_lower), None)


def _from_long(item: pd.Series, ability: pd.Series) -> QMatrix:
    (rows, items), (columns, abilities) = (
        encode_names(item, "item"),
        encode_names(ability, "ability"),
    )
    counts = np.zeros((len(items), len(abilities)), int)
    np.add.at(counts, (rows, columns), 1)
    if counts.max() > 1:
        j, k = np.argwhere(counts > 1)[0]
        raise ResponseError(
            f"item {one_line(items[j])!r} names ability {one_line(abilities[k])!r} "
            f"{counts[j, k]} times; drop all but one of the rows"
        )
    return QMatrix(tuple(items), tuple(abilities), counts == 1)


def _parse(text: str, name: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        check_names([key for key, _ in pairs], "item")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=unique)
    except ResponseError:
        raise
    except (ValueError, RecursionError):
        raise ResponseError(
            f"{name} is not valid JSON; write an object that maps items to lists of abilities"
        ) from None


def _from_json(content: Any, name: str) -> QMatrix:
    named = isinstance(content, dict) and isinstance(content.get("items"), dict)
    listed = content.get("abilities", []) if named else []
    lists = content["items"] if named else content
    if not (isinstance(lists, Mapping) and lists):
        raise ResponseError(f"{name} holds no items; write an object that maps items to abilities")
    for owner, abilities in (("the list of all abilities", listed), *lists.items()):
        if not (isinstance(abilities, list) and all(isinstance(k, str) for k in abilities)):
            raise ResponseError(
                f"{name} does not hold a list of names at {one_line(owner)!r}; list the abilities"
            )
        check_names(abilities, f"at {one_line(owner)!r} the ability")
    of_items = dict.fromkeys(k for abilities in lists.values() for k in abilities)
    unlisted = [k for k in of_items if k not in listed]
    if listed and unlisted:
        raise ResponseError(
            f"{name} names the ability {one_line(unlisted[0])!r}, which is not among all "
            f"`abilities`; add it there, or correct it"
        )
    positions = {k: position for position, k in enumerate(listed or of_items)}
    needs = np.zeros((len(lists), len(positions)), bool)
    for row, abilities in zip(needs, lists.values(), strict=True):
        row[[positions[k] for k in abilities]] = True
    return QMatrix(tuple(lists), tuple(positions), needs)
