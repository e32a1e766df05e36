"""What a study leaves in its folder."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure


def write_study(
    folder: Path,
    tables: Mapping[str, pd.DataFrame],
    verdict: str,
    figures: Mapping[str, Figure],
) -> None:
    """Write tables as CSV, the verdict as text and figures as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
    (folder / "verdict.txt").write_text(verdict + "\n", "utf-8")
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
