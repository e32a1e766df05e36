"""A run: a ranking with everything it rests on."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from bayesirt.errors import ResponseError
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.ranking.cluster_ranking import ClusterRanking, rank_clusters
from bayesirt.ranking.record import Record, timed
from bayesirt.ranking.score_order import led_by_score
from bayesirt.ranking.settings import Settings
from bayesirt.ranking.subject_ranking import Ranking

if TYPE_CHECKING:
    from concurrent.futures import Future

    import pandas as pd

    from bayesirt.checks.fit.fit_check import FitCheck
    from bayesirt.checks.fit.held_out import HeldOut
    from bayesirt.checks.point_comparison import Comparison
    from bayesirt.checks.wrong_lengths import WrongLengths
    from bayesirt.ranking.ability_sources import AbilitySources
    from bayesirt.ranking.difficulty_sources import DifficultySources
    from bayesirt.ranking.effective_items import EffectiveItems
    from bayesirt.ranking.length_gain import LengthGain
    from bayesirt.ranking.repeated_runs import RepeatedRuns
    from bayesirt.ranking.topic_rankings import TopicRankings


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A ranking with everything it rests on.

    Attributes
    ----------
    point : PointEstimate
    posterior : Posterior
    ranking : Ranking
    record : Record
    gain : LengthGain or None
        What lengths added, if the model uses them.
    wrong : WrongLengths or None
        What lengths of wrong answers changed, if the model uses them.
    fit : FitCheck or None
        Whether one ability explains the responses, if that was checked.
    topics : TopicRankings or None
        A ranking by each topic of the items, if it was requested.
    held_out : Future of HeldOut, optional
        Predictions of held-out answers, made while chains run, for a check of fit.
    """

    point: PointEstimate
    posterior: Posterior
    ranking: Ranking
    record: Record[Settings]
    gain: "LengthGain | None" = None
    wrong: "WrongLengths | None" = None
    fit: "FitCheck | None" = None
    topics: "TopicRankings | None" = None
    held_out: "Future[HeldOut] | None" = None

    def __repr__(self) -> str:
        return f"<Run: {self.ranking!r} from {self.record.data.source}>"

    def _repr_html_(self) -> str:
        return self.ranking._repr_html_()

    @cached_property
    def items(self) -> "pd.DataFrame":
        """A table of the estimates of each item."""
        from bayesirt.checks.item_table import item_table

        return item_table(self.posterior)

    @cached_property
    def comparison(self) -> "Comparison":
        """Comparison of the point estimate with the posterior."""
        from bayesirt.checks.point_comparison import compare_estimates

        return compare_estimates(self.point, self.posterior)

    @cached_property
    def clusters(self) -> ClusterRanking | None:
        """The ranking of the clusters of subjects, if there are any."""
        return None if self.posterior.clusters is None else rank_clusters(self.posterior)

    @cached_property
    def difficulty(self) -> "DifficultySources | None":
        """What makes items difficult, if the model explains it."""
        from bayesirt.ranking.difficulty_sources import difficulty_sources, explains

        return difficulty_sources(self.posterior) if explains(self.posterior) else None

    @cached_property
    def skills(self) -> "AbilitySources | None":
        """What makes subjects able, if the model explains it."""
        from bayesirt.ranking.ability_sources import ability_sources, explains_ability

        return ability_sources(self.posterior) if explains_ability(self.posterior) else None

    @cached_property
    def effective_items(self) -> "EffectiveItems | None":
        """How many independent items would be as informative, if items come in groups."""
        from bayesirt.ranking.effective_items import effective_items, in_groups

        return effective_items(self.posterior) if in_groups(self.posterior) else None

    @cached_property
    def repeats(self) -> "RepeatedRuns | None":
        """Results of several runs of each question, if the model is that of repeats."""
        if self.record.settings.model != "repeats":
            return None
        from bayesirt.ranking.repeated_runs import repeated_runs

        return repeated_runs(self.posterior)

    def without_changes(self) -> "Run":
        """Return the run without what had changed since the run before it."""
        diagnostics = {k: x for k, x in self.record.diagnostics.items() if k != "changes"}
        return replace(self, record=replace(self.record, diagnostics=diagnostics))

    def with_fit(self, *, progress: bool = False) -> "Run":
        """Return the run with a fit check, whose conclusion is added to the record.

        If one ability does not explain the responses, the ranking is sorted by accuracy.
        """
        from bayesirt.checks.fit.fit_check import check_draws, check_fit, fit_key

        seconds, key = dict(self.record.seconds), fit_key(self.record.settings.seed)
        fit = None
        try:
            with timed(seconds, "check of fit"):
                if self.held_out is None:
                    fit = check_fit(self.posterior, key=key, progress=progress)
                else:
                    fit = check_draws(self.posterior, self.held_out.result(), key=key)
            text = fit.to_text()
        except ResponseError as error:
            text = f"The fit was not checked: {error}."
        except KeyboardInterrupt:  # keep the draws, which may have taken hours
            text = "The fit was not checked: the check was interrupted; run bayesirt fit-check."
        diagnostics = {**self.record.diagnostics, "fit": text}
        ranking = self.ranking
        if fit is not None and fit.warning:
            diagnostics["misfit"] = fit.warning
            ranking = led_by_score(ranking, fit.warning)
        record = replace(self.record, seconds=seconds, diagnostics=diagnostics)
        return replace(self, fit=fit, ranking=ranking, record=record)
