"""Questions about items in batches; wrong answers are asked again, finally one item at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bayesirt.profiles.annotation.answers import BadAnswer, Lists
from bayesirt.profiles.annotation.journal import Journal
from bayesirt.profiles.annotation.prompts import Question
from bayesirt.progress import progress_bar

MakeQuestion = Callable[[Mapping[str, str]], Question]
Parse = Callable[[str, Sequence[str]], tuple[Lists, dict[str, str]]]


@dataclass(frozen=True)
class Inquiry:
    """A question to be asked about every item."""

    title: str  # Title of the progress bar.
    question: MakeQuestion  # From texts by id to the question about them.
    # From an answer and the ids to the lists of abilities and to faults, both by id.
    parse: Parse


@dataclass
class Findings:
    """Results of an inquiry."""

    lists: Lists = field(default_factory=dict)  # Abilities by item, in the items' order.
    faults: dict[str, str] = field(default_factory=dict)  # Reasons why other items have none.


def inquire(
    inquiry: Inquiry, texts: Mapping[str, str], journal: Journal, *, batch_size: int, retries: int
) -> Findings:
    """Ask about all items, a batch at a time."""
    items, findings = list(texts), Findings()
    with progress_bar(inquiry.title) as show:
        for start in range(0, len(items), batch_size):
            batch = items[start : start + batch_size]
            lists, faults = _ask_batch(inquiry, {k: texts[k] for k in batch}, journal, retries)
            findings.lists |= {item: lists[item] for item in batch if item in lists}
            findings.faults |= faults
            if show is not None:
                show(start + len(batch), len(items))
    return findings


def ask_again(journal: Journal, question: Question, attempt: int, reason: str) -> str:
    """Return the answer to a question, which from the second attempt on names what was wrong."""
    return journal.answer(question if attempt == 1 else question.again(attempt, reason))


def _ask_batch(
    inquiry: Inquiry, texts: Mapping[str, str], journal: Journal, retries: int
) -> tuple[Lists, dict[str, str]]:
    lists: Lists = {}
    faults = dict.fromkeys(texts, "")
    for attempt in range(1, retries + 2):
        alone = 1 < attempt == retries + 1
        for group in _groups(faults, alone=alone):
            usable, faults_now = _ask_group(inquiry, texts, group, journal, attempt)
            lists |= usable
            faults = {k: v for k, v in faults.items() if k not in usable} | faults_now
        if not faults:
            break
    return lists, faults


def _groups(faults: Mapping[str, str], *, alone: bool) -> Iterator[dict[str, str]]:
    """Yield groups of items to ask about together, with what was wrong with them before."""
    if alone:
        yield from ({item: reason} for item, reason in faults.items())
    else:
        yield dict(faults)


def _ask_group(
    inquiry: Inquiry,
    texts: Mapping[str, str],
    group: Mapping[str, str],
    journal: Journal,
    attempt: int,
) -> tuple[Lists, dict[str, str]]:
    """Ask about some items under numeric ids, so that their names never reach the LLM."""
    item_of = {str(k): item for k, item in enumerate(group, 1)}
    question = inquiry.question({key: texts[item] for key, item in item_of.items()})
    reasons = _by_reason({key: group[item] for key, item in item_of.items()})
    answer = ask_again(journal, question, attempt, reasons)
    try:
        lists, faults = inquiry.parse(answer, list(item_of))
    except BadAnswer as error:
        return {}, dict.fromkeys(group, str(error))
    named = {item_of[key]: value for key, value in lists.items()}
    return named, {item_of[key]: reason for key, reason in faults.items()}


def _by_reason(reasons: Mapping[str, str]) -> str:
    ids: dict[str, list[str]] = {}
    for key, reason in reasons.items():
        ids.setdefault(reason, []).append(key)
    return "\n".join(f"- item {', '.join(keys)}: {reason}" for reason, keys in ids.items())
