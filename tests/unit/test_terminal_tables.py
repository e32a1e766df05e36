"""Terminal tables at 60 and at 100 columns: their contents, and the columns dropped first."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from bayesirt.data.responses import Responses
from bayesirt.ranking.kept_items import keep_items
from bayesirt.ranking.run import Run
from bayesirt.ranking.separation import least_detectable, separate_neighbours
from bayesirt.report import terminal
from bayesirt.report.terminal_parts import PlainTable, new_console, new_table

MODELS = [f"some-vendor/model-{k:02d}-instruct-with-a-long-name" for k in range(30)]


@pytest.fixture(scope="module")
def named_run(small_run: Run) -> Run:
    """Return the stored run with long names that differ in the middle."""
    posterior = small_run.posterior
    new = dict(zip(posterior.subjects, MODELS, strict=True))
    tree = posterior.tree.copy()
    for group in ("posterior", "observed_data", "constant_data"):
        own = tree[group].to_dataset()
        tree[group] = type(tree)(
            own.assign_coords(subject=[new[str(s)] for s in own["subject"].values])
        )
    ranking = small_run.ranking
    return replace(
        small_run,
        posterior=type(posterior)(tree).judged(posterior.verdict),
        ranking=replace(
            ranking,
            summary=ranking.summary.replace({"subject": new}),
            pairwise=ranking.pairwise.rename(index=new, columns=new),
        ),
    )


def print_check(run: Run) -> None:
    responses = Responses.from_arrays(np.eye(30, 20, dtype=int) | np.tri(30, 20, dtype=int))
    terminal.print_check(responses, None)


def print_separation(run: Run) -> None:
    found = separate_neighbours(run.posterior, run.ranking)
    terminal.print_separation(found, least_detectable(run.posterior), (), sound=True)


PRINTS: dict[str, Callable[[Run], None]] = {
    "rank": lambda run: terminal.print_run(run, Path("run")),
    "check": print_check,
    "keep": lambda run: terminal.print_kept(keep_items(run.posterior, 5), run.ranking),
    "separate": print_separation,
}


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("command", PRINTS)
def test_nothing_is_wider_than_the_terminal(named_run, command, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    PRINTS[command](named_run)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= width
    if command in ("rank", "separate"):
        told = [any(f"{k:02d}{c}" in line for line in lines for c in "-…") for k in range(30)]
        assert all(told)


def shown(table: PlainTable, width: int, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    monkeypatch.setenv("COLUMNS", str(width))
    console = new_console()
    with console.capture() as captured:
        console.print(table)
    return [line.split() for line in captured.get().splitlines()]


def test_the_least_telling_columns_go_first(monkeypatch):
    table = new_table("subject", "score", "90%", "cost", drop=("cost", "score 90%", "score"))
    table.add_row("a-rather-long-name-of-a-model", "0.51", "0.4-0.6", "1,234")
    assert shown(table, 60, monkeypatch)[0] == ["subject", "score", "90%", "cost"]
    assert shown(table, 30, monkeypatch)[0] == ["subject", "score", "90%"]
    assert shown(table, 22, monkeypatch)[0] == ["subject", "score"]
    assert shown(table, 16, monkeypatch) == [["subject"], ["a-rather…a-model"]]


def test_names_are_shortened_where_they_stay_different(monkeypatch):
    ends, middles, deep = (new_table("subject") for _ in range(3))
    for k in range(3):
        ends.add_row(f"vendor/a-long-name-of-version-{k}")
        middles.add_row(f"vendor/model-{k}-instruct-v2-final")
        deep.add_row(f"some-vendor/a-model-{k}-instruct-v2-final-with-more")
    for table in (ends, middles, deep):
        names = [row[0] for row in shown(table, 20, monkeypatch)[1:]]
        assert len({*names}) == 3
        assert max(map(len, names)) <= 20


def test_a_pipe_has_room(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert new_console().width == 140
