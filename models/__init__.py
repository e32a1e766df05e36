"""The statistical models as NumPyro functions; this folder states every modelling assumption.

Names are imported on first use, so that a finished run can be read without NumPyro.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "bayesirt.models":
    raise ImportError("import bayesirt.models instead: the folder models/ is part of the package")

if TYPE_CHECKING:
    from bayesirt.models.continuous import Continuous
    from bayesirt.models.graded import Graded
    from bayesirt.models.lart import LaRT
    from bayesirt.models.mirt import Mirt
    from bayesirt.models.named import MODELS, RANKED, model_for, model_named, usual_model
    from bayesirt.models.normal import Normal
    from bayesirt.models.priors import Priors
    from bayesirt.models.q_mirt import QMirt
    from bayesirt.models.repeats import Repeats
    from bayesirt.models.response_model import Line, Method, ResponseModel
    from bayesirt.models.three_pl import ThreePL
    from bayesirt.models.two_pl import TwoPL

AUTO = "auto"
"""Selects the model that suits the kind of answers."""
_HOME = {
    "Continuous": "continuous",
    "Graded": "graded",
    "LaRT": "lart",
    "Mirt": "mirt",
    "Normal": "normal",
    "Priors": "priors",
    "QMirt": "q_mirt",
    "Repeats": "repeats",
    "ThreePL": "three_pl",
    "TwoPL": "two_pl",
} | dict.fromkeys(("MODELS", "RANKED", "model_for", "model_named", "usual_model"), "named")
_HOME |= dict.fromkeys(("Line", "Method", "ResponseModel"), "response_model")
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
    "model_for",
    "model_named",
    "usual_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bayesirt.models' has no attribute {name!r}")
    return getattr(import_module(f"bayesirt.models.{_HOME[name]}"), name)
