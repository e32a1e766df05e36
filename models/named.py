"""Every model by its name, and which is taken where none is named."""

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
"""Every model, by the name that people type."""

_USUAL: dict[Kind, str] = {
    "binary": "2pl",
    "graded": "graded",
    "continuous": "continuous",
    "unbounded": "normal",
}
"""The model of each kind of answers that is taken where none is named."""
RANKED = tuple(name for name in MODELS if name not in (Mirt.name, QMirt.name))
"""Those of one ability, which need nothing said about abilities."""


def model_named(
    name: str, priors: Priors | None = None, *, wrong_lengths: bool = False
) -> ResponseModel:
    """Return a model of one ability by its name, with the options that people type.

    ``"auto"`` is the 2PL, whose options are those of the model that `model_for` takes.

    Raises
    ------
    ResponseError
        If there is none, or an option is not the model's.
    """
    if name == AUTO:
        name = TwoPL.name
    if name not in RANKED:
        raise ResponseError(f"there is no model {name!r} of one ability; take {', '.join(RANKED)}")
    return MODELS[name].chosen(priors or Priors(), wrong_lengths=wrong_lengths)


def usual_model(responses: Responses) -> str:
    """Return the name of the model that is taken where none is named."""
    return _USUAL["binary" if responses.scale is None else responses.scale.kind]


def model_for(responses: Responses, model: str | ResponseModel = AUTO) -> ResponseModel:
    """Return a model, or the usual one of such answers, as it suits responses.

    Raises
    ------
    ResponseError
        If there is none of that name, or it is for other answers.
    """
    if isinstance(model, str):
        model = model_named(usual_model(responses) if model == AUTO else model)
    return model.suited_to(responses)
