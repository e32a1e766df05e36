"""The statistical models, as NumPyro functions. Read this folder to know what is assumed.

Names are loaded when they are first used: a finished run is read without NumPyro.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "bayesirt.models":
    raise ImportError("import bayesirt.models: the folder models/ is a part of the package")

if TYPE_CHECKING:
    from bayesirt.models.continuous import Continuous, continuous_model
    from bayesirt.models.graded import Graded, graded_model
    from bayesirt.models.lart import LaRT, lart_model, lart_parameters
    from bayesirt.models.mirt import Mirt, mirt_model
    from bayesirt.models.named import MODELS, RANKED, model_for, model_named, usual_model
    from bayesirt.models.normal import Normal, normal_model
    from bayesirt.models.priors import Priors
    from bayesirt.models.q_mirt import QMirt, q_mirt_model
    from bayesirt.models.repeats import Repeats, repeats_model
    from bayesirt.models.response_model import Line, Method, ResponseModel
    from bayesirt.models.three_pl import ThreePL, three_pl_model, three_pl_parameters
    from bayesirt.models.two_pl import TwoPL, two_pl_model, two_pl_parameters

AUTO = "auto"
"""Stands for the model that suits the answers."""
_NAMES = {
    "continuous": ("Continuous", "continuous_model"),
    "graded": ("Graded", "graded_model"),
    "lart": ("LaRT", "lart_model", "lart_parameters"),
    "mirt": ("Mirt", "mirt_model"),
    "named": ("MODELS", "RANKED", "model_for", "model_named", "usual_model"),
    "normal": ("Normal", "normal_model"),
    "priors": ("Priors",),
    "q_mirt": ("QMirt", "q_mirt_model"),
    "repeats": ("Repeats", "repeats_model"),
    "response_model": ("Line", "Method", "ResponseModel"),
    "three_pl": ("ThreePL", "three_pl_model", "three_pl_parameters"),
    "two_pl": ("TwoPL", "two_pl_model", "two_pl_parameters"),
}
_HOME = {name: home for home, names in _NAMES.items() for name in names}
__all__ = [
    "AUTO",
    "MODELS",
    "RANKED",
    "Continuous",
    "Graded",
    "LaRT",
    "Line",
    "Method",
    "Mirt",
    "Normal",
    "Priors",
    "QMirt",
    "Repeats",
    "ResponseModel",
    "ThreePL",
    "TwoPL",
    "continuous_model",
    "graded_model",
    "lart_model",
    "lart_parameters",
    "mirt_model",
    "model_for",
    "model_named",
    "normal_model",
    "q_mirt_model",
    "repeats_model",
    "three_pl_model",
    "three_pl_parameters",
    "two_pl_model",
    "two_pl_parameters",
    "usual_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bayesirt.models' has no attribute {name!r}")
    return getattr(import_module(f"bayesirt.models.{_HOME[name]}"), name)
