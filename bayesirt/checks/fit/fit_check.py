"""All fit checks together, with their conclusion in words."""

from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
import pandas as pd
from jax import Array

from bayesirt.checks.fit.calibration import Calibration, check_calibration
from bayesirt.checks.fit.categories import categories_in_words, category_fit
from bayesirt.checks.fit.cell_residuals import refuse_other_models
from bayesirt.checks.fit.direction import UNKNOWN, Direction, check_direction
from bayesirt.checks.fit.held_out import Answer, HeldOut, predict_held_out
from bayesirt.checks.fit.item_pairs import LocalDependence, local_dependence
from bayesirt.checks.fit.items import item_fit
from bayesirt.checks.fit.proportions_correct import ProportionsCorrect, check_totals
from bayesirt.checks.fit.subjects import person_fit
from bayesirt.checks.fit.wide import few_draws, few_subjects, is_wide
from bayesirt.data.responses import Responses
from bayesirt.data.scales import Scale, score_name
from bayesirt.likelihood.family import Family
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import LEVEL, Posterior
from bayesirt.random_keys import Key, as_key
from bayesirt.threads import at_once, in_background, stop_at_exit


@dataclass(frozen=True, eq=False, repr=False)
class FitCheck:
    """Whether one ability explains the responses, and where it does not."""

    items: pd.DataFrame  # From `item_fit` and `person_fit`: one row per item or subject.
    subjects: pd.DataFrame
    dependence: LocalDependence  # Pairs of items.
    totals: ProportionsCorrect
    held_out: HeldOut  # Rasch, 2PL and two abilities.
    calibration: Calibration  # Of the 2PL's held-out predictions.
    direction: Direction = UNKNOWN  # Whether the items point one way.
    part: str = ""  # What part of a wide table was checked, in words; empty if all of it was.
    answers: Scale | None = None  # What answers are, if not right and wrong.
    # From `category_fit`: how often each item gets each grade, or 0, a part and the full score.
    categories: pd.DataFrame | None = None

    @property
    def score(self) -> str:
        """The name of the mean of a subject's answers."""
        return score_name(self.answers)

    @property
    def summary(self) -> pd.DataFrame:
        """The models that were compared, one row each."""
        return self.held_out.summary

    @property
    def pairs(self) -> pd.DataFrame:
        """The most dependent pairs of items, surest first."""
        return self.dependence.pairs

    @property
    def one_ability(self) -> Answer:
        """Whether one ability explains the responses.

        As `HeldOut.one_ability`; also "no" if answers tell subjects apart but the items do not
        point one way (`Direction.is_one`).
        """
        astray = self.held_out.tells_apart and not self.direction.is_one
        return "no" if astray else self.held_out.one_ability

    @property
    def warning(self) -> str:
        """A warning before a ranking that one ability does not explain; empty if it does."""
        if self.one_ability != "no":
            return ""
        reasons = [] if self.held_out.one_ability != "no" else [self.held_out.gain]
        reasons += filter(None, [self.direction.to_text()])
        return (
            f"One ability does not explain these answers: {', and '.join(reasons)}. Subjects are "
            f"therefore sorted by their {self.score}. Fit several abilities (bayesirt rank "
            f"--model mirt, or bayesirt profile with a Q-matrix), rank each benchmark or part by "
            f"itself, or review the items (bayesirt review)."
        )

    def __repr__(self) -> str:
        return f"<FitCheck: {self.to_text()}>"

    def to_text(self) -> str:
        """Return the conclusion in a few sentences."""
        return f"{self.in_short()} {self.details()}"

    def details(self) -> str:
        """Return what was found, without whether one ability explains the answers."""
        findings = (
            self.held_out.details(),
            self.dependence.to_text(),
            self._of_rows(),
            categories_in_words(self.categories, self.answers),
            self.totals.to_text() if self.totals.p_subjects < 1 - LEVEL else "",
            self.calibration.to_text(),
            self.part,
        )
        return " ".join(filter(None, findings))

    def in_short(self) -> str:
        """Return a sentence on whether one ability explains the answers."""
        if self.one_ability == self.held_out.one_ability:
            return self.held_out.in_short()
        return f"One ability does not explain these answers: {self.direction.to_text()}."

    def _of_rows(self) -> str:
        parts = [
            f"{table['misfits'].sum():,} of {len(table):,} {name} {verb}"
            for table, name, verb in (
                (self.items, "items", "do not rise with ability as the model expects"),
                (self.subjects, "subjects", "miss easy items and get hard ones right"),
            )
            if table["misfits"].any()
        ]
        if not parts:
            return ""
        return f"{' and '.join(parts)}."


def _right_and_wrong(known: Posterior | Responses) -> Responses:
    """Return binary answers; other kinds are cut where an item's answers are halved most evenly."""
    if isinstance(known, Posterior):
        scale, (successes, trials) = known.answers, (known.successes, known.trials)
    elif known.scale is None:
        return known
    else:
        scale, (successes, trials) = known.scale, known.cells.matrices()
    if scale is not None:
        score = np.where(trials > 0, successes, np.nan)
        middle = np.nanmedian(score, axis=0)
        above, from_it = (x.astype(float) for x in (score > middle, score >= middle))
        seen = trials > 0
        even = [np.abs(x.sum(0) / seen.sum(0) - 0.5) for x in (above * seen, from_it * seen)]
        successes = (np.where(even[0] <= even[1], above, from_it) * seen).astype(np.int8)
        trials = seen.astype(np.int8)
    return Responses.from_arrays(
        successes,
        trials,
        subjects=known.subjects,
        items=known.items,
    )


def fit_key(seed: int) -> Array:
    """Return the key of the check of fit of a run with this seed."""
    return jax.random.fold_in(jax.random.key(seed), 3)


def predict_meanwhile(responses: Responses, key: Array) -> Future[HeldOut]:
    """Begin with the part of a check of fit that needs no draws, in another thread."""
    return in_background(lambda: _predicted(responses, key))


def compile_meanwhile(
    held_out: Future[HeldOut], responses: Responses, point: PointEstimate, family: Family
) -> Future[HeldOut]:
    """Predict held-out answers, then compile what checks draws, in another thread.

    To this end the point estimate is checked as if it were a draw.
    """

    def compiled() -> HeldOut:
        known = held_out.result()
        stop_at_exit()
        with suppress(Exception):  # What fails here fails again, and is told, with real draws.
            names = "theta", "a", "d", *family.further
            draw = {name: point[name][None, None] for name in names}
            posterior = Posterior.from_samples(draw, {}, responses, {"link": family.name})
            if not is_wide(posterior):  # Checking even one draw of such a table takes long.
                check_draws(posterior, known, key=jax.random.key(0))
        return known

    return in_background(compiled)


def _predicted(known: Posterior | Responses, key: Array, *, progress: bool = False) -> HeldOut:
    _, of_folds, _ = jax.random.split(key, 3)
    return predict_held_out(_right_and_wrong(known), key=of_folds, progress=progress)


def check_fit(
    posterior: Posterior, *, key: Key, q: float = 0.1, progress: bool = False
) -> FitCheck:
    """Check whether one ability explains the responses that a posterior was drawn from.

    Parameters
    ----------
    posterior : Posterior
        Of a model with one ability.
    key : jax.random.key or int
        For replications and for the choice of held-out cells.
    q : float
        Bound on the expected share of false ones among the listed items, subjects and pairs.
    progress : bool
        Show a progress bar, if stderr is a terminal.

    Returns
    -------
    FitCheck

    Raises
    ------
    ResponseError
        If the model has more than one ability, or there are fewer than three items.

    Notes
    -----
    p-values of items, subjects and pairs are posterior predictive, made uniform: the mean of each
    statistic over draws is divided by its standard deviation under the model, which follows from
    its variance over the posterior (`bayesirt.checks.fit.tail_probabilities`). They are valid if
    the priors are. Large data reveal any departure, however small: judge its size by `q3`, the
    excess columns and the gain per answer.

    In tables with more than two million cells, items, pairs and totals are checked on 2,000
    subjects drawn at random, and these checks and that of subjects use about 20 draws. The
    posterior is that of all answers, so the p-values are as valid as for the whole table; their
    power is that of 2,000 subjects.

    References
    ----------
    Sinharay, Johnson & Stern 2006; Gelman et al. 2013, chapters 6 and 7.

    Examples
    --------
    >>> import numpy as np
    >>> draws = {"theta": np.zeros((1, 4, 3)), "a": np.ones((1, 4, 2)), "d": np.zeros((1, 4, 2))}
    >>> answers = Responses.from_arrays([[1, 0], [0, 1], [1, 1]])
    >>> posterior = Posterior.from_samples(draws, {}, answers, {})
    >>> check_fit(posterior, key=jax.random.key(0))
    Traceback (most recent call last):
    bayesirt.errors.ResponseError: a check of fit needs 3 items or more, got 2; add items
    """
    key = as_key(key)
    refuse_other_models(posterior)
    return check_draws(posterior, _predicted(posterior, key, progress=progress), key=key, q=q)


def check_draws(posterior: Posterior, held_out: HeldOut, *, key: Array, q: float = 0.1) -> FitCheck:
    """Check what needs draws, given the predictions of held-out answers."""
    refuse_other_models(posterior)
    of_totals, _, of_bands = jax.random.split(key, 3)
    answers = held_out.predicted, held_out.successes, held_out.trials
    part, of_items, of_subjects = "", posterior, posterior
    if is_wide(posterior):
        of_subjects = few_draws(posterior)
        of_items = few_subjects(of_subjects, jax.random.fold_in(key, 0))
        part = (
            f"In this large table, items, pairs of items and the spread of scores were checked on "
            f"{len(of_items.subjects):,} of {len(posterior.subjects):,} subjects drawn at random, "
            f"and held-out answers of {held_out.n_subjects:,} subjects to {held_out.n_items:,} "
            f"items were predicted."
        )
    items, subjects, dependence, totals = at_once(
        [
            partial(item_fit, of_items, q=q),
            partial(person_fit, of_subjects, q=q),
            partial(local_dependence, of_items, q=q),
            partial(check_totals, of_items, key=of_totals),
        ]
    )
    return FitCheck(
        items,
        subjects,
        dependence,
        totals,
        held_out,
        check_calibration(*answers, key=of_bands),
        check_direction(posterior),
        part,
        posterior.answers,
        category_fit(of_items, q=q),
    )
