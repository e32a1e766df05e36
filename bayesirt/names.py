"""Names of subjects and items are hostile input: how they are shown and exported.

The data keep every name as it was read. Only the ways out are made safe here.
"""

import unicodedata

_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def one_line(name: str, width: int = 48) -> str:
    r"""Return a name fit for one line of a table, a plot or an error message.

    Control characters, line breaks and invisible direction marks become ``·``; a long name
    keeps its beginning and its end.

    Examples
    --------
    >>> one_line("two\nlines")
    'two·lines'
    >>> one_line("abcdefghij", width=7)
    'abc…hij'
    """
    shown = "".join("·" if unicodedata.category(c) in _UNSEEN else c for c in name)
    if len(shown) <= width:
        return shown
    head = width // 2
    return f"{shown[:head]}…{shown[len(shown) - (width - head - 1) :]}"


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def spreadsheet_safe(text: str) -> str:
    """Return text that no spreadsheet runs as a formula: a leading ``=`` gets a ``'`` before it.

    Examples
    --------
    >>> spreadsheet_safe("=1+1")
    "'=1+1"
    >>> spreadsheet_safe("gpt-x")
    'gpt-x'
    """
    return f"'{text}" if text.startswith(_STARTS_A_FORMULA) else text
