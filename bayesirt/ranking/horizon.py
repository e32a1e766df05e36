"""Time horizons: how long a task, in human minutes, a subject completes with what probability."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.posterior import LOW_MIDDLE_HIGH, TAILS, Posterior

CHANCES = (0.5, 0.8)
_FEWEST = 10
_SURE = 0.95
_MOST_DRAWS, _MOST_TASKS, _HALVINGS = 200, 200, 40
_DAYS_A_YEAR = 365.25
_LEAST_RELIABILITY, _LEAST_BESIDE, _FLATTEST = 0.2, 0.01, -1e-6
_FARTHEST = 25.0
"""Log minutes from the mean within which a horizon is sought."""


@dataclass(frozen=True, eq=False, repr=False)
class Horizons:
    """How long a task each subject completes.

    Attributes
    ----------
    summary : DataFrame
        One row per subject, the longest horizon first: `subject`; `horizon_50` and `horizon_80`,
        the human minutes of a typical task that the subject completes with that probability;
        `marginal_50` and `marginal_80`, the same over all tasks of a length, some of which are much
        harder than others; each the median over draws with a 90% interval, `_low` and `_high`; and
        `beyond`, whether `horizon_50` is outside the lengths of these tasks. With dates also
        `date`.
    n_tasks : int
        Tasks with known minutes.
    explained, explained_low, explained_high : float
        Share of the variance of these tasks' difficulty that their logarithmic minutes explain.
    shortest, longest : float
        Minutes of these tasks.
    doubling, doubling_low, doubling_high : float
        Days in which `horizon_50` doubles, if dates are known, else NaN.
    sound : bool
        As in `Ranking`.
    """

    summary: pd.DataFrame
    n_tasks: int
    explained: float
    explained_low: float
    explained_high: float
    shortest: float
    longest: float
    doubling: float = np.nan
    doubling_low: float = np.nan
    doubling_high: float = np.nan
    sound: bool = True

    def __repr__(self) -> str:
        return f"<Horizons of {len(self.summary)} subjects by {self.n_tasks} tasks>"

    def to_text(self) -> str:
        """Return in words who completes the longest tasks, and what marginal horizons change."""
        if not self.sound:
            return "How long a task subjects complete is not known yet: see the verdict."
        first = self.summary.iloc[0]
        ratio = float((self.summary["horizon_80"] / self.summary["marginal_80"]).median())
        sentences = [
            f"{one_line(str(first['subject']), 60)} completes the longest tasks: a typical one of "
            f"{in_time(first['horizon_50'])} ({in_time(first['horizon_50_low'])} to "
            f"{in_time(first['horizon_50_high'])}) half of the time.",
            f"Minutes explain {self.explained:.0%} ({self.explained_low:.0%} to "
            f"{self.explained_high:.0%}) of the variance of difficulty of {self.n_tasks:,} tasks.",
            f"Tasks of equal length differ, so a horizon at 80% over all of them is {ratio:.1f} "
            f"times shorter than one for typical tasks (median subject).",
        ]
        beyond = int(self.summary["beyond"].sum())
        if beyond:
            sentences.append(
                f"{beyond} of {len(self.summary)} horizons at 50% are outside the lengths of these "
                f"tasks ({in_time(self.shortest)} to {in_time(self.longest)}) and rest on "
                f"extrapolation."
            )
        if np.isfinite(self.doubling):
            sentences.append(
                f"The horizon doubles every {self.doubling:,.0f} days ({self.doubling_low:,.0f} to "
                f"{self.doubling_high:,.0f})."
            )
        return " ".join(sentences)


class _Line(NamedTuple):
    """Regression on log minutes and slopes at each draw, d = α + β x + λ (a - ā) + ε."""

    # shape (sample,)
    typical_slope: NDArray[np.float64]
    intercept: NDArray[np.float64]
    slope: NDArray[np.float64]
    explained: NDArray[np.float64]
    # shape (sample, item). Intercept that each item would have at mean length.
    own: NDArray[np.float64]


def horizons(
    posterior: Posterior,
    minutes: pd.Series,
    *,
    dates: pd.Series | None = None,
    error: float = 0.0,
) -> Horizons:
    """Return how long a task each subject completes, with intervals.

    Parameters
    ----------
    posterior : Posterior
        Of a model with one ability, of right and wrong answers to tasks.
    minutes : Series
        How long tasks take a human, in minutes, indexed by item; other items are left out.
    dates : Series, optional
        Release dates of subjects, indexed by subject.
    error : float
        Standard deviation of the error of log minutes: .7 if half of them are off by a factor of
        more than 1.6.

    Returns
    -------
    Horizons

    Raises
    ------
    ResponseError
        If fewer than 10 tasks have minutes, one is not above zero, longer tasks are not clearly
        harder, minutes are mostly error, or answers are not right and wrong.

    Notes
    -----
    At each draw intercepts are regressed on log minutes x and on slopes, with coefficients drawn
    from their posterior given the items (uniform prior). A typical task of length x has the
    geometric mean of slopes and the intercept on the line. Over tasks of that length, each item is
    moved along the line to x, with its own slope and its own distance from the line. With an error
    e of x the line on measured lengths is flatter than that on x by the reliability
    r = 1 - e²/var(x) (Fuller, 1987, doi:10.1002/9780470316665). Draws of intercepts have the
    variance of the true ones, but are drawn towards their mean if the model does not know the
    minutes: the line on them is flatter by their own reliability. The slope is divided by both, and
    distances from the line shrink so that intercepts keep their variance. A model that explains
    difficulty by numbers is taken to know the minutes.

    Kwa et al. (2025), arXiv:2503.14499, for horizons; De Boeck and Wilson (2004), for the line.
    """
    minutes, places = _known_minutes(posterior, minutes)
    names = ("theta", "a", "d")
    theta, a, d = (posterior.draws(name, _MOST_DRAWS) for name in names)
    x = np.log(minutes)
    line = _line(a[:, places], d[:, places], x - x.mean(), error, known="beta" in posterior.dataset)
    if (line.slope < 0).mean() < _SURE:
        raise ResponseError(
            f"longer tasks are not clearly harder here (probability "
            f"{(line.slope < 0).mean():.2f}), so there is no horizon; check whether the minutes "
            f"belong to these items"
        )
    slope = np.minimum(line.slope, _FLATTEST)
    columns: dict[str, NDArray[np.float64]] = {}
    for chance in CHANCES:
        eta = line.typical_slope[:, None] * theta + line.intercept[:, None] - _logit(chance)
        columns[f"horizon_{chance:.0%}"[:-1]] = eta / -slope[:, None]
        columns[f"marginal_{chance:.0%}"[:-1]] = _marginal(
            theta, a[:, places], line, x - x.mean(), chance
        )
    logs = {name: values + x.mean() for name, values in columns.items()}
    low, high = np.quantile(line.explained, TAILS)
    doubling, doubling_low, doubling_high = _doubling(posterior, logs["horizon_50"], dates)
    return Horizons(
        _table(posterior, logs, x, dates),
        n_tasks=len(x),
        explained=float(line.explained.mean()),
        explained_low=float(low),
        explained_high=float(high),
        shortest=float(minutes.min()),
        longest=float(minutes.max()),
        doubling=doubling,
        doubling_low=doubling_low,
        doubling_high=doubling_high,
        sound=posterior.verdict.sound,
    )


def in_time(minutes: float) -> str:
    """Return minutes in a familiar unit.

    >>> in_time(0.5), in_time(42), in_time(300), in_time(12_000)
    ('30 s', '42 min', '5.0 h', '8.3 days')
    """
    if minutes < 1:
        return f"{60 * minutes:.2g} s"
    if minutes < 100:
        return f"{minutes:.2g} min"
    if minutes < 60 * 48:
        return f"{minutes / 60:.1f} h"
    return f"{minutes / 60 / 24:,.1f} days"


def _known_minutes(
    posterior: Posterior, minutes: pd.Series
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the minutes of items that have any, and their places."""
    if posterior["theta"].ndim != 3 or posterior.answers is not None or posterior.further:
        raise ResponseError(
            "horizons need a model of right and wrong answers with one ability and no guessing, "
            "such as 2pl"
        )
    values = pd.to_numeric(minutes, errors="coerce").to_numpy(float)
    given = minutes.notna().to_numpy()
    wrong = given & ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        name, value = minutes.index[np.argmax(wrong)], minutes.to_numpy()[np.argmax(wrong)]
        raise ResponseError(
            f"minutes must be above zero, got {one_line(str(value))!r} of "
            f"{one_line(str(name))!r}; correct it"
        )
    by_name = pd.Series(values, minutes.index.astype(str))[given]
    if by_name.index.has_duplicates:
        twice = by_name.index[by_name.index.duplicated()][0]
        raise ResponseError(f"{one_line(str(twice))!r} has minutes twice; leave one out")
    times = by_name.reindex(posterior.items).to_numpy()
    places = np.flatnonzero(np.isfinite(times))
    if len(places) < _FEWEST:
        raise ResponseError(
            f"{len(places)} of {len(times)} items have minutes, but a horizon needs {_FEWEST}; "
            f"names must be those of the run, such as {one_line(posterior.items[0])!r}"
        )
    if np.ptp(np.log(times[places])) == 0:
        raise ResponseError("all tasks take the same minutes, so no line can be fitted to them")
    return times[places], places


def _line(
    a: NDArray[np.float64],
    d: NDArray[np.float64],
    x: NDArray[np.float64],
    error: float,
    *,
    known: bool,
) -> _Line:
    """Draw the regression of intercepts on log minutes and slopes, at each draw of the items."""
    rng, n = np.random.default_rng(0), len(x)
    reliability = 1 - error**2 / x.var()
    if not 0 <= error < np.inf or reliability < _LEAST_RELIABILITY:
        raise ResponseError(
            f"an error of {error:g} in log minutes, whose standard deviation is {x.std():.2f}, "
            f"leaves too little signal; pass a smaller one, not below 0"
        )
    coefficients, explained = np.zeros((len(a), 3)), np.empty(len(a))
    apart = d - d.mean(1, keepdims=True)  # from the level, which all items share
    between, within = apart.mean(0).var(), apart.var(0).mean()
    shrunk = 1.0 if known else between / (between + within)
    distances = np.empty(a.shape)
    for k, (own, intercepts) in enumerate(zip(a, d, strict=True)):
        varying = np.ptp(own) > 0
        design = np.column_stack([np.ones(n), x, own - own.mean()])[:, : 3 if varying else 2]
        fitted, *_ = np.linalg.lstsq(design, intercepts, rcond=None)
        residuals = intercepts - design @ fitted
        variance = residuals @ residuals / rng.chisquare(n - design.shape[1])
        root = np.linalg.cholesky(np.linalg.inv(design.T @ design))
        drawn = fitted + np.sqrt(variance) * root @ rng.normal(size=len(fitted))
        distances[k] = intercepts - design @ drawn
        total = variance + drawn[1] ** 2 * x.var()
        drawn[1] /= reliability * shrunk
        coefficients[k, : len(drawn)] = drawn
        of_line = min(drawn[1] ** 2 * reliability * x.var(), total - _LEAST_BESIDE * variance)
        distances[k] *= np.sqrt((total - of_line) / variance)
        explained[k] = of_line / total
    typical = np.exp(np.log(np.maximum(a, 1e-3)).mean(1))
    lean, centre = coefficients[:, 2:], a.mean(1, keepdims=True)
    intercept = coefficients[:, 0] + (lean * (typical[:, None] - centre))[:, 0]
    own = coefficients[:, :1] + lean * (a - centre) + distances
    return _Line(typical, intercept, coefficients[:, 1], explained, own)


def _marginal(
    theta: NDArray[np.float64],
    a: NDArray[np.float64],
    line: _Line,
    x: NDArray[np.float64],
    chance: float,
) -> NDArray[np.float64]:
    """Return the log minutes at which tasks of that length have the given mean probability."""
    from scipy.special import expit

    order = np.argsort(x)
    tasks = order[np.linspace(0, len(x) - 1, min(len(x), _MOST_TASKS)).astype(int)]
    log_minutes = np.empty(theta.shape)
    for k, ability in enumerate(theta):
        logits = a[k, tasks] * ability[:, None] + line.own[k, tasks]
        slope = min(line.slope[k], _FLATTEST)
        low, high = np.full(len(ability), -_FARTHEST), np.full(len(ability), _FARTHEST)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            more = expit(logits + slope * middle[:, None]).mean(1) > chance
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        log_minutes[k] = middle
    return log_minutes


def _table(
    posterior: Posterior,
    logs: dict[str, NDArray[np.float64]],
    x: NDArray[np.float64],
    dates: pd.Series | None,
) -> pd.DataFrame:
    columns: dict[str, Sequence[object] | NDArray[np.float64]] = {"subject": posterior.subjects}
    for name, values in logs.items():
        low, median, high = np.quantile(values, LOW_MIDDLE_HIGH, axis=0)
        columns |= {name: np.exp(median)}
        columns |= {f"{name}_low": np.exp(low), f"{name}_high": np.exp(high)}
    table = pd.DataFrame(columns)
    table["beyond"] = ~table["horizon_50"].between(np.exp(x.min()), np.exp(x.max()))
    if dates is not None:
        table["date"] = _as_dates(dates).reindex(posterior.subjects).to_numpy()
    return table.sort_values("horizon_50", ascending=False, kind="stable", ignore_index=True)


def _as_dates(dates: pd.Series) -> pd.Series:
    timestamps = pd.to_datetime(dates, errors="coerce", format="mixed")
    wrong = timestamps.isna() & dates.notna()
    if wrong.any():
        raise ResponseError(
            f"{one_line(str(dates[wrong].iloc[0]))!r} is not a date; write 2025-03-14"
        )
    return timestamps.set_axis(dates.index.astype(str))


def _doubling(
    posterior: Posterior, logs: NDArray[np.float64], dates: pd.Series | None
) -> tuple[float, float, float]:
    """Return the days in which horizons double, by a regression on dates drawn at each draw."""
    nothing = np.nan, np.nan, np.nan
    if dates is None:
        return nothing
    when = _as_dates(dates).reindex(posterior.subjects)
    dated = when.notna().to_numpy()
    if dated.sum() < 3 or when[dated].nunique() < 2:
        raise ResponseError(
            f"{int(dated.sum())} subjects have dates, but a doubling time needs 3 with different "
            f"dates; names must be those of the run"
        )
    years = (when[dated] - when[dated].min()).dt.days.to_numpy() / _DAYS_A_YEAR
    design = np.column_stack([np.ones(len(years)), years - years.mean()])
    rng, a_year = np.random.default_rng(1), []
    for values in logs[:, dated] / np.log(2):
        fitted, *_ = np.linalg.lstsq(design, values, rcond=None)
        residuals = values - design @ fitted
        variance = residuals @ residuals / rng.chisquare(len(years) - 2)
        a_year.append(fitted[1] + rng.normal() * np.sqrt(variance / (design[:, 1] ** 2).sum()))
    low, middle, high = np.quantile(a_year, LOW_MIDDLE_HIGH)
    days = [_DAYS_A_YEAR / x if x > 0 else np.inf for x in (middle, high, low)]
    return days[0], days[1], days[2]


def _logit(chance: float) -> float:
    return float(np.log(chance / (1 - chance)))
