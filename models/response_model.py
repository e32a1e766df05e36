"""The interface of response models, which each model file implements.

Every model here is a two-way model. Given the items, subjects are independent of each other, and
vice versa; a cell's log density depends on linear predictors, which are products of subject
parameters and item parameters. A model file defines the model as a NumPyro function, and the lines
through its parameters along which no predictor changes. Engines, checks, rankings and commands
need nothing else.
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
        (values, t) → the values that change at t, computed elementwise; t = 0 is no move.
    trait : str
        The subjects' site whose level (or unit, if not `normal`) moves.
    normal : bool
        Whether the move only adds multiples of t, along which priors are normal, jointly with the
        means of populations; t itself is added to the trait.
    shape : tuple of int
        Shape of t. With several abilities all levels move at once.
    """

    name: str
    move: Callable[[Values, Array], dict[str, Array]]
    trait: str
    normal: bool = False
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class ResponseModel(ABC):
    """A response model with its options; equal models have equal hashes.

    Attributes
    ----------
    name : str
        Name used on the command line.
    title : str
        Name shown in reports.
    meaning : str
        What the model says about an answer, with its source: a clause for reports.
    covers : str
        What 90% intervals of its Laplace approximation covered in simulations.
    lengths : bool
        Whether responses must have lengths.
    explained : bool
        Whether covariates may explain difficulty and ability, and items may be grouped.
    takes : {"binary", "graded", "continuous", "unbounded"}
        The kind of answers that the model is for.
    known_spreads : bool
        Whether the spreads of item parameters beyond slope and intercept are fixed.
    simpler : str, optional
        Name of the simpler model that it should predict better than.
    dims : mapping
        Dimensions of each parameter.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    meaning: ClassVar[str]
    covers: ClassVar[str] = ""
    lengths: ClassVar[bool] = False
    explained: ClassVar[bool] = False
    takes: ClassVar[Kind] = "binary"
    known_spreads: ClassVar[bool] = False
    simpler: ClassVar[str | None] = None
    dims: ClassVar[Mapping[str, list[str]]]

    @classmethod
    def chosen(cls, priors: Priors, *, wrong_lengths: bool = False) -> "ResponseModel":
        """Return the model with the options given by the user.

        Raises
        ------
        ResponseError
            If the model does not support an option.
        """
        cls._refuse(priors, wrong_lengths=wrong_lengths)
        return cls()

    @classmethod
    def _refuse(cls, priors: Priors, *, wrong_lengths: bool) -> None:
        if priors.guessing is not None:
            raise ResponseError(
                f"guessing is part of the 3pl, not of {cls.name}; pass --model 3pl, or leave "
                f"out --guessing"
            )
        if (priors.explains or priors.groups) and not cls.explained:
            raise ResponseError(
                f"{cls.name} does not support covariates of difficulty or ability, or groups of "
                f"items; only models of one ability without lengths do; leave these options out"
            )
        if wrong_lengths:
            raise ResponseError(
                f"only lart models the lengths of wrong answers; {cls.name} uses no lengths; "
                f"pass --model lart, or leave out --wrong-lengths"
            )

    def suited_to(self, responses: Responses) -> "ResponseModel":
        """Return the model adapted to the responses.

        Raises
        ------
        ResponseError
            If the model is for another kind of answers.
        """
        refuse_other_answers(responses.scale, self.name, self.takes)
        return self

    @property
    def engines(self) -> tuple[Method, ...]:
        """Engines that can sample the posterior; the first is the default."""
        return "blocked", "nuts"

    @property
    def family(self) -> Family:
        """Distribution of an answer given its predictors."""
        return LOGIT

    def __call__(self, trials: Counts, successes: Counts | None = None, **known: Any) -> None:
        """Define the model in NumPyro; without answers it draws parameters and answers.

        Parameters
        ----------
        trials : int array, shape (subject, item)
            0 where the item was not run.
        successes : int array, shape (subject, item), optional
            Number of right trials. Depending on the model, grades, or scores in ten-thousandths of
            the highest.
        **known
            With clusters, ``clusters``, the cluster index of each subject, and ``n_clusters``.
        """
        drawn = self.parameters(*trials.shape, **known)
        self.answers(drawn, jnp.asarray(trials), successes)

    @abstractmethod
    def parameters(self, n_subjects: int, n_items: int, **known: Any) -> tuple[Array, ...]:
        """Draw subjects and items from their priors: the NumPyro model without data.

        Parameters
        ----------
        n_subjects, n_items : int
        **known
            With clusters, ``clusters``, the cluster index of each subject, and ``n_clusters``; with
            covariates of items or subjects, ``design`` or ``skills``.

        Returns
        -------
        tuple of arrays
            What `answers` takes.
        """

    @abstractmethod
    def answers(self, drawn: tuple[Array, ...], trials: Counts, successes: Counts | None) -> None:
        """Draw answers given subjects and items, or condition on observed ones."""

    @property
    def lines(self) -> tuple[Line, ...]:
        """Lines along which no predictor changes."""
        return ()

    @property
    def priors(self) -> Priors:
        """Prior options, as for the 2PL."""
        return Priors()

    @property
    def usual(self) -> Mapping[str, tuple[float, float]]:
        """Typical (μ, σ), unconstrained, of item parameters beyond slope and intercept."""
        return {}

    @property
    def said(self) -> Mapping[str, Any]:
        """Options that are stored with the draws."""
        return {"priors": self.priors.describe()}

    def loadings(self, n_items: int) -> Loadings:
        """Return which abilities each item needs."""
        return Loadings(n_items, 1)

    def prior_of(self, name: str) -> Any:
        """Return the prior of a hyperparameter; None if the model has no such site."""
        with handlers.trace() as trace, handlers.seed(rng_seed=0):
            self.parameters(1, 1)
        return trace[name]["fn"] if name in trace else None

    def describe(self) -> str:
        """Return a short description of the model and its assumptions."""
        return f"{self.title}, {self.priors.describe()}"
