"""The statistical models, as NumPyro functions. Read this folder to know what is assumed."""

if __name__ != "bayesirt.models":
    raise ImportError("import bayesirt.models: the folder models/ is a part of the package")

from bayesirt.errors import ResponseError
from bayesirt.models.lart import LaRT, lart_model, lart_parameters
from bayesirt.models.mirt import Mirt, mirt_model
from bayesirt.models.priors import Priors
from bayesirt.models.q_mirt import QMirt, q_mirt_model
from bayesirt.models.response_model import Line, Method, ResponseModel
from bayesirt.models.three_pl import ThreePL, three_pl_model, three_pl_parameters
from bayesirt.models.two_pl import TwoPL, two_pl_model, two_pl_parameters

MODELS: dict[str, type[ResponseModel]] = {
    model.name: model for model in (TwoPL, ThreePL, LaRT, Mirt, QMirt)
}
"""Every model, by the name that people type."""

RANKED = tuple(name for name in MODELS if name not in (Mirt.name, QMirt.name))
"""Those of one ability, which need nothing said about abilities."""


def model_named(
    name: str, priors: Priors | None = None, *, wrong_lengths: bool = False
) -> ResponseModel:
    """Return a model of one ability by its name, with the options that people type.

    Raises
    ------
    ResponseError
        If there is none, or an option is not the model's.
    """
    if name not in RANKED:
        raise ResponseError(f"there is no model {name!r} of one ability; take {', '.join(RANKED)}")
    return MODELS[name].chosen(priors or Priors(), wrong_lengths=wrong_lengths)


__all__ = [
    "MODELS",
    "RANKED",
    "LaRT",
    "Line",
    "Method",
    "Mirt",
    "Priors",
    "QMirt",
    "ResponseModel",
    "ThreePL",
    "TwoPL",
    "lart_model",
    "lart_parameters",
    "mirt_model",
    "model_named",
    "q_mirt_model",
    "three_pl_model",
    "three_pl_parameters",
    "two_pl_model",
    "two_pl_parameters",
]
