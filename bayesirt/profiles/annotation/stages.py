"""Stages from items' texts to a Q-matrix: propose abilities, merge them, and name them per item."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bayesirt.errors import ResponseError
from bayesirt.names import check_names, one_line
from bayesirt.profiles.annotation.annotation import Annotation, Failure
from bayesirt.profiles.annotation.answers import BadAnswer, Lists, parse_abilities, parse_lists
from bayesirt.profiles.annotation.batches import Findings, Inquiry, ask_again, inquire
from bayesirt.profiles.annotation.journal import Ask, Journal
from bayesirt.profiles.annotation.prompts import ask_for_mapping, ask_for_pool, ask_for_taxonomy

_MOST_PROPOSED = 400
_MOST_ABILITIES = 200
_NO_TEXT = "it has no text"


@dataclass(frozen=True)
class Manner:
    """Options of `annotate` for how questions are asked."""

    guidance: str = ""
    batch_size: int = 10
    most_characters: int = 4000
    most_abilities: int = 40
    retries: int = 2

    def __post_init__(self) -> None:
        least = {"batch_size": 1, "most_characters": 100, "most_abilities": 1, "retries": 0}
        for name, limit in least.items():
            if (value := getattr(self, name)) < limit:
                raise ResponseError(f"`{name}` must be at least {limit}, got {value}")
        if self.most_abilities > _MOST_ABILITIES:
            raise ResponseError(
                f"`most_abilities` must be at most {_MOST_ABILITIES}, got {self.most_abilities}"
            )


def annotate(
    items: Mapping[str, str],
    abilities: Mapping[str, str] | None,
    ask: Ask,
    *,
    journal: str | Path | None = None,
    llm: str = "",
    **options: Any,
) -> Annotation:
    """Ask an LLM which abilities each item needs.

    Parameters
    ----------
    items : mapping of str
        From an item's name to its text.
    abilities : mapping of str or None
        From an ability's name to its definition, which may be empty; `taxonomy` provides some. With
        None, the LLM first proposes abilities item by item (the pool) and merges them into a list
        (the taxonomy).
    ask : callable
        Your function from a system message and a user message to the LLM's answer; None counts as
        an empty answer. Its exceptions end the call.
    journal : str or Path, optional
        File of answers, written as they arrive. With the same file, another call repeats no
        question that was answered, even if the answer was refused; a higher `retries` then asks
        only what is still open. To reuse the answers, add new items at the end.
    llm : str
        Description of the LLM and its settings; answers in the journal are used only if it is the
        same.

    Other Parameters
    ----------------
    guidance : str
        Your description of the test: its domain, how fine abilities should be, mistakes that a spot
        check showed.
    batch_size : int
        Items per question, by default 10.
    most_characters : int
        Longest text of an item, by default 4,000; a longer one is shortened in the middle, with a
        note that says so.
    most_abilities : int
        Largest number of abilities that the LLM may define, by default 40 and at most 200.
    retries : int
        How often an unusable answer is asked for again, with what was wrong; by default twice. The
        last time, each item is asked about separately.

    Returns
    -------
    Annotation
        Items for which no answer could be used are in `Annotation.failures`, with reasons.

    Raises
    ------
    ResponseError
        For unusable items, abilities or options, and a journal file that is not a journal.

    Notes
    -----
    Items' names never reach the LLM, and their texts appear only between lines with a mark that
    depends on all of them. A text with instructions may still mislead the LLM about the abilities
    that this batch needs; it cannot introduce abilities that are not on the list, nor affect other
    batches. Have people check a share of the items: `spot_check`.

    References
    ----------
    Zhang et al. (2026), Section 2.3 and Appendix A, for the three stages; the prompts are this
    package's own.

    Examples
    --------
    >>> def ask(system, user):
    ...     return 'Sure! {"items": {"1": ["algebra"], "2": ["algebra", "counting"]}}'
    >>> items = {"q1": "Solve 2x = 6.", "q2": "In how many ways is x + y = 6 in whole numbers?"}
    >>> abilities = {"algebra": "Solving equations.", "counting": "Counting without listing."}
    >>> annotate(items, abilities, ask).needs
    {'q1': ('algebra',), 'q2': ('algebra', 'counting')}
    """
    manner = Manner(**options)
    _check_texts(items, "item")
    if abilities is not None:
        _check_texts(abilities, "ability")
        abilities = {name: _valid(definition) for name, definition in abilities.items()}
    whole = {item: _valid(text) for item, text in items.items()}
    texts = {
        k: _shortened(text, manner.most_characters) for k, text in whole.items() if text.strip()
    }
    asker = Journal(ask, None if journal is None else Path(journal), llm)
    failures = [Failure(item, "mapping", _NO_TEXT) for item in items if item not in texts]
    pool: dict[str, int] = {}
    if abilities is None:
        abilities, pool, more = _abilities_of(texts, asker, manner)
        failures += more
    mapped = _map_items(texts, abilities, asker, manner) if abilities else Findings()
    failures += [Failure(item, "mapping", reason) for item, reason in mapped.faults.items()]
    cut = tuple(item for item in texts if len(whole[item]) > manner.most_characters)
    return Annotation(
        mapped.lists, dict(abilities), tuple(failures), pool, cut, asker.n_asked, asker.n_known
    )


def _abilities_of(
    texts: Mapping[str, str], journal: Journal, manner: Manner
) -> tuple[dict[str, str], dict[str, int], list[Failure]]:
    """Return the abilities that the LLM proposes for items, their pool, and failures."""
    question = partial(ask_for_pool, guidance=manner.guidance)
    proposing = Inquiry("proposing abilities", question, parse_lists)
    proposed = inquire(
        proposing, texts, journal, batch_size=manner.batch_size, retries=manner.retries
    )
    failures = [Failure(item, "pool", reason) for item, reason in proposed.faults.items()]
    pool = _counts(proposed.lists)
    if not pool:
        return {}, pool, failures
    try:
        return _merge(pool, journal, manner), pool, failures
    except BadAnswer as error:
        failures += [Failure(item, "taxonomy", str(error)) for item in texts]
        return {}, pool, failures


def _counts(lists: Lists) -> dict[str, int]:
    """Return the number of items each ability was proposed for, ignoring case and blanks."""
    first: dict[str, str] = {}
    counts: dict[str, int] = {}
    for row in lists.values():
        spelled = {first.setdefault(" ".join(name.casefold().split()), name) for name in row}
        for name in spelled:
            counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: pair[0].casefold()))


def _merge(pool: Mapping[str, int], journal: Journal, manner: Manner) -> dict[str, str]:
    """Merge a pool into a short list of abilities; a long pool is merged in parts first."""
    notes = {name: f"proposed for {count} items" for name, count in pool.items()}
    while len(notes) > _MOST_PROPOSED:
        merged: dict[str, str] = {}
        names = list(notes)
        for start in range(0, len(names), _MOST_PROPOSED):
            part = {name: notes[name] for name in names[start : start + _MOST_PROPOSED]}
            merged |= _merge_part(part, journal, manner)
        notes = merged
    return _merge_part(notes, journal, manner)


def _merge_part(notes: Mapping[str, str], journal: Journal, manner: Manner) -> dict[str, str]:
    most = manner.most_abilities
    question = ask_for_taxonomy(notes, most, manner.guidance)
    reason = ""
    for attempt in range(1, manner.retries + 2):
        try:
            return parse_abilities(ask_again(journal, question, attempt, reason), most)
        except BadAnswer as error:
            reason = str(error)
    raise BadAnswer(reason)


def _map_items(
    texts: Mapping[str, str], abilities: Mapping[str, str], journal: Journal, manner: Manner
) -> Findings:
    """Return the abilities of each item, in the order of the list."""
    mapping = Inquiry(
        "naming abilities",
        partial(ask_for_mapping, abilities=abilities, guidance=manner.guidance),
        partial(parse_lists, known=abilities.keys()),
    )
    answers = inquire(mapping, texts, journal, batch_size=manner.batch_size, retries=manner.retries)
    order = {name: k for k, name in enumerate(abilities)}
    lists = {item: tuple(sorted(row, key=order.__getitem__)) for item, row in answers.lists.items()}
    return Findings(lists, answers.faults)


def _check_texts(texts: Mapping[str, str], kind: str) -> None:
    """Refuse anything that does not map names to texts."""
    noun = {"item": "text", "ability": "definition"}[kind]
    if not (isinstance(texts, Mapping) and texts):
        raise ResponseError(f"pass a mapping from each {kind}'s name to its {noun}, at least one")
    for name, text in texts.items():
        if not (isinstance(name, str) and isinstance(text, str)):
            raise ResponseError(
                f"{kind} {one_line(str(name))!r} needs a name and a {noun} that are text, got "
                f"{type(name).__name__} and {type(text).__name__}"
            )
    check_names(list(texts), kind)


def _shortened(text: str, most: int) -> str:
    """Shorten a long text in the middle, as questions are often at the end."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    tail = most - head
    note = f"\n[{len(text) - most:,} characters left out here]\n"
    return text[:head] + note + text[-tail:]


def _valid(text: str) -> str:
    """Return a text with invalid Unicode replaced, so that it can be sent."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")
