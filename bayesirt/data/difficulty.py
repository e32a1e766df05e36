"""Explanatory variables of difficulty: a formula, and its design from the table of items.

Formulas follow lme4 and bambi: ``log(minutes) + (1|judge)`` has a slope for the logarithm of a
column, and an effect for each judge from a normal distribution whose spread is learned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.clusters import Clusters
from bayesirt.data.table_columns import is_blank, no_column
from bayesirt.errors import ResponseError
from bayesirt.names import one_line, plain_identifier

_FUNCTIONS = {"log": np.log, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "exp": np.exp}


@dataclass(frozen=True)
class Covariate:
    """A standardised numeric variable of items."""

    name: str
    centre: float  # Mean and standard deviation over items, in the original unit.
    spread: float
    z: tuple[float, ...]  # (value - centre) / spread of each item.


@dataclass(frozen=True)
class Factor:
    """A categorical variable of items, such as the judge who graded the answers."""

    name: str
    levels: Clusters  # Names of the levels, and the level of each item.

    @property
    def plain(self) -> str:
        """Name of the factor as a valid variable name."""
        return plain_identifier(self.name)

    @property
    def site(self) -> str:
        """Site of the effects on the difficulty of items."""
        return f"effect_{self.plain}"

    @property
    def skill(self) -> str:
        """Site of the effects on the ability of subjects."""
        return f"skill_{self.plain}"


@dataclass(frozen=True)
class Design:
    """Explanatory variables of the difficulty of items, or of the ability of subjects."""

    covariates: tuple[Covariate, ...] = ()
    factors: tuple[Factor, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.covariates or self.factors)

    @property
    def z(self) -> NDArray[np.float64]:
        """Standardised covariates, shape (item, covariate)."""
        return np.array([x.z for x in self.covariates]).T


def design_of(formula: str, items: pd.DataFrame, kind: str = "item") -> Design:
    """Return the design of a formula, such as ``log(minutes) + (1|judge)``.

    `items` is the table of items or of subjects, as named by `kind`. Refuses a formula that cannot
    be parsed, and columns that do not exist, lack values or are constant.
    """
    if not formula.strip():
        return Design()
    numbers, factors = _terms_of(formula)
    for column in (*_variables(numbers), *factors):
        _refuse_missing(column, items, kind)
    plain = [plain_identifier(name) for name in factors]
    if twice := next((x for k, x in enumerate(factors) if plain.index(plain[k]) < k), None):
        raise ResponseError(
            f"{one_line(twice)!r} appears twice in {one_line(formula)!r}, or differs from another "
            f"column only in punctuation; leave it out, or rename it"
        )
    covariates = _covariates(numbers, items, kind) if numbers else ()
    return Design(covariates, tuple(_factor(name, items[name], kind) for name in factors))


def _terms_of(formula: str) -> tuple[list[Any], list[str]]:
    """Return the numeric terms, and the columns of factors."""
    from formulae import model_description
    from formulae.terms import Intercept, Model

    try:
        model = model_description(formula)
    except Exception as error:
        raise ResponseError(f"{one_line(formula)!r} cannot be read: {_said(error)}") from None
    if not isinstance(model, Model) or model.response is not None:
        raise ResponseError(
            f"{one_line(formula)!r} has a left side; write only what explains difficulty, such as "
            f"log(minutes) + (1|judge)"
        )
    factors = []
    for term in model.group_terms:
        if not isinstance(term.expr, Intercept) or len(term.factor.components) != 1:
            raise ResponseError(
                f"({one_line(str(term.name))}) is not supported; write (1|column) for an effect of "
                f"each of its values"
            )
        factors.append(str(term.factor.name))
    return [x for x in model.common_terms if not isinstance(x, Intercept)], factors


def parts_of(formula: str) -> dict[str, str]:
    """Split a formula into those of ability and of difficulty.

    >>> parts_of("ability ~ (1|llm); difficulty ~ log(minutes); severity ~ (1|judge)")
    {'ability': '(1|llm)', 'difficulty': 'log(minutes) + (1|judge)'}
    """
    terms: dict[str, list[str]] = {"ability": [], "difficulty": []}
    for part in filter(None, map(str.strip, formula.split(";"))):
        explained, tilde, by = (x.strip() for x in part.partition("~"))
        if explained not in (*terms, "severity") or not tilde or not by:
            raise ResponseError(
                f"{one_line(part)!r} explains neither ability nor difficulty; write, for example, "
                f'"difficulty ~ log(minutes) + (1|judge); ability ~ (1|llm)"'
            )
        terms["ability" if explained == "ability" else "difficulty"].append(by)
    return {name: " + ".join(parts) for name, parts in terms.items()}


def columns_of(formula: str) -> list[str]:
    """Return the columns that a formula needs.

    >>> columns_of("log(minutes) + (1|judge)")
    ['minutes', 'judge']
    """
    if not formula.strip():
        return []
    numbers, factors = _terms_of(formula)
    return [*_variables(numbers), *factors]


def _variables(terms: Sequence[Any]) -> list[str]:
    return sorted({str(name) for term in terms for name in term.var_names})


def _refuse_missing(column: str, items: pd.DataFrame, kind: str) -> None:
    if column not in items:
        raise no_column(column, items.columns, kind)
    empty = is_blank(items[column])
    if empty.any():
        first = one_line(str(items.index[np.argmax(empty)]))
        raise ResponseError(
            f"{int(empty.sum())} of {len(items)} {kind}s have no {one_line(column)!r}, such as "
            f"{first!r}; fill it in, or leave these {kind}s out"
        )


def _covariates(terms: Sequence[Any], items: pd.DataFrame, kind: str) -> tuple[Covariate, ...]:
    from formulae import design_matrices

    text = " + ".join(str(term.name) for term in terms)
    table = items.reset_index(drop=True).apply(_as_numbers)
    try:
        with np.errstate(all="ignore"):
            design = design_matrices(text, table[_variables(terms)], extra_namespace=_FUNCTIONS)
    except KeyError as error:
        functions = ", ".join(_FUNCTIONS)
        raise ResponseError(
            f"{one_line(text)!r} has the unknown function {error}; supported are {functions}"
        ) from None
    except Exception as error:
        raise ResponseError(f"{one_line(text)!r} cannot be read: {_said(error)}") from None
    covariates = []
    for name, term in design.common.terms.items():
        columns = np.asarray(term.data, float).reshape(len(items), -1)
        if name != "Intercept":
            labels = [str(x) for x in term.labels]
            covariates += [
                _standardised(label, values, items, kind)
                for label, values in zip(labels, columns.T, strict=True)
            ]
    return tuple(covariates)


def _as_numbers(column: pd.Series) -> pd.Series:
    """Return a column as numbers if all its values are numbers, else as text."""
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.notna().all() else column.astype(str)


def _standardised(
    name: str, values: NDArray[np.float64], items: pd.DataFrame, kind: str
) -> Covariate:
    if not np.isfinite(values).all():
        first = one_line(str(items.index[np.argmin(np.isfinite(values))]))
        raise ResponseError(f"{one_line(name)!r} is not a number for {kind} {first!r}; correct it")
    centre, spread = float(values.mean()), float(values.std())
    if spread <= 1e-9 * max(1.0, abs(centre)):
        raise ResponseError(
            f"{one_line(name)!r} is the same for all {kind}s and explains nothing; leave it out"
        )
    return Covariate(name, centre, spread, tuple((values - centre) / spread))


def _factor(name: str, column: pd.Series, kind: str) -> Factor:
    levels = Clusters.of([str(value).strip() for value in column])
    if not levels.tell_apart:
        every = f"all {kind}s" if len(levels.names) == 1 else f"no two {kind}s"
        raise ResponseError(
            f"{every} have the same {one_line(name)!r}, so it explains nothing; leave it out"
        )
    return Factor(name, levels)


def _said(error: Exception) -> str:
    return one_line(str(error)).rstrip(".") or type(error).__name__
