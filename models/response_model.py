"""What a response model is to the rest of the package: the contract that each model file keeps.

Every model here is a two-way model: given its items, subjects are independent of each other, and
the other way round, and a cell's log density depends on linear predictors that are products of
what is a subject's with what is an item's. A model file says what is assumed, as NumPyro text, and
which lines through its parameters no predictor sees. Engines, checks, rankings and commands take
it from there.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int
from numpyro import handlers

from bayesirt.data.responses import Responses
from bayesirt.data.scales import Kind, refuse_other_answers
from bayesirt.errors import ResponseError
from bayesirt.likelihood.families import LOGIT
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.loadings import Loadings
from bayesirt.models.priors import Priors

Method = Literal["nuts", "blocked", "laplace"]
Values = Mapping[str, Array]
Counts = Int[Array, "subject item"]


class Line(NamedTuple):
    """A line through a model's parameters along which no predictor changes.

    Attributes
    ----------
    name : str
    move : callable
        (values, t) → the values that are others there, element by element; t = 0 is here.
    trait : str
        Subjects' site whose level, or else whose unit, it moves.
    normal : bool
        Whether it only shifts values, along which priors are normal: t is added to the trait.
    shape : tuple of int
        Of t: a model of several abilities has a plane of such lines, moved along at once.
    """

    name: str
    move: Callable[[Values, Array], dict[str, Array]]
    trait: str
    normal: bool = False
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class ResponseModel(ABC):
    """A response model with its options; equal ones are hashed alike.

    Attributes
    ----------
    name : str
        What people type.
    title : str
        What people read.
    lengths : bool
        Whether responses must have lengths.
    explained : bool
        Whether difficulty and ability may be explained, and items come in groups.
    takes : {"binary", "graded", "continuous", "unbounded"}
        The answers that it is for.
    known_spreads : bool
        Whether how far items differ in what they have beside slope and intercept is not learned.
    simpler : str, optional
        Name of the model that it must predict better than to be of use.
    dims : mapping
        Dimensions of each parameter.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    lengths: ClassVar[bool] = False
    explained: ClassVar[bool] = False
    takes: ClassVar[Kind] = "binary"
    known_spreads: ClassVar[bool] = False
    simpler: ClassVar[str | None] = None
    dims: ClassVar[Mapping[str, list[str]]]

    @classmethod
    def chosen(cls, priors: Priors, *, wrong_lengths: bool = False) -> "ResponseModel":
        """Return the model with the options that people type.

        Raises
        ------
        ResponseError
            If one is not the model's.
        """
        cls._refuse(priors, wrong_lengths=wrong_lengths)
        return cls()

    @classmethod
    def _refuse(cls, priors: Priors, *, wrong_lengths: bool) -> None:
        if priors.guessing is not None:
            raise ResponseError(
                f"guessing is a part of the 3pl, not of {cls.name}; pass --model 3pl, or leave "
                f"out --guessing"
            )
        if (priors.explains or priors.groups) and not cls.explained:
            raise ResponseError(
                f"what explains difficulty or ability, and groups of items, belong to models of "
                f"one ability and no lengths, not to {cls.name}; leave them out"
            )
        if wrong_lengths:
            raise ResponseError(
                f"wrong answers have lengths of their own in lart, not in {cls.name}, which takes "
                f"answers alone; pass --model lart, or leave out --wrong-lengths"
            )

    def suited_to(self, responses: Responses) -> "ResponseModel":
        """Return the model as it suits responses.

        Raises
        ------
        ResponseError
            If it is for answers of another kind.
        """
        refuse_other_answers(responses.scale, self.name, self.takes)
        return self

    @property
    def engines(self) -> tuple[Method, ...]:
        """Engines that draw from its posterior; the first is taken where any would do."""
        return "blocked", "nuts"

    @property
    def family(self) -> Family:
        """How an answer is distributed, given its predictors."""
        return LOGIT

    def __call__(self, trials: Counts, successes: Counts | None = None, **known: Any) -> None:
        """Define the model in NumPyro; without answers it draws them, with their parameters.

        Parameters
        ----------
        trials : int array, shape (subject, item)
            0 where the item was not run.
        successes : int array, shape (subject, item), optional
            How many were right; grades, or scores in ten-thousandths of the highest, where the
            model takes those.
        **known
            ``clusters``, the position of each subject's, and ``n_clusters``, where they come so.
        """
        drawn = self.parameters(*trials.shape, **known)
        self.answers(drawn, jnp.asarray(trials), successes)

    @abstractmethod
    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> tuple[Array, ...]:
        """Draw subjects and items from their priors: the NumPyro text without data.

        Parameters
        ----------
        n_subjects, n_items : int
        **known
            ``clusters``, the position of each subject's, and ``n_clusters``, where they come so;
            ``design`` and ``skills``, where something is known of items and subjects.

        Returns
        -------
        tuple of arrays
            What `answers` takes.
        """

    @abstractmethod
    def answers(self, drawn: tuple[Array, ...], trials: Counts, successes: Counts | None) -> None:
        """Draw answers given subjects and items, or condition on those that there are."""

    @property
    def lines(self) -> tuple[Line, ...]:
        """Lines along which no predictor changes."""
        return ()

    @property
    def priors(self) -> Priors:
        """What is believed of items, as options of the 2PL's."""
        return Priors()

    @property
    def usual(self) -> Mapping[str, tuple[float, float]]:
        """Usual (μ, σ), unconstrained, of what items have beside slope and intercept."""
        return {}

    @property
    def said(self) -> Mapping[str, Any]:
        """What is kept with draws of its options."""
        return {"priors": self.priors.describe()}

    def loadings(self, n_items: int) -> Loadings:
        """Return which abilities each item needs."""
        return Loadings(n_items, 1)

    def prior_of(self, name: str) -> Any:
        """Return the prior of a hyperparameter; None if the text has no such site."""
        with handlers.trace() as trace, handlers.seed(rng_seed=0):
            self.parameters(1, 1)
        return trace[name]["fn"] if name in trace else None

    def describe(self) -> str:
        """Return the model and what it assumes in a few words."""
        return f"{self.title}, {self.priors.describe()}"
