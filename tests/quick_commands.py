"""Commands that write their usual output, without fitting first."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from bank_data import items_step, score_step
from profile_data import fake_profile_run
from quick_engine import draw_near

from bayesirt.bank.folder import append_step, create_bank_folder, read_bank
from bayesirt.data.readers import read_responses
from bayesirt.data.responses import Responses
from bayesirt.profiles.profile_folder import load_profiles, save_profiles
from bayesirt.profiles.profile_run import ProfileRun
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.run import rank_responses
from bayesirt.ranking.run_folder import load_run, save_run
from bayesirt.ranking.settings import Settings

OLD, NEW = (f"<!doctype html><title>{age}</title>{' ' * 9999}" for age in ("old", "new"))
"""A page larger than the space left on the full disk of the tests."""


class Command(NamedTuple):
    """A command, and what stands at the place to which it writes.

    Attributes
    ----------
    words : str
        With ``{out}`` for that place, and names of `write_inputs` for what is read.
    prepare : callable
        Puts there, of a run, what the command finds.
    is_new : callable
        Reads what stands there whole, and returns whether the command has written it.
    place : str
        What is written is called.
    """

    words: str
    prepare: Callable[[Path, Run], object]
    is_new: Callable[[Path], bool]
    place: str = "out.parquet"

    def line(self, out: Path, inputs: Path) -> list[str]:
        places = {name: inputs / file for name, file in INPUTS.items()} | {"out": out}
        return ["bayesirt", *(word.format(**places) for word in self.words.split())]


INPUTS = {
    "results": "r.csv", "grown": "grown.csv", "answers": "a.csv", "q": "q.csv", "bank": "bank",
}  # fmt: skip


def write_inputs(folder: Path, n_items: int = 20) -> Path:
    """Write what commands read.

    Results of 30 subjects and more of them, the items' abilities, a small bank, and answers to its
    anchors.
    """
    rng = np.random.default_rng(0)
    right = rng.logistic(size=(30, n_items)) < np.linspace(-2, 2, 30)[:, None]
    rows = [f"m{i},q{j},{right[i, j]:d},law\n" for i, j in np.ndindex(right.shape)]
    folder.mkdir()
    results = "model,item,score,benchmark\n" + "".join(rows)
    (folder / "r.csv").write_text(results)
    (folder / "grown.csv").write_text(results + "new,q0,1,law\n")
    (folder / "q.csv").write_text("item,x\n" + "".join(f"q{j},1\n" for j in range(n_items)))
    create_bank_folder(folder / "bank", items_step("maths"), 2)
    (folder / "a.csv").write_text("model,item,score\nnew,maths 1,1\nnew,maths 3,0\n")
    return folder


def quick_run(inputs: Path) -> Run:
    settings = Settings(chains=2, warmup=20, draws=20, engine="laplace")
    with patch("bayesirt.ranking.run.sample_posterior", draw_near):
        return rank_responses(read_responses(inputs / "r.csv"), settings)


@cache
def quick_profiles() -> ProfileRun:
    return fake_profile_run(4, 2, 6)


@contextmanager
def without_fits(run: Run | None) -> Iterator[None]:
    """Let commands find a run, profiles, or a step of a bank as soon as they ask for it."""

    def rank(*given: Any, **more: Any) -> Run | None:
        return run

    def load(folder: Path) -> Run | None:
        return run and replace(run)

    def profile(*given: Any, **more: Any) -> ProfileRun:
        return quick_profiles()

    def nothing(*given: Any, **more: Any) -> None:
        pass

    def report(*of: Any) -> str:
        return NEW

    def create(folder: Path, *given: Any, **more: Any) -> object:
        return create_bank_folder(folder, items_step("law"), 2)

    def add(folder: Path, *given: Any, **more: Any) -> object:
        return append_step(folder, items_step("law", "add"))

    def score(folder: Path, *given: Any, **more: Any) -> object:
        return append_step(folder, score_step("maths"))

    with ExitStack() as stack:
        for name, quick in {
            "ranking.run.rank_responses": rank,
            "ranking.run_folder.load_run": load,
            "ranking.run_update.update_run": rank,
            "profiles.profile_run.profile_responses": profile,
            "bank.review.review_bank": nothing,
            "report.export.ranking_as_markdown": report,
            "report.run_files.render_report": report,
            "report.profile_html.render_profile_report": report,
            "report.bank_html.render_bank_report": report,
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


def _old_profiles(out: Path, run: Run) -> None:
    out.mkdir()
    save_profiles(quick_profiles(), out, OLD)


def _old_page(out: Path, run: Run) -> None:
    out.write_text(OLD)


def _old_bank(out: Path, run: Run) -> None:
    create_bank_folder(out, items_step("maths"), 2)


def _is_new_file(out: Path) -> bool:
    return read_responses(out).n_observed == 600


def _is_new_run(out: Path) -> bool:
    assert load_run(out).ranking.summary.shape[0] == 30
    return _is_new_page(out / "report.html")


def _are_new_profiles(out: Path) -> bool:
    assert load_profiles(out).profiles.summary.shape[0] == 8
    return _is_new_page(out / "report.html")


def _is_new_page(out: Path) -> bool:
    page = out.read_text("utf-8")
    assert page in (OLD, NEW)
    return page == NEW


def _is_new_bank(out: Path) -> bool:
    return read_bank(out).benchmark_names == ("law",)


def _is_grown(out: Path) -> bool:
    return len(read_bank(out).steps) == 2


COMMANDS = {
    "convert": Command("convert -q {results} {out}", _nothing, _is_new_file),
    "convert again": Command("convert -q {results} {out} --overwrite", _old_file, _is_new_file),
    "rank": Command("rank -q --no-check-fit {results} --out {out}", _nothing, _is_new_run, "run"),
    "rank again": Command(
        "rank -q --no-check-fit {results} --out {out} --overwrite", _old_run, _is_new_run, "run"
    ),
    "rank update": Command(
        "rank -q --no-check-fit {grown} --out {out} --update", _old_run, _is_new_run, "run"
    ),
    "profile again": Command(
        "profile -q {results} --q-matrix {q} --out {out} --overwrite",
        _old_profiles,
        _are_new_profiles,
        "run",
    ),
    "export": Command("export {bank} --out {out}", _old_page, _is_new_page, "out.md"),
    "bank create": Command(
        "bank create -q {out} --from {results}", _nothing, _is_new_bank, "suite"
    ),
    "bank add": Command("bank add -q {out} {results}", _old_bank, _is_grown, "suite"),
    "bank review": Command(
        "bank review -q {bank} --report {out}", _old_page, _is_new_page, "out.html"
    ),
    "score": Command("score -q {out} {answers}", _old_bank, _is_grown, "suite"),
}
