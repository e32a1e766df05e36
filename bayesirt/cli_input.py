"""What commands that read results files share."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bayesirt.cli_options import Duplicates, ItemsIn

if TYPE_CHECKING:
    from bayesirt.responses import Responses


def read_input(
    path: Path,
    subject: str | None,
    item: str | None,
    score: str | None,
    trials: str | None,
    latency: str | None,
    items_in: ItemsIn | None,
    duplicates: Duplicates,
    threshold: float | None,
) -> "Responses":
    """Read a results file as the options say."""
    from bayesirt.readers import read_responses

    return read_responses(
        path,
        subject=subject,
        item=item,
        score=score,
        trials=trials,
        latency=latency,
        items_in=items_in and items_in.value,
        duplicates=duplicates.value,
        threshold=threshold,
    )


def announce(text: str) -> None:
    """Say on stderr how long sampling will take."""
    typer.echo(f"sampling: {text}", err=True)
