"""Sources of ability, such as LLM, scaffold or date, and combinations that were not run."""

import json
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.errors import ResponseError
from bayesirt.names import in_percent, one_line
from bayesirt.posterior import TAILS, Posterior, mean_and_ends
from bayesirt.ranking.difficulty_sources import explained, levels_of, shares_of, slopes_of
from bayesirt.ranking.subject_ranking import best_first, rank_columns

_MOST_COMBINATIONS = 2000
_MOST_DRAWS = 400


@dataclass(frozen=True, eq=False, repr=False)
class AbilitySources:
    """What makes subjects able.

    Attributes
    ----------
    slopes : DataFrame
        One row per covariate: `covariate`; `slope`, the increase in ability per unit, on the
        reported scale; its interval `low` and `high`; and `p_higher`, the probability that the
        slope is positive.
    effects : DataFrame
        One row per level, the best of each factor first: `factor`, `level`, `n_subjects`; `effect`,
        by how much its subjects are abler than the average of the factor's levels, with `low` and
        `high`; and `rank`, `rank_low`, `rank_high` and `p_best` as in `Ranking.summary`, among the
        factor's levels.
    shares : DataFrame
        One row per source: `source`, and its `share` of the variance of these subjects' abilities,
        with `low` and `high`.
    combinations : DataFrame
        One row per combination of levels, up to 2,000, best first: one column per factor; `run`,
        whether a subject has it; and for a new subject with it, the `ability` and the expected
        `score` on these items, each with its 90% interval.
    sound : bool
        As in `Ranking`.
    """

    slopes: pd.DataFrame
    effects: pd.DataFrame
    shares: pd.DataFrame
    combinations: pd.DataFrame
    sound: bool = True

    def __repr__(self) -> str:
        return f"<AbilitySources: {', '.join(self.shares['source'])}>"

    def of_factor(self, factor: str) -> pd.DataFrame:
        """Return the rows of `effects` of one factor."""
        return self.effects[self.effects["factor"] == factor].reset_index(drop=True)

    @property
    def factors(self) -> list[str]:
        """Names of the factors."""
        return [str(name) for name in self.effects["factor"].unique()]

    def to_text(self) -> str:
        """Return in words which levels are best, and how much each source explains."""
        if not self.sound:
            return "What makes subjects able is not known yet: see the verdict."
        sentences = []
        for factor in self.factors:
            rows = self.of_factor(factor)
            first = rows.iloc[0]
            sentences.append(
                f"Of {len(rows)} values of {one_line(factor)}, {one_line(str(first['level']), 60)} "
                f"is best with probability {in_percent(first['p_best'])}."
            )
        sentences += [
            f"One more unit of {one_line(row.covariate)} raises ability by {row.slope:+.2f} "
            f"({row.low:+.2f} to {row.high:+.2f})."
            for row in self.slopes.itertuples()
        ]
        sentences.append(f"Of the variance of abilities, {explained(self.shares)}.")
        unrun = self.combinations[~self.combinations["run"]]
        if len(unrun):
            first = unrun.iloc[0]
            name = " with ".join(one_line(str(first[x]), 40) for x in self.factors)
            sentences.append(
                f"Of {len(unrun):,} combinations that were not run, {name} is expected to be best "
                f"({first['score']:.0%}, {first['score_low']:.0%} to "
                f"{first['score_high']:.0%})."
            )
        return " ".join(sentences)


def ability_sources(posterior: Posterior) -> AbilitySources:
    """Return what makes subjects able, from draws of a model that explains it.

    Parameters
    ----------
    posterior : Posterior
        Of a model with `Priors.ability`.

    Returns
    -------
    AbilitySources

    Raises
    ------
    ResponseError
        If its model does not explain ability.

    Notes
    -----
    Effects add up: a combination that was not run has the sum of its levels' effects, with the
    spread of subjects about such sums. Abilities are on the reported scale, in units of the
    subjects' standard deviation in each draw.
    """
    if not explains_ability(posterior):
        raise ResponseError("this posterior does not explain ability; rank with --subject-factors")
    names = json.loads(posterior.tree.attrs["skills"])
    constant, theta = posterior.tree["constant_data"], posterior.theta
    unit = theta.std(1, keepdims=True) if posterior.reported.tree.attrs["scale_reported"] else 1.0
    parts, effects, draws = {}, [], {}
    if "beta_theta" in posterior.dataset:
        z = constant["subject_covariates"].to_numpy()
        covariates = [str(x) for x in posterior.dataset["subject_covariate"].values]
        parts[", ".join(covariates)] = posterior.draws("beta_theta") @ z.T
    for site, name in names.items():
        levels, places = levels_of(posterior, site)
        draws[name] = levels, places, posterior.draws(site)
        parts[name] = draws[name][2][:, places]
        effects.append(_effects(name, levels, places, draws[name][2] / unit))
    columns = ["factor", "level", "n_subjects", "effect", "low", "high", "rank"]
    return AbilitySources(
        slopes_of(posterior, "beta_theta", "subject_covariates", "p_higher", unit),
        pd.concat(effects) if effects else pd.DataFrame(columns=columns),
        shares_of(parts, theta - sum(parts.values())),
        _combinations(posterior, draws, sum(parts.values()), unit),
        posterior.verdict.sound,
    )


def explains_ability(posterior: Posterior) -> bool:
    """Return whether a posterior's model explains the ability of subjects."""
    return "skills" in posterior.tree.attrs


def _effects(
    name: str, levels: list[str], places: NDArray[np.intp], draws: NDArray[np.float64]
) -> pd.DataFrame:
    order, ranks = best_first(draws)
    deviations = (draws - draws.mean(1, keepdims=True))[:, order]
    low, high = np.quantile(deviations, TAILS, axis=0)
    counts = np.bincount(places, minlength=len(levels))[order]
    columns: dict[str, Any] = {"factor": name, "level": np.asarray(levels, object)[order]}
    columns |= {"n_subjects": counts}
    columns |= {"effect": deviations.mean(0), "low": low, "high": high}
    ranked = rank_columns(draws[:, order], ranks)
    columns |= {name: ranked[name] for name in ("rank", "rank_low", "rank_high", "p_best")}
    return pd.DataFrame(columns)


def _combinations(
    posterior: Posterior,
    factors: dict[str, tuple[list[str], NDArray[np.intp], NDArray[np.float64]]],
    fitted: NDArray[np.float64],
    unit: NDArray[np.float64] | float,
) -> pd.DataFrame:
    """Return what to expect of a new subject with each combination of levels."""
    sizes = [len(levels) for levels, _, _ in factors.values()]
    if len(factors) < 2 or np.prod(sizes) > _MOST_COMBINATIONS:
        return pd.DataFrame({**{name: [] for name in factors}, "run": np.zeros(0, bool)})
    codes = np.array([*product(*map(range, sizes))])
    present = {*zip(*(places.tolist() for _, places, _ in factors.values()), strict=True)}
    thin = -(-len(fitted) // _MOST_DRAWS)
    of_levels = zip(factors.values(), codes.T, strict=True)
    effects = np.sum([draws[::thin, code] for (_, _, draws), code in of_levels], 0)
    rest = fitted[::thin] - sum(draws[::thin][:, at] for _, at, draws in factors.values())
    spread = posterior.draws("sigma_theta")[::thin, None]
    noise = np.random.default_rng(0).normal(size=effects.shape)
    ability = effects + rest.mean(1, keepdims=True) + spread * noise
    score = _scores(posterior, ability, thin)
    centre = posterior.theta.mean(1, keepdims=True)[::thin]
    shown = (ability - centre) / (unit if isinstance(unit, float) else unit[::thin])
    columns: dict[str, Any] = {
        name: np.asarray(levels, object)[code]
        for (name, (levels, _, _)), code in zip(factors.items(), codes.T, strict=True)
    }
    columns["run"] = np.array([tuple(code) in present for code in codes.tolist()])
    for name, values in (("ability", shown), ("score", score)):
        columns |= mean_and_ends(name, values)
    return pd.DataFrame(columns).sort_values("ability", ascending=False, ignore_index=True)


def _scores(posterior: Posterior, ability: NDArray[np.float64], thin: int) -> NDArray[np.float64]:
    """Return the expected share of the full score over all items, at each draw."""
    from bayesirt.likelihood.families import family_named

    family, scores = family_named(posterior.link), np.empty(ability.shape)
    of_items = (posterior.draws(name)[::thin] for name in posterior.parameters[1:])
    for k, (theta, a, d, *further) in enumerate(zip(ability, *of_items, strict=True)):
        scores[k] = np.asarray(family.given(further).probability(theta[:, None] * a + d)).mean(1)
    return scores
