"""Tables as JSON can hold them."""

from typing import Any

import pandas as pd


def rows_for_json(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows for JSON, which knows neither NaN nor numbers beyond all bounds."""
    unknown = table.isna() | table.isin([float("inf"), -float("inf")])
    return list(table.astype(object).mask(unknown, None).to_dict("records"))
