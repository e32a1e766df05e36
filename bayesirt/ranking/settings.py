"""The settings of a run."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

from bayesirt.errors import ResponseError
from bayesirt.models import AUTO
from bayesirt.models.priors import Priors
from bayesirt.names import one_line

if TYPE_CHECKING:
    from bayesirt.data.responses import Responses
    from bayesirt.estimators.registry import PointMethod
    from bayesirt.inference.engines import EngineName
    from bayesirt.inference.options import RunOptions
    from bayesirt.models.response_model import ResponseModel

BUDGET = 120.0
_FEWEST_DRAWS = 10


@dataclass(frozen=True)
class Sampling(ABC):
    """Settings of every run: how its posterior is drawn."""

    seed: int = 0
    chains: int = 4
    warmup: int = 0
    draws: int = 1000
    target_accept: float = 0.95
    budget: float = BUDGET

    @property
    def run_options(self) -> "RunOptions":
        """Options for drawing the posterior."""
        from bayesirt.inference.options import RunOptions

        return RunOptions(
            num_chains=self.chains,
            num_warmup=self.warmup,
            num_samples=self.draws,
            target_accept=self.target_accept,
        )

    @abstractmethod
    def describe_model(self) -> str:
        """Return the model and what it assumes in a few words."""


@dataclass(frozen=True)
class Settings(Sampling):
    """The settings of a ranking.

    Attributes
    ----------
    seed : int
    chains, draws : int
    warmup : int
        Warm-up of each chain; 0 stands for 250, or for 1000 with NUTS, which adapts during warm-up.
    target_accept : float
    budget : float
        Seconds for which chains may continue until abilities have converged. They end after half of
        the draws, or some more, if everything has converged by then.
    priors : Priors
    point : {"auto", "cbmm", "em", "joint_map", "spectral"}
        The point estimator that the sampler starts from.
    engine : {"auto", "nuts", "blocked", "laplace"}
    model : {"auto", "2pl", "3pl", "repeats", "graded", "continuous", "normal", "lart"}
        The 3PL allows for guessing, the model of repeats for dependent runs of a question; LaRT
        also uses the lengths of responses. ``"auto"`` is the 2PL for right and wrong answers, or
        the model of repeats if runs are dependent, and otherwise the model for the kind of answers.
    wrong_lengths : bool
        Model the lengths of wrong answers separately in LaRT, and compare with plain LaRT.
    scale : tuple of (str, float)
        Anchors of a user-defined scale: subjects and their values.
    population : bool
        Also report the expected score over items like these.
    other_slopes : bool
        If slopes do not converge, let every item count the same.
    checked : bool
        True if these settings were checked when they were stored.
    """

    priors: Priors = field(default_factory=Priors)
    point: "PointMethod" = "auto"
    engine: "EngineName" = "auto"
    model: str = AUTO
    wrong_lengths: bool = False
    scale: tuple[tuple[str, float], ...] = ()
    population: bool = False
    other_slopes: bool = True
    checked: InitVar[bool] = False

    def __post_init__(self, checked: bool) -> None:
        if not checked:
            self._check()
            self.response_model.describe()
        if not self.warmup:
            object.__setattr__(self, "warmup", 1000 if self.engine == "nuts" else 250)

    def _check(self) -> None:
        """Refuse numbers and names that no run can have."""
        from bayesirt.estimators.registry import PointMethod
        from bayesirt.inference.engines import EngineName

        for name, least in (("chains", 1), ("draws", _FEWEST_DRAWS), ("warmup", 0), ("budget", 0)):
            if not (number := getattr(self, name)) >= least:
                raise ResponseError(f"`{name}` must be at least {least}, got {number}")
        if not 0 < self.target_accept < 1:
            raise ResponseError(
                f"`target_accept` must lie between 0 and 1, got {self.target_accept}"
            )
        for name, names in (("engine", get_args(EngineName)), ("point", get_args(PointMethod))):
            if (chosen := getattr(self, name)) not in names:
                raise ResponseError(
                    f"`{name}` must be one of {', '.join(names)}, got {one_line(str(chosen))!r}"
                )

    @property
    def response_model(self) -> "ResponseModel":
        """The response model with its options."""
        from bayesirt.models.named import model_named

        return model_named(self.model, self.priors, wrong_lengths=self.wrong_lengths)

    def explained(
        self, responses: "Responses", facets: Sequence[str] = (), factors: Sequence[str] = ()
    ) -> "Settings":
        """Return settings with effects of facets and factors, if all of them can be estimated.

        Parameters
        ----------
        responses : Responses
        facets : sequence of str
            Columns that differ between answers to one question, as passed to `read_responses`.
        factors : sequence of str
            Columns that describe what subjects are made of.

        Returns
        -------
        Settings

        Raises
        ------
        ResponseError
            If a column is missing, or explains nothing.
        """
        from bayesirt.data.difficulty import design_of
        from bayesirt.data.facets import ability_by, explained_by, groups_of, together

        formula = explained_by(responses, facets, self.priors.difficulty)
        ability = ability_by(factors, self.priors.ability)
        groups = self.priors.groups
        if not (groups or responses.clusters):  # groups cannot be combined with these
            groups = together(responses, facets)
        design_of(formula, responses.item_metadata)
        if groups:
            groups_of(responses, groups)
        design_of(ability, responses.subject_metadata, "subject")
        priors = replace(self.priors, difficulty=formula, groups=groups, ability=ability)
        return replace(self, priors=priors)

    @property
    def described(self) -> tuple[list[str], list[str]]:
        """Columns of items, and of subjects, that its priors need."""
        from bayesirt.data.difficulty import columns_of

        priors = self.priors
        groups = [priors.groups] if priors.groups else []
        return [*columns_of(priors.difficulty), *groups], columns_of(priors.ability)

    def describe_model(self) -> str:
        """Return the model and what it assumes in a few words."""
        return self.response_model.describe()

    @classmethod
    def stored(cls, values: dict[str, Any]) -> "Settings":
        """Return settings from their stored values."""
        scale = tuple((name, value) for name, value in values.get("scale", ()))
        priors = Priors(**values["priors"])
        return cls(**values | {"priors": priors, "scale": scale}, checked=True)
