"""The `gate` command: whether the candidate has regressed, or whether that is still undecided."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesirt.cli.options import AsJson, Quiet, Results, Seed, prepare_jax, print_json, unset
from bayesirt.cli.reading_input import read_and_tell, with_reading_options
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

if TYPE_CHECKING:
    from bayesirt.data.readers.reading import Reading
    from bayesirt.data.responses import Responses
    from bayesirt.posterior import Posterior
    from bayesirt.ranking.gate import Through
    from bayesirt.ranking.gate_result import Gate

PASSES, REGRESSION, UNDECIDED = 0, 1, 3
"""Exit codes; bad input is 2, as in every command."""


class IfUndecided(StrEnum):
    """How an undecided verdict sets the exit code."""

    report = "report"
    passes = "pass"
    fails = "fail"


NewResults = Annotated[
    Path | None,
    typer.Argument(help="Results of the candidate, if they are in a separate file or folder."),
]
Baseline = Annotated[str | None, unset(help="Model to compare with.")]
Candidates = Annotated[
    list[str],
    unset(help="Model to judge. Repeatable: verdicts then hold for all of them jointly."),
]
Margin = Annotated[
    float,
    typer.Option(
        help="Largest acceptable drop: 0.02 is two points. For grades and scores, in their own "
        "unit."
    ),
]
Group = Annotated[
    str | None,
    unset(help="Column of a long file whose questions depend on each other, such as benchmark."),
]
History = Annotated[
    Path | None,
    unset(
        help="A folder that rank wrote for this suite, or an item bank: calibrated questions "
        "sharpen the comparison, most where the models answered different ones."
    ),
]
State = Annotated[
    Path | None, unset(help="State file for a verdict that stays valid however often you look.")
]
Together = Annotated[
    int,
    typer.Option(
        min=1,
        help="Number of metrics or suites, each judged by a separate call: verdicts then hold for "
        "all of them jointly.",
    ),
]
Cheaper = Annotated[
    bool, typer.Option("--cheaper", help="Pass only if the candidate also costs less.")
]
Undecided = Annotated[
    IfUndecided, typer.Option(help="Exit code of an undecided verdict: 3, 0 or 1.")
]
Page = Annotated[Path | None, unset(help="HTML file to write.")]
JUnit = Annotated[Path | None, unset(help="JUnit XML file to write.")]
AsMarkdown = Annotated[
    bool, typer.Option("--markdown", help="Print Markdown, as for a pull request.")
]


@with_reading_options
def gate(
    results: Results = None,
    new_results: NewResults = None,
    *,
    reading: "Reading",
    baseline: Baseline = None,
    candidate: Candidates = [],  # noqa: B006
    margin: Margin = 0.0,
    group: Group = None,
    history: History = None,
    sequential: State = None,
    together: Together = 1,
    cheaper: Cheaper = False,
    undecided: Undecided = IfUndecided.report,
    seed: Seed = 0,
    report: Page = None,
    junit: JUnit = None,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Test whether a candidate scores worse than a baseline.

    Exit code 0: it passes. 1: it regressed. 3: undecided. 2: bad input.
    """
    prepare_jax()
    from bayesirt.ranking.gate import gate_all
    from bayesirt.ranking.gate_result import SURE

    if sequential is not None and len(candidate) > 1:
        raise ResponseError("--sequential follows one candidate; leave out the others")
    talk = not (quiet or as_json or as_markdown)
    responses, baseline, candidates = _read(
        results, new_results, reading, baseline, candidate, talk
    )
    gates = gate_all(
        responses, baseline=baseline, candidates=candidates, margin=margin, group=group,
        history=None if history is None else _history(history, seed),
        sure=1 - (1 - SURE) / together, seed=seed,
    )  # fmt: skip
    if sequential is not None:
        gates = [_look(gates[0], sequential)]
    if report is not None or junit is not None:
        _write(gates, report, junit)
    if as_json:
        _print_json(gates)
    elif not quiet:
        say = (one.to_markdown() if as_markdown else one.to_text() for one in gates)
        typer.echo("\n\n".join(text.rstrip("\n") for text in say))
    raise typer.Exit(_exit_code(gates, undecided, cheaper))


def _write(gates: "list[Gate]", report: Path | None, junit: Path | None) -> None:
    from bayesirt.data.whole_file import write_whole
    from bayesirt.report.gate_html import render_gate_report
    from bayesirt.report.gate_junit import gate_as_junit

    if report is not None:
        write_whole(report, render_gate_report(gates).encode())
    if junit is not None:
        write_whole(junit, gate_as_junit(gates))


def _print_json(gates: "list[Gate]") -> None:
    records = [one.as_dict() | {"text": one.to_text()} for one in gates]
    print_json(records[0] if len(records) == 1 else records)


def _read(
    results: Path | None,
    new_results: Path | None,
    reading: "Reading",
    baseline: str | None,
    candidate: list[str],
    talk: bool,
) -> "tuple[Responses, str, list[str]]":
    """Read one or two inputs, and return the responses, the baseline and the candidates."""
    if results is None:
        raise ResponseError(
            "name one results file, or two: those of the baseline and the candidate"
        )
    if new_results is None:
        if baseline is None or not candidate:
            raise ResponseError("name the models to compare: --baseline A --candidate B")
        return read_and_tell(results, reading, talk=talk), baseline, candidate
    from bayesirt.data.readers.two_inputs import read_two

    responses, (before, after), logs = read_two(results, new_results, reading)
    if talk:
        for log_summary in logs:
            typer.echo(log_summary.to_text(), err=True)
    if baseline is None:
        baseline = _only(before, "--baseline")
    return responses, baseline, candidate or [_only(after, "--candidate")]


def _only(subjects: list[str], option: str) -> str:

    if len(subjects) > 1:
        listed = ", ".join(repr(one_line(name, 40)) for name in subjects[:5])
        raise ResponseError(f"there are {len(subjects)} models ({listed}); choose with {option}")
    return subjects[0]


def _history(folder: Path, seed: int) -> "Posterior | Through":
    from bayesirt.bank.folder import is_bank, read_bank
    from bayesirt.bank.gate_history import through_bank
    from bayesirt.ranking.run_folder import load_run

    if is_bank(folder):
        return through_bank(read_bank(folder), seed=seed)
    posterior = load_run(folder).posterior
    if not posterior.verdict.sound:
        raise ResponseError("the draws of the history are not sound; rank it again first")
    return posterior


def _look(gate: "Gate", state: Path) -> "Gate":
    """Bet on the answers that are new since the last look, and save the evidence."""
    from dataclasses import replace

    from bayesirt.ranking.sequential_evidence import load_evidence, look_again

    before = load_evidence(state, gate.baseline, gate.candidate, gate.margin, gate.sure)
    evidence = look_again(before, gate.pairs)
    evidence.save(state)
    return replace(gate, evidence=evidence)


def _exit_code(gates: "list[Gate]", undecided: IfUndecided, cheaper: bool) -> int:
    """Return the code of the worst verdict."""
    if any(one.passes is False for one in gates):
        return REGRESSION
    if any(one.passes is None for one in gates):
        return {"pass": PASSES, "fail": REGRESSION, "report": UNDECIDED}[undecided.value]
    return REGRESSION if cheaper and not all(one.cheaper for one in gates) else PASSES
