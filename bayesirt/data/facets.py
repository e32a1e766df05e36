"""Facets of answers, such as the judge who graded them: each question becomes an item per level.

An item is then a question as graded by one judge, ``q7 · GPT-5``, described by its `question` and
its `judge`. Every layout, engine and check therefore works unchanged, and a judge who graded only
some subjects leaves unobserved cells.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.clusters import Clusters
from bayesirt.data.difficulty import columns_of
from bayesirt.data.responses import Responses
from bayesirt.data.table_columns import check_columns, is_blank, name_rows, no_column
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

QUESTION = "question"
_SUBJECT, _ITEM = "subject", "item"
_BETWEEN = " · "
_MOST_LEVELS = 60
"""Most levels of a column that is suggested as a facet."""


def with_facets(
    frame: pd.DataFrame, roles: Mapping[str, str], facets: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a long table whose items include the levels of facets, and its columns by role.

    The column ``question`` holds the original items.
    """
    item = roles["item"]
    check_columns(frame, facets)
    questions = pd.Series(np.asarray(name_rows(frame[item], "item"), object))
    named, levels = questions, {}
    for facet in facets:
        if facet == item:
            raise ResponseError(
                f"{one_line(facet)!r} is the column of items; choose another column as --facet"
            )
        levels[facet] = np.asarray(name_rows(frame[facet], one_line(facet)), object)
        if len(set(levels[facet])) < 2:
            raise ResponseError(
                f"all rows have the same {one_line(facet)!r}, {one_line(levels[facet][0])!r}; "
                f"leave out --facet {one_line(facet)}"
            )
        named = named + _BETWEEN + pd.Series(levels[facet])
    columns = {_ITEM: named.to_numpy(), QUESTION: questions.to_numpy(), **levels}
    return frame.assign(**columns), {**roles, "item": _ITEM}


def telling_apart(frame: pd.DataFrame, roles: Mapping[str, str]) -> str:
    """Return the column that distinguishes rows of a subject and item, such as judge, if any."""

    def codes(column: str) -> NDArray[np.intp]:
        return pd.factorize(np.array([str(value) for value in frame[column]], object))[0]

    names = {side: codes(roles[side]) for side in ("subject", "item")}
    for column in frame.columns.difference([*roles.values()], sort=False):
        levels = codes(column)
        rows = pd.DataFrame({**names, "level": levels})
        if levels.max(initial=0) < _MOST_LEVELS and not rows.duplicated().any():
            return one_line(str(column))
    return ""


def together(responses: Responses, facets: Sequence[str]) -> str:
    """Return the column that groups items with dependent answers because of facets, if any.

    Grades of one answer by several judges depend on each other.
    """
    if not facets:
        return ""
    questions = responses.item_metadata[QUESTION]
    return QUESTION if 1 < questions.nunique() < len(questions) else ""


def groups_of(responses: Responses, column: str) -> Clusters:
    """Return the groups of items in a column; an item without a value is its own group."""
    table = responses.item_metadata
    if column not in table:
        raise no_column(column, table.columns)
    empty = is_blank(table[column])
    alone = [f"only {name}" for name in responses.items]
    groups = Clusters.of(list(np.where(empty, alone, table[column].astype(str).str.strip())))
    if not groups.tell_apart:
        every = "all items" if len(groups.names) == 1 else "no two items"
        raise ResponseError(f"{every} have the same {one_line(column)!r}; leave out --group")
    if responses.clusters is not None:
        raise ResponseError(
            "groups of items cannot be combined with clusters of subjects; name the column of "
            "clusters with --subject-factors in place of --cluster"
        )
    return groups


def with_factors(
    frame: pd.DataFrame, roles: Mapping[str, str], factors: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a long table whose subjects are named after their factors, and its columns by role.

    An existing column with names of subjects is kept.
    """
    check_columns(frame, factors)
    if roles.get("subject", factors[0]) not in factors:
        return frame, dict(roles)
    parts = [pd.Series(np.asarray(name_rows(frame[x], one_line(x)), object)) for x in factors]
    named = parts[0].str.cat(parts[1:], sep=_BETWEEN) if parts[1:] else parts[0]
    return frame.assign(**{_SUBJECT: named.to_numpy()}), {**roles, "subject": _SUBJECT}


def ability_by(factors: Sequence[str], formula: str = "") -> str:
    """Return the formula of ability with an effect for each level of the factors.

    >>> ability_by(["llm", "scaffold"])
    '(1|llm) + (1|scaffold)'
    """
    given = set(columns_of(formula))
    terms = [f"(1|{quoted(name)})" for name in factors if name not in given]
    return " + ".join(filter(None, [formula, *terms]))


def explained_by(responses: Responses, facets: Sequence[str], formula: str = "") -> str:
    """Return the formula of difficulty with an effect for each level of the facets.

    If several items share a question, each question has an effect too, so that levels are compared
    on the same questions.

    >>> from bayesirt import Responses
    >>> answers = Responses.from_arrays([[1, 0], [0, 1]])
    >>> explained_by(answers, [], "log(minutes)")
    'log(minutes)'
    """
    given = set(columns_of(formula))
    terms = [name for name in facets if name not in given]
    if QUESTION not in given:
        terms += filter(None, [together(responses, facets)])
    return " + ".join(filter(None, [formula, *(f"(1|{quoted(name)})" for name in terms)]))


def quoted(name: str) -> str:
    """Return a column's name as it is written in formulas.

    >>> quoted("judge"), quoted("judge's model")
    ('judge', "`judge's model`")
    """
    return name if name.isidentifier() else f"`{name}`"
