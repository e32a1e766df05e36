"""Passes over responses for models of one ability, used by several tests."""

from typing import Any

from bayesirt.likelihood.cell_sums import ByRows
from bayesirt.likelihood.families import LOGIT, Family
from bayesirt.likelihood.loadings import Loadings
from bayesirt.likelihood.passes import Passes


def one_ability(layout: ByRows, n_items: int, family: Family = LOGIT, **settings: Any) -> Passes:
    return Passes(layout, family, Loadings(n_items, 1), **settings)
