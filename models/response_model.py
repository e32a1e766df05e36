"""What a response model is to the rest of the package, and which there are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bayesirt.errors import ResponseError
from bayesirt.families import GUESSING, LOGIT, PROBIT, Family
from bayesirt.models.lart import lart_parameters
from bayesirt.models.priors import Priors
from bayesirt.models.three_pl import guessing_learned, three_pl_parameters
from bayesirt.models.two_pl import two_pl_parameters

Method = Literal["nuts", "blocked", "laplace"]
ModelName = Literal["2pl", "3pl", "lart"]


def _nothing(_priors: Priors) -> dict[str, tuple[float, float]]:
    return {}


@dataclass(frozen=True)
class ResponseModel:
    """A model of answers, from which engines, checks, rankings and commands take what they need.

    Attributes
    ----------
    name : {"2pl", "3pl", "lart"}
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
    simpler : str, optional
        The model that it must predict better than to be of use, if any.
    """

    name: ModelName
    title: str
    parameters: Callable[..., Any]
    family: Family = LOGIT
    learned: Callable[[Priors], Mapping[str, tuple[float, float]]] = _nothing
    engines: tuple[Method, ...] = ("blocked", "nuts", "laplace")
    lengths: bool = False
    simpler: ModelName | None = None

    def refuse(self, priors: Priors) -> None:
        """Refuse priors of what the model does not have.

        Raises
        ------
        ResponseError
        """
        if priors.guessing is not None and "c" not in self.family.further:
            raise ResponseError(
                f"guessing is a part of the 3pl, not of {self.name}; pass --model 3pl, or leave "
                f"out --guessing"
            )


TWO_PL = ResponseModel("2pl", "2PL", two_pl_parameters)
PROBIT_2PL = ResponseModel("2pl", "2PL", two_pl_parameters, PROBIT)
THREE_PL = ResponseModel(
    "3pl",
    "3PL",
    three_pl_parameters,
    GUESSING,
    guessing_learned,
    ("blocked", "nuts"),
    simpler="2pl",
)
LART = ResponseModel("lart", "LaRT", lart_parameters, PROBIT, lengths=True)

MODELS: dict[str, ResponseModel] = {model.name: model for model in (TWO_PL, THREE_PL, LART)}
"""Those that `rank` takes, by name."""


def model_named(name: str) -> ResponseModel:
    """Return a model by its name.

    Raises
    ------
    ResponseError
        If there is none.
    """
    if name not in MODELS:
        raise ResponseError(f"there is no model {name!r}; take {', '.join(MODELS)}")
    return MODELS[name]
