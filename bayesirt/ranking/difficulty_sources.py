"""Sources of difficulty: slopes, effects of levels such as judges, and their shares."""

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.errors import ResponseError
from bayesirt.names import brief, one_line
from bayesirt.posterior import TAILS, Posterior

_MOST_IN_POINTS = 60
"""Most levels of a factor for which points are computed, with a pass over the cells for each."""
_FLAT = 0.75
"""Ratio of slopes below which a judge tells models apart much less than others."""
NOT_EXPLAINED = "not explained"


@dataclass(frozen=True, eq=False, repr=False)
class DifficultySources:
    """What makes items difficult.

    Attributes
    ----------
    slopes : DataFrame
        One row per covariate: `covariate`; `slope`, the increase in difficulty per unit, in logits;
        its 90% interval `low` and `high`; and `p_harder`, the probability that it is above 0.
    effects : DataFrame
        One row per level: `factor`, `level`, `n_items`; `effect`, by how many logits its items are
        harder than the average of the factor's levels, with `low` and `high`; `points`, by how much
        its items lower the mean score of these subjects, in per cent of the full score or in grades
        (for factors with up to 60 levels); and `slope`, the ratio of its items' mean slope to that
        of all items, with `slope_low` and `slope_high`: a judge far below 1 grades by something
        that the others ignore.
    shares : DataFrame
        One row per source: `source`, and its `share` of the variance of these items' difficulty,
        with `low` and `high`.
    sound : bool
        As in `Ranking`.
    unit : str
        Unit of `points`.
    """

    slopes: pd.DataFrame
    effects: pd.DataFrame
    shares: pd.DataFrame
    sound: bool = True
    unit: str = "points of 100"

    def __repr__(self) -> str:
        return f"<DifficultySources: {', '.join(self.shares['source'])}>"

    @property
    def table(self) -> pd.DataFrame:
        """All results for a file, one row per slope, level or share."""
        slopes = self.slopes.rename(columns={"covariate": "source", "slope": "value"})
        effects = self.effects.rename(columns={"factor": "source", "effect": "value"})
        shares = self.shares.rename(columns={"share": "value"})
        kinds = {"slope": slopes, "effect": effects, "share of variance": shares}
        parts = [part.assign(what=kind) for kind, part in kinds.items() if len(part)]
        columns = ["what", "source", "level", "value", "low", "high", "points", "n_items"]
        columns += ["slope", "slope_low", "slope_high"]
        return pd.concat(parts).reindex(columns=columns)

    def of_factor(self, factor: str) -> pd.DataFrame:
        """Return the rows of `effects` of one factor, the hardest level first."""
        rows = self.effects[self.effects["factor"] == factor]
        return rows.sort_values("effect", ascending=False, ignore_index=True)

    @property
    def compared(self) -> list[str]:
        """Names of the factors with few enough levels to compare each."""
        sizes = self.effects.groupby("factor", sort=False).size()
        return [str(name) for name, n in sizes.items() if n <= _MOST_IN_POINTS]

    def to_text(self) -> str:
        """Return in words what explains difficulty, and which levels are harsh."""
        if not self.sound:
            return "What makes questions difficult is not known yet: see the verdict."
        sentences = [
            f"One more unit of {one_line(row.covariate)} makes a question harder by "
            f"{row.slope:.2f} logits ({row.low:.2f} to {row.high:.2f})."
            for row in self.slopes.itertuples()
        ]
        sentences += [self._extremes(factor) for factor in self.compared]
        sentences += filter(None, map(self._odd, self.compared))
        return " ".join([*sentences, f"Of the variance of difficulty, {explained(self.shares)}."])

    def _odd(self, factor: str) -> str:
        """Return which levels clearly tell models apart less than the others, if any."""
        rows = self.of_factor(factor)
        rows = rows[rows["slope_high"] < _FLAT].sort_values("slope")
        if not len(rows):
            return ""
        first = rows.iloc[0]
        tells, it_seems = "tells", "it seems"
        if len(rows) > 1:
            tells, it_seems = f"and {len(rows) - 1} more tell", "they seem"
        return (
            f"{one_line(str(first['level']), 60)} {tells} models apart much less than the others "
            f"do ({first['slope']:.0%} of the usual slope, {first['slope_low']:.0%} to "
            f"{first['slope_high']:.0%}), so {it_seems} to measure something else."
        )

    def _extremes(self, factor: str) -> str:
        rows = self.of_factor(factor)
        first, last = rows.iloc[0], rows.iloc[-1]
        n_clear = int(((rows["low"] > 0) | (rows["high"] < 0)).sum())
        return (
            f"By {one_line(factor)}, questions are hardest with {one_line(first['level'])} "
            f"({_in_points(first, self.unit)}) and easiest with {one_line(last['level'])} "
            f"({_in_points(last, self.unit)}); {n_clear} of {len(rows)} clearly differ from the "
            f"average."
        )


def explained(shares: pd.DataFrame) -> str:
    """Return in words what share of a variance each source explains."""
    return ", ".join(
        f"{one_line(row.source)} {row.share:.0%} ({row.low:.0%} to {row.high:.0%})"
        for row in shares[shares["source"] != NOT_EXPLAINED].itertuples()
    )


def _in_points(row: pd.Series, unit: str) -> str:
    word = "less" if row["points"] >= 0 else "more"
    return f"{brief(abs(row['points']))} {unit} {word}"


def difficulty_sources(posterior: Posterior) -> DifficultySources:
    """Return what makes items difficult, from draws of a model that explains it.

    Parameters
    ----------
    posterior : Posterior
        Of a model with `Priors.difficulty`.

    Returns
    -------
    DifficultySources

    Raises
    ------
    ResponseError
        If its model does not explain difficulty.

    Notes
    -----
    Effects are relative to the mean of the factor's levels in each draw. Shares are variances over
    these items of each part of the intercepts (the slopes, each factor and the rest), divided by
    their sum, in each draw (De Boeck and Wilson 2004).

    Examples
    --------
    >>> import jax, pandas as pd
    >>> from dataclasses import replace
    >>> from bayesirt import Priors, Responses, RunOptions, TwoPL, sample_posterior
    >>> responses = Responses.from_arrays(np.tri(6, 4))
    >>> judges = pd.DataFrame({"judge": ["x", "x", "y", "y"]}, index=list(responses.items))
    >>> posterior = sample_posterior(
    ...     replace(responses, item_metadata=judges),
    ...     key=jax.random.key(0),
    ...     model=TwoPL(Priors(difficulty="(1|judge)")),
    ...     options=RunOptions(num_warmup=50, num_samples=20),
    ... )
    >>> difficulty_sources(posterior).of_factor("judge")["level"].to_list()
    ['y', 'x']
    """
    if not explains(posterior):
        raise ResponseError(
            "this posterior does not explain difficulty; rank with --facet or --formula"
        )
    factors = json.loads(posterior.tree.attrs["factors"])
    constant = posterior.tree["constant_data"]
    rest, parts = posterior.draws("d").copy(), {}
    rest -= posterior.draws("mu_d")[:, None]
    if "mu_b" in posterior.dataset:
        rest += posterior.draws("mu_b")[:, None] * posterior.draws("a")
    if "beta" in posterior.dataset:
        z = constant["covariates"].to_numpy()
        names = [str(x) for x in posterior.dataset["covariate"].values]
        parts[", ".join(names)] = posterior.draws("beta") @ z.T
    effects = []
    for site, name in factors.items():
        levels, places = levels_of(posterior, site)
        draws = posterior.draws(site)
        parts[name] = draws[:, places]
        effects.append(_effects(posterior, name, levels, places, draws))
    columns = ["factor", "level", "n_items", "effect", "low", "high", "points", "slope"]
    answers = posterior.answers
    graded = answers is not None and answers.kind == "graded"
    return DifficultySources(
        slopes_of(posterior, "beta", "covariates", "p_harder"),
        pd.concat(effects) if effects else pd.DataFrame(columns=columns),
        shares_of(parts, rest + sum(parts.values())),
        posterior.verdict.sound,
        "grades" if graded else "points of 100",
    )


def explains(posterior: Posterior) -> bool:
    """Return whether a posterior's model explains the difficulty of items."""
    return "factors" in posterior.tree.attrs


def levels_of(posterior: Posterior, site: str) -> tuple[list[str], NDArray[np.intp]]:
    """Return the names of a factor's levels, and the index of each item's or subject's level."""
    dim = str(posterior.dataset[site].dims[-1])
    levels = [str(x) for x in posterior.dataset[dim].values]
    names = posterior.tree["constant_data"][f"{dim}_of"].to_numpy()
    return levels, pd.Index(levels, dtype=object).get_indexer(names)


def slopes_of(
    posterior: Posterior,
    site: str,
    attribute: str,
    above: str,
    unit: NDArray[np.float64] | float = 1.0,
) -> pd.DataFrame:
    """Return the slope of each covariate in its own unit, with its interval and P(> 0)."""
    columns = ["covariate", "slope", "low", "high", above]
    spreads = json.loads(posterior.tree.attrs[attribute])
    if not spreads:
        return pd.DataFrame(columns=columns)
    draws = posterior.draws(site) / np.array([*spreads.values()]) / unit
    low, high = np.quantile(draws, TAILS, axis=0)
    values = ([*spreads], draws.mean(0), low, high, (draws > 0).mean(0))
    return pd.DataFrame(dict(zip(columns, values, strict=True)))


def _effects(
    posterior: Posterior,
    name: str,
    levels: list[str],
    places: NDArray[np.intp],
    draws: NDArray[np.float64],
) -> pd.DataFrame:
    deviations = draws - draws.mean(1, keepdims=True)
    low, high = np.quantile(deviations, TAILS, axis=0)
    effect = deviations.mean(0)
    points = np.full(len(levels), np.nan)
    if len(levels) <= _MOST_IN_POINTS:
        points = _lost_points(posterior, effect, places)
    a = posterior.draws("a")
    of_level = np.stack([a[:, places == k].mean(1) for k in range(len(levels))], 1)
    slope = of_level / a.mean(1, keepdims=True)
    slope_low, slope_high = np.quantile(slope, TAILS, axis=0)
    return pd.DataFrame(
        {
            "factor": name,
            "level": levels,
            "n_items": np.bincount(places, minlength=len(levels)),
            "effect": effect,
            "low": low,
            "high": high,
            "points": points,
            "slope": slope.mean(0),
            "slope_low": slope_low,
            "slope_high": slope_high,
        }
    )


def _lost_points(
    posterior: Posterior, effect: NDArray[np.float64], places: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return by how much each level lowers the mean score over all items, at posterior means."""
    import jax.numpy as jnp

    from bayesirt.likelihood.families import family_named
    from bayesirt.ranking.residual_excess import typical_trials

    means = posterior.dataset.mean(("chain", "draw"))
    theta, a, d = (means[name].to_numpy() for name in ("theta", "a", "d"))
    family = family_named(posterior.link).given([means[x].to_numpy() for x in posterior.further])
    neutral, trials = theta[:, None] * a + d + effect[places], typical_trials(posterior)

    def score(eta: NDArray[np.float64]) -> float:
        return float(np.asarray(family.shares(jnp.asarray(eta), trials).mean).mean())

    answers = posterior.answers
    full = 100.0 if answers is None or answers.kind != "graded" else float(answers.steps)
    return full * np.array([score(neutral) - score(neutral - x) for x in effect])


def shares_of(parts: dict[str, NDArray[np.float64]], rest: NDArray[np.float64]) -> pd.DataFrame:
    """Return each part's share of the sum of their variances over members, with intervals."""
    variances = np.stack([x.var(1) for x in (*parts.values(), rest)])
    shares = variances / variances.sum(0)
    low, high = np.quantile(shares, TAILS, axis=1)
    columns = {"source": [*parts, NOT_EXPLAINED], "share": shares.mean(1), "low": low, "high": high}
    return pd.DataFrame(columns)
