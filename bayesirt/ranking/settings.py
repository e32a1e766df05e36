"""What a user chooses for a run, and what the answers make of it."""

from dataclasses import dataclass, field, replace
from typing import Any

from bayesirt.checks.run_correlation import run_correlation
from bayesirt.data.responses import Responses
from bayesirt.estimators.choice import PointMethod
from bayesirt.inference.engines import EngineName
from bayesirt.inference.options import RunOptions
from bayesirt.models import (
    AUTO,
    Priors,
    Repeats,
    ResponseModel,
    TwoPL,
    model_named,
    usual_model,
)
from bayesirt.point_estimate import PointEstimate

BUDGET = 120.0
_MOST_RUN_TWICE = 300_000
"""Cells up to which dependent runs are allowed for without being asked."""


@dataclass(frozen=True)
class Settings:
    """What a user chooses.

    Attributes
    ----------
    seed : int
    chains, draws : int
    warmup : int
        Of each chain; 0 stands for 250, and for 1000 of NUTS, which is tuned in it.
    target_accept : float
    budget : float
        Seconds in which chains go on until abilities have converged.
    priors : Priors
    point : {"auto", "cbmm", "mml", "joint_map", "spectral"}
        The point estimator that the sampler starts from.
    engine : {"auto", "nuts", "blocked", "laplace"}
    model : {"auto", "2pl", "3pl", "repeats", "graded", "continuous", "normal", "lart"}
        The 3PL allows for guessing, the model of repeats for runs of a question that go together;
        LaRT takes lengths of responses too. ``"auto"`` is the 2PL for right and wrong answers, or
        where runs go together the model of repeats, and else what the answers are.
    wrong_lengths : bool
        Give LaRT's wrong answers lengths of their own, and compare with plain LaRT.
    scale : tuple of (str, float)
        Anchors of a scale of the user's own: subjects and their values.
    population : bool
        Tell the expected score over items like these too.
    other_slopes : bool
        Where slopes do not converge, let every item count the same.
    """

    seed: int = 0
    chains: int = 4
    warmup: int = 0
    draws: int = 1000
    target_accept: float = 0.95
    budget: float = BUDGET
    priors: Priors = field(default_factory=Priors)
    point: PointMethod = "auto"
    engine: EngineName = "auto"
    model: str = AUTO
    wrong_lengths: bool = False
    scale: tuple[tuple[str, float], ...] = ()
    population: bool = False
    other_slopes: bool = True

    def __post_init__(self) -> None:
        self.response_model.describe()
        if not self.warmup:
            object.__setattr__(self, "warmup", 1000 if self.engine == "nuts" else 250)

    @property
    def response_model(self) -> ResponseModel:
        """The response model with its options."""
        return model_named(self.model, self.priors, wrong_lengths=self.wrong_lengths)

    @property
    def run_options(self) -> RunOptions:
        """How its posterior is drawn."""
        return RunOptions(
            num_chains=self.chains,
            num_warmup=self.warmup,
            num_samples=self.draws,
            target_accept=self.target_accept,
        )

    def describe_model(self) -> str:
        """Return the model and what it assumes in a few words."""
        return self.response_model.describe()

    @classmethod
    def stored(cls, values: dict[str, Any]) -> "Settings":
        """Take settings that were written down."""
        scale = tuple((name, value) for name, value in values.get("scale", ()))
        return cls(**values | {"priors": Priors(**values["priors"]), "scale": scale})


def settled(settings: Settings, responses: Responses) -> Settings:
    """Return settings with the model that suits the answers."""
    if settings.model == AUTO:
        settings = replace(settings, model=usual_model(responses))
    settings.response_model.suited_to(responses)
    return settings


def heeding_runs(
    settings: Settings, responses: Responses, point: PointEstimate, *, free: bool
) -> tuple[Settings, str]:
    """Return settings with the model of repeats where runs go together, and what there is to say.

    The user may have chosen another model, or an engine that does not draw from it, or the table
    may be too large for one that does.
    """
    if settings.model != TwoPL.name:
        return settings, ""
    found = run_correlation(responses, point)
    if not found.sure:
        return settings, ""
    said = found.to_text()
    if (
        free
        and settings.engine in ("auto", *Repeats().engines)
        and settings.priors == Priors(slopes=settings.priors.slopes)
        and responses.n_observed <= _MOST_RUN_TWICE
    ):
        said = f"Several {said}, which is allowed for; --repeats independent ranks without that."
        return replace(settings, model=Repeats.name), said
    return settings, (
        f"Several {said}: intervals are too narrow. --repeats dependent allows for it."
    )
