"""What a response model is to the rest of the package, and which there are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bayesirt.families import GUESSING, LOGIT, PROBIT, Family
from bayesirt.models.lart import lart_parameters
from bayesirt.models.priors import Priors
from bayesirt.models.three_pl import guessing_learned, three_pl_parameters
from bayesirt.models.two_pl import two_pl_parameters


def _nothing(_priors: Priors) -> dict[str, tuple[float, float]]:
    return {}


@dataclass(frozen=True)
class ResponseModel:
    """A model of answers, from which engines, checks, rankings and commands take what they need.

    Attributes
    ----------
    name : str
        What people type.
    title : str
        What people read.
    parameters : callable
        The NumPyro text without data: (n_subjects, n_items, priors, *, clusters, n_clusters).
    family : Family
        Of a cell, given a θ + d and the items' further predictors.
    learned : callable
        priors → usual (μ, σ), unconstrained, of each parameter that items have beside a and d.
    engines : tuple of str
        That draw from its posterior; the first is taken where any would do.
    lengths : bool
        Whether responses must have lengths.
    """

    name: str
    title: str
    parameters: Callable[..., Any]
    family: Family = LOGIT
    learned: Callable[[Priors], Mapping[str, tuple[float, float]]] = _nothing
    engines: tuple[str, ...] = ("blocked", "nuts", "laplace")
    lengths: bool = False


TWO_PL = ResponseModel("2pl", "2PL", two_pl_parameters)
PROBIT_2PL = ResponseModel("2pl", "2PL", two_pl_parameters, PROBIT)
THREE_PL = ResponseModel(
    "3pl", "3PL", three_pl_parameters, GUESSING, guessing_learned, ("blocked", "nuts")
)
LART = ResponseModel("lart", "LaRT", lart_parameters, PROBIT, lengths=True)

MODELS = {model.name: model for model in (TWO_PL, THREE_PL, LART)}
"""Those that `rank` takes, by name."""
