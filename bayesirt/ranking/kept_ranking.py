"""A run's ranking, and how it is kept beside the draws, so that it need not be made again."""

import xarray as xr

from bayesirt import __version__
from bayesirt.errors import ResponseError
from bayesirt.posterior import Posterior
from bayesirt.ranking.score_order import by_ability
from bayesirt.ranking.settings import Settings
from bayesirt.ranking.subject_ranking import Ranking, rank_subjects, ranking_of

_GROUP = "ranking"


def ranked(posterior: Posterior, settings: Settings) -> tuple[Ranking, str]:
    """Rank subjects; where the draws allow no scale as it was asked for, without it."""
    population = settings.population
    try:
        return rank_subjects(posterior, scale=dict(settings.scale), population=population), ""
    except ResponseError as error:
        without = rank_subjects(posterior, population=population)
        return without, f"There is no scale: {error}."


def with_ranking(posterior: Posterior, ranking: Ranking) -> Posterior:
    """Return draws that keep the ranking that was made of them."""
    tree = posterior.tree.copy()
    summary = by_ability(ranking.summary).set_index("subject")
    tree[_GROUP] = xr.DataTree(summary.to_xarray())
    return Posterior(tree)


def kept_ranking(posterior: Posterior) -> Ranking | None:
    """Return the ranking that draws keep, if this version made it."""
    tree = posterior.tree
    if _GROUP not in tree or tree.attrs["bayesirt_version"] != __version__:
        return None
    return ranking_of(tree[_GROUP].to_dataset().to_dataframe().reset_index(), posterior)
