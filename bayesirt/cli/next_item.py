"""The `next-item` command: adaptive testing on the items of a run or of a bank."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesirt.cli.options import (
    AsJson,
    NewAnswers,
    NextBy,
    NextByOption,
    NumberOfItems,
    OneSubject,
    Seed,
    StopWidth,
    prepare_jax,
    print_json,
)
from bayesirt.cli.reading_input import read_new_answers, with_answer_options

if TYPE_CHECKING:
    from bayesirt.data.readers.reading import Reading
    from bayesirt.inference.ability_belief import Answers


@with_answer_options
def next_item(
    calibrated: Annotated[Path, typer.Argument(help="A folder that rank wrote, or an item bank.")],
    answers: NewAnswers = None,
    subject: OneSubject = None,
    n: NumberOfItems = 5,
    criterion: NextByOption = NextBy.information,
    stop_width: StopWidth = None,
    *,
    reading: "Reading",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Estimate a new subject's ability so far, and suggest which questions to ask next."""
    prepare_jax()
    from bayesirt.bank.adaptive import check_stop_width, suggest_items
    from bayesirt.bank.folder import is_bank, read_bank
    from bayesirt.ranking.run_folder import load_run
    from bayesirt.report import terminal

    def read(items: Sequence[str], **known: Any) -> "dict[str, Answers] | None":
        if answers is None:
            return None
        return read_new_answers(answers, items, reading, talk=not as_json, **known)

    check_stop_width(stop_width)
    if is_bank(calibrated):
        from bayesirt.bank.next_anchors import suggest_anchors
        from bayesirt.report import terminal_bank

        bank = read_bank(calibrated)
        given = read(bank.items.names)
        anchors = suggest_anchors(bank, given, key=seed, subject=subject)
        if as_json:
            print_json(terminal_bank.next_anchors_as_json(anchors, n, stop_width))
        else:
            terminal_bank.print_next_anchors(anchors, n, stop_width)
        return
    posterior = load_run(calibrated).posterior
    given = read(posterior.items, scale=posterior.answers)
    items = suggest_items(posterior, given, subject=subject, criterion=criterion.value)
    if as_json:
        print_json(terminal.next_items_as_json(items, posterior.verdict, n, stop_width))
    else:
        terminal.print_next_items(items, posterior.verdict, n, stop_width)
