"""All models by name, and the default model for each kind of answers."""

from bayesirt.data.responses import Responses
from bayesirt.data.scales import Kind
from bayesirt.errors import ResponseError
from bayesirt.models import AUTO
from bayesirt.models.continuous import Continuous
from bayesirt.models.graded import Graded
from bayesirt.models.lart import LaRT
from bayesirt.models.mirt import Mirt
from bayesirt.models.normal import Normal
from bayesirt.models.priors import Priors
from bayesirt.models.q_mirt import QMirt
from bayesirt.models.repeats import Repeats
from bayesirt.models.response_model import ResponseModel
from bayesirt.models.three_pl import ThreePL
from bayesirt.models.two_pl import TwoPL

MODELS: dict[str, type[ResponseModel]] = {
    model.name: model
    for model in (TwoPL, ThreePL, Repeats, Graded, Continuous, Normal, LaRT, Mirt, QMirt)
}
"""Every model, by the name used on the command line."""

_USUAL: dict[Kind, str] = {
    "binary": "2pl",
    "graded": "graded",
    "continuous": "continuous",
    "unbounded": "normal",
}
"""Default model for each kind of answers."""
RANKED = tuple(name for name in MODELS if name not in (Mirt.name, QMirt.name))
"""Models with one ability."""


def model_named(
    name: str, priors: Priors | None = None, *, wrong_lengths: bool = False
) -> ResponseModel:
    """Return a model of one ability by its name, with the options given by the user.

    ``"auto"`` returns the 2PL; its options carry over to the model that `model_for` chooses.

    Raises
    ------
    ResponseError
        If no model has the name, or the model does not support an option.
    """
    if name == AUTO:
        name = TwoPL.name
    if name not in RANKED:
        raise ResponseError(f"there is no model {name!r} of one ability; use {', '.join(RANKED)}")
    return MODELS[name].chosen(priors or Priors(), wrong_lengths=wrong_lengths)


def usual_model(responses: Responses) -> str:
    """Return the name of the default model for these responses."""
    return _USUAL["binary" if responses.scale is None else responses.scale.kind]


def model_for(responses: Responses, model: str | ResponseModel = AUTO) -> ResponseModel:
    """Return a model adapted to the responses; ``"auto"`` selects the default one.

    Raises
    ------
    ResponseError
        If no model has the name, or the model is for another kind of answers.
    """
    if isinstance(model, str):
        model = model_named(usual_model(responses) if model == AUTO else model)
    return model.suited_to(responses)
