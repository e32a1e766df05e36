"""Topics of items, read from a column that describes items."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.data.table_columns import no_column
from bayesirt.errors import ResponseError
from bayesirt.names import one_line


def items_by_topic(responses: Responses, column: str) -> dict[str, NDArray[np.intp]]:
    """Return the positions of each topic's items, sorted by topic; omit items without a topic."""
    table = responses.item_metadata
    if column not in table:
        advice = "name a column of a long table, or a file with the columns item and topic"
        raise no_column(column, table.columns, otherwise=advice)
    names = topic_names(table[column])
    items = {name: np.flatnonzero(names == name) for name in sorted({*names} - {""})}
    if len(items) < 2:
        only = f"only the topic {one_line(next(iter(items)))!r}" if items else "no topic"
        raise ResponseError(
            f"`{one_line(column)}` holds {only}, so there is nothing to rank by; name another "
            f"column, or leave out --by"
        )
    return items


def shared_facts(responses: Responses) -> dict[str, NDArray[np.str_]]:
    """Return, as text, the columns of items whose values some items share; names fit files."""
    facts = {}
    for name, column in responses.item_metadata.items():
        values = topic_names(column).astype(str)
        if 1 < len(set(values)) < len(values):
            facts[str(name).replace("/", "_")] = values
    return facts


def topic_names(values: pd.Series) -> NDArray[np.object_]:
    """Return each item's topic as text, empty where there is none."""
    given = values.astype(object).where(values.notna(), "")
    return np.array([str(name).strip() for name in given], object)
