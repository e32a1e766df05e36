"""A run's ranking, stored with the draws so that it need not be computed again."""

import xarray as xr

from bayesirt import __version__
from bayesirt.errors import ResponseError
from bayesirt.posterior import Posterior
from bayesirt.ranking.score_order import by_ability
from bayesirt.ranking.settings import Settings
from bayesirt.ranking.subject_ranking import Ranking, rank_subjects, ranking_of

_GROUP = "ranking"


def ranked(posterior: Posterior, settings: Settings) -> tuple[Ranking, str]:
    """Rank subjects, without the requested scale if the draws do not allow it."""
    population = settings.population
    try:
        return rank_subjects(posterior, scale=dict(settings.scale), population=population), ""
    except ResponseError as error:
        without = rank_subjects(posterior, population=population)
        return without, f"There is no scale: {error}."


def with_ranking(posterior: Posterior, ranking: Ranking) -> Posterior:
    """Return draws that store their ranking."""
    tree = posterior.tree.copy()
    summary = by_ability(ranking.summary).set_index("subject")
    tree[_GROUP] = xr.DataTree(summary.to_xarray())
    return Posterior(tree)


def kept_ranking(posterior: Posterior) -> Ranking | None:
    """Return the ranking stored with draws, if this version made it."""
    tree = posterior.tree
    if _GROUP not in tree or tree.attrs["bayesirt_version"] != __version__:
        return None
    return ranking_of(tree[_GROUP].to_dataset().to_dataframe().reset_index(), posterior)
