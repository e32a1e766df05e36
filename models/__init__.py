"""The statistical models, as NumPyro functions. Read this folder to know what is assumed."""

if __name__ != "bayesirt.models":
    raise ImportError("import bayesirt.models: the folder models/ is a part of the package")

from bayesirt.models.lart import lart_model, lart_parameters
from bayesirt.models.priors import Priors
from bayesirt.models.response_model import (
    LART,
    MODELS,
    PROBIT_2PL,
    THREE_PL,
    TWO_PL,
    Method,
    ModelName,
    ResponseModel,
    model_named,
)
from bayesirt.models.three_pl import three_pl_model, three_pl_parameters
from bayesirt.models.two_pl import two_pl_model, two_pl_parameters

__all__ = [
    "LART",
    "MODELS",
    "PROBIT_2PL",
    "THREE_PL",
    "TWO_PL",
    "Method",
    "ModelName",
    "Priors",
    "ResponseModel",
    "lart_model",
    "lart_parameters",
    "model_named",
    "three_pl_model",
    "three_pl_parameters",
    "two_pl_model",
    "two_pl_parameters",
]
