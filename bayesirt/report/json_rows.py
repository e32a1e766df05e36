"""Conversion of tables to rows for JSON."""

from typing import Any

import pandas as pd


def rows_for_json(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows for JSON, with None for NaN and infinities."""
    unknown = table.isna() | table.isin([float("inf"), -float("inf")])
    return list(table.astype(object).mask(unknown, None).to_dict("records"))
