"""Checks, display and export of subject and item names, which may be hostile input.

The data keep every name as it was read; names are made safe only for output.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from bayesirt.errors import ResponseError

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|<>~&$-])")
_MOST_SHOWN = 20
_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def one_line(name: str, width: int = 48, head: int | None = None) -> str:
    r"""Return a name fit for one line of a table, a plot or an error message.

    Control characters, line breaks and invisible direction marks become ``·``; a long name is cut
    in the middle and keeps its first `head` characters.

    >>> one_line("two\nlines")
    'two·lines'
    >>> one_line("abcdefghij", width=7), one_line("abcdefghij", width=7, head=1)
    ('abc…hij', 'a…fghij')
    """
    shown = "".join("·" if unicodedata.category(c) in _UNSEEN else c for c in name)
    if len(shown) <= width:
        return shown
    head = width // 2 if head is None else head
    return f"{shown[:head]}…{shown[len(shown) - (width - head - 1) :]}"


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def counted(n: int, noun: str) -> str:
    """Return a count with its noun: ``1 subject``, ``2,000 subjects``.

    >>> counted(1, "item"), counted(12_000, "item")
    ('1 item', '12,000 items')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def first_few(names: Sequence[str], most: int) -> str:
    """Return the first few names for a sentence, and the number of further ones.

    >>> first_few(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def plain_identifier(name: str) -> str:
    """Return a name that is valid for a variable in a file.

    >>> plain_identifier("log(human minutes)")
    'log_human_minutes'
    """
    return re.sub(r"\W+", "_", name).strip("_") or "unnamed"


def brief(amount: float) -> str:
    """Return an amount with about three significant digits; an empty string for NaN.

    >>> brief(1234.5), brief(0.01234), brief(float("nan"))
    ('1,234', '0.0123', '')
    """
    if amount != amount:
        return ""
    return f"{amount:,.0f}" if abs(amount) >= 100 else f"{amount:.3g}"


def in_percent(probability: float) -> str:
    """Return a probability in whole percent, never as 0% or 100%.

    >>> in_percent(0.834), in_percent(0.9999), in_percent(0.0)
    ('83%', 'over 99%', 'below 1%')
    """
    if probability >= 0.995:
        return "over 99%"
    return f"{probability:.0%}" if probability >= 0.005 else "below 1%"


def percent_in_table(probability: float) -> str:
    """Return a probability in whole percent, for a table.

    >>> percent_in_table(0.834), percent_in_table(0.9999), percent_in_table(0.0)
    ('83%', '>99%', '<1%')
    """
    return in_percent(probability).replace("below ", "<").replace("over ", ">")


def rounded(number: float) -> int:
    """Return a forecast rounded to two significant digits.

    >>> rounded(1677), rounded(86.0)
    (1700, 86)
    """
    digits = max(0, len(str(int(number))) - 2)
    return int(round(number, -digits))


def spreadsheet_safe(text: str) -> str:
    """Return text that no spreadsheet runs as a formula; ``'`` is put before a leading ``=``.

    >>> spreadsheet_safe("=1+1")
    "'=1+1"
    >>> spreadsheet_safe("gpt-x")
    'gpt-x'
    """
    return f"'{text}" if text.startswith(_STARTS_A_FORMULA) else text


def markdown_safe(text: str) -> str:
    r"""Return text escaped such that Markdown shows it unchanged.

    >>> print(markdown_safe("a_b"))
    a\_b
    """
    return _MARKDOWN.sub(r"\\\1", text)


def given_names(names: Sequence[str] | None, kind: str, n: int) -> list[str]:
    """Return names as strings, by default ``subject 1`` and so on.

    >>> given_names(None, "item", 2)
    ['item 1', 'item 2']
    """
    if names is None:
        return [f"{kind} {k}" for k in range(1, n + 1)]
    if len(names) != n:
        raise ResponseError(f"{n} {kind}s in the data, but {len(names)} names")
    return [str(name) for name in names]


def check_names(names: Sequence[str], kind: str) -> None:
    """Refuse names that are empty, not valid text, or duplicated."""
    if "" in names:
        raise ResponseError(f"one {kind} has an empty name; give each {kind} a name")
    broken = next((n for n in names if "\0" in n or not _is_unicode(n)), None)
    if broken is not None:
        raise ResponseError(f"{kind} {one_line(broken)!r} is not valid text; rename it")
    if len(set(names)) < len(names):
        name, count = Counter(names).most_common(1)[0]
        raise ResponseError(
            f"{kind} {one_line(name)!r} appears {count} times; rename or drop all but one"
        )


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def notebook_html(said: str, table: Any) -> str:
    """Return a notebook's view of a result: a sentence and the head of its table."""
    head = table.head(_MOST_SHOWN).to_html(escape=True, float_format="{:,.4g}".format)
    n_hidden = len(table) - _MOST_SHOWN
    more = f"<p>and {n_hidden:,} more</p>" if n_hidden > 0 else ""
    return f"<p>{escape(said)}</p>{head}{more}"
