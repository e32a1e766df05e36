"""Commands that write, without the fits before: each writes as it does after one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from bank_data import items_step, score_step

from bayesirt.bank.folder import append_step, create_bank_folder, read_bank
from bayesirt.readers import read_responses
from bayesirt.responses import Responses
from bayesirt.run import Run, Settings, rank_responses
from bayesirt.run_folder import load_run, save_run

OLD, NEW = (f"<!doctype html><title>{age}</title>" for age in ("old", "new"))
"""Reports of the run that a command finds and of the one that it writes."""


class Command(NamedTuple):
    """A command, and what stands at the place to which it writes.

    Attributes
    ----------
    words : str
        With ``{out}`` for that place, ``{results}`` and ``{answers}`` for files.
    prepare : callable
        Puts there, of a run, what the command finds.
    is_new : callable
        Reads what stands there whole, and returns whether the command has written it.
    """

    words: str
    prepare: Callable[[Path, Run], object]
    is_new: Callable[[Path], bool]

    def line(self, out: Path, inputs: Path) -> list[str]:
        places = {"out": out, "results": inputs / "r.csv", "answers": inputs / "a.csv"}
        return ["bayesirt", *(word.format(**places) for word in self.words.split()), "-q"]


def write_inputs(folder: Path) -> Path:
    """Write results of 30 subjects on 40 items, and answers to anchors of a small bank."""
    rng = np.random.default_rng(0)
    right = rng.logistic(size=(30, 40)) < np.linspace(-2, 2, 30)[:, None]
    rows = [f"m{i},q{j},{right[i, j]:d},law\n" for i, j in np.ndindex(right.shape)]
    folder.mkdir()
    (folder / "r.csv").write_text("model,item,score,benchmark\n" + "".join(rows))
    (folder / "a.csv").write_text("model,item,score\nnew,maths 1,1\nnew,maths 3,0\n")
    return folder


def quick_run(inputs: Path) -> Run:
    settings = Settings(chains=2, warmup=20, draws=20, engine="laplace")
    return rank_responses(read_responses(inputs / "r.csv"), settings)


@contextmanager
def without_fits(run: Run) -> Iterator[None]:
    """Let `rank` find a run, and the commands of banks a step, as soon as they ask for it."""

    def rank(*given: Any, **more: Any) -> Run:
        return run

    def report(of: Run) -> str:
        return NEW

    def create(folder: Path, *given: Any, **more: Any) -> object:
        return create_bank_folder(folder, items_step("law"), 2)

    def add(folder: Path, *given: Any, **more: Any) -> object:
        return append_step(folder, items_step("law", "add"))

    def score(folder: Path, *given: Any, **more: Any) -> object:
        return append_step(folder, score_step("maths"))

    with ExitStack() as stack:
        for name, quick in {
            "run.rank_responses": rank,
            "report.render_report": report,
            "bank.growing_suite.create_suite": create,
            "bank.growing_suite.add_benchmark": add,
            "bank.scoring.score_answers": score,
        }.items():
            stack.enter_context(patch(f"bayesirt.{name}", quick))
        yield


def _nothing(out: Path, run: Run) -> None:
    pass


def _old_file(out: Path, run: Run) -> None:
    Responses.from_arrays([[1, 0], [0, 1]]).to_parquet(out)


def _old_run(out: Path, run: Run) -> None:
    out.mkdir()
    save_run(run, out, OLD)


def _old_bank(out: Path, run: Run) -> None:
    create_bank_folder(out, items_step("maths"), 2)


def _is_new_file(out: Path) -> bool:
    return read_responses(out).n_observed == 1200


def _is_new_run(out: Path) -> bool:
    assert load_run(out).ranking.summary.shape[0] == 30
    report = (out / "report.html").read_text("utf-8")
    assert report in (OLD, NEW)
    return report == NEW


def _is_new_bank(out: Path) -> bool:
    return read_bank(out).benchmark_names == ("law",)


def _is_grown(out: Path) -> bool:
    return len(read_bank(out).steps) == 2


COMMANDS = {
    "convert": Command("convert {results} {out}", _nothing, _is_new_file),
    "convert again": Command("convert {results} {out} --overwrite", _old_file, _is_new_file),
    "rank": Command("rank {results} --out {out}", _nothing, _is_new_run),
    "rank again": Command("rank {results} --out {out} --overwrite", _old_run, _is_new_run),
    "bank create": Command("bank create {out} --from {results}", _nothing, _is_new_bank),
    "bank add": Command("bank add {out} {results}", _old_bank, _is_grown),
    "score": Command("score {out} {answers}", _old_bank, _is_grown),
}
