"""Several abilities without a Q-matrix: who is best on the whole suite, and along which axes.

The abilities of exploratory MIRT cannot rank subjects by themselves: the first is what most items
share, and each further one contrasts some items with others. Subjects are therefore ranked by their
expected score on all items, given all abilities.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import pandas as pd
from jax import Array
from jaxtyping import Float
from numpy.typing import NDArray

from bayesirt.checks.extreme_scores import response_flags
from bayesirt.data.connections import refuse_disconnected
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.dimension import choose_dimension
from bayesirt.estimators.registry import fit_point
from bayesirt.inference.engines import EngineName, plan_engine, sample_posterior
from bayesirt.likelihood.families import family_named
from bayesirt.models import Mirt
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import TAILS, Posterior, mean_and_ends
from bayesirt.profiles.ability_profiles import LEAST_RELIABILITY, MEASURED, PRIOR
from bayesirt.profiles.cluster_levels import cluster_levels
from bayesirt.progress import fits_shown
from bayesirt.ranking.chain_bounds import supported_columns
from bayesirt.ranking.record import Record, diagnostics_of, facts_of, timed, versions
from bayesirt.ranking.run_folder import CLUSTERS, PROFILES, write_rest
from bayesirt.ranking.settings import Sampling
from bayesirt.ranking.subject_ranking import (
    best_first,
    columns_of_chain,
    equal_answers,
    places,
    rank_columns,
)
from bayesirt.verdict import Verdict, chains_of

CANDIDATES = (1, 2, 3, 5)
"""Candidate numbers of abilities."""
_MOST_STEEP = 3


@dataclass(frozen=True)
class ExplorationSettings(Sampling):
    """Settings that the user chooses."""

    warmup: int = 500
    n_abilities: int | Literal["auto"] = "auto"
    engine: EngineName = "auto"
    model: str = Mirt.name

    def describe_model(self) -> str:
        """Describe the model and its assumptions in a few words."""
        n = self.n_abilities
        return f"{Mirt.title}, {n} {'ability' if n == 1 else 'abilities'} in principal axes"


@dataclass(frozen=True, eq=False, repr=False)
class Exploration:
    """A ranking by several abilities, with everything it is based on."""

    point: PointEstimate
    posterior: Posterior
    # One row per subject, best first: its `expected_score` on all items, given all its
    # abilities, with its 90% interval; `rank` by it and `tier`, as in `Ranking.summary`.
    ranking: pd.DataFrame
    # One row per subject and ability: `level` in standard deviations of the population, its
    # `sd` and 90% interval (`low`, `high`).
    levels: pd.DataFrame
    # One row per ability: its `share` of the variance of linear predictors, `reliability`,
    # `standing` in words, and the items that it credibly `helps` or `hinders` most.
    abilities: pd.DataFrame
    # One row per item: proportion correct, intercept `d`, and its slope on each ability with
    # its 90% interval.
    items: pd.DataFrame
    record: Record[ExplorationSettings]

    def __repr__(self) -> str:
        return (
            f"<Exploration: {len(self.ranking)} subjects by {len(self.abilities)} abilities from "
            f"{self.record.data.source}>"
        )

    @cached_property
    def clusters(self) -> pd.DataFrame | None:
        """The clusters of subjects, if there are any, ranked among each other.

        Like `ranking`, with the `expected_score` at the cluster's levels, followed by these levels.
        """
        if self.posterior.clusters is None:
            return None
        scores, levels = expected_scores(self.posterior, "gamma"), cluster_levels(self.posterior)
        columns, order = _ranked(scores, self.posterior.verdict)
        named, of_abilities = [*levels.columns[:2]], [*levels.columns[2:]]
        table = levels.iloc[order].reset_index(drop=True).assign(**columns)
        return table[[*named, *columns, *of_abilities]]

    def to_text(self) -> str:
        """Describe the abilities in sentences."""
        table = self.abilities
        chosen = self.record.diagnostics.get("n_abilities")
        text = []
        if chosen:
            text = [f"Chosen on held-out answers: {chosen.replace(': ', ', ')}."]
        if len(table) == 1:
            return " ".join([*text, "A ranking by one ability shows more: leave out --model mirt."])
        shares = zip(table["ability"], table["share"], strict=True)
        text.append(
            f"Shares of the variance between subjects: "
            f"{', '.join(f'{name} {share:.0%}' for name, share in shares)}. The first is what most "
            f"items share; each further one contrasts some items with others."
        )
        unknown = table.loc[table["standing"] == PRIOR, "ability"]
        if len(unknown):
            verb, it = ("rests", "it") if len(unknown) == 1 else ("rest", "them")
            text.append(
                f"{', '.join(unknown).capitalize()} {verb} on the prior: do not interpret {it}."
            )
        return " ".join(text)


def explore_responses(
    responses: Responses,
    settings: ExplorationSettings | None = None,
    *,
    source: Path | None = None,
    reading: Mapping[str, Any] | None = None,
    progress: bool = False,
    announce: Callable[[str], None] | None = None,
    checkpoint: Path | None = None,
) -> Exploration:
    """Fit exploratory MIRT and rank the subjects by their expected score.

    `source` to `checkpoint` are as in `bayesirt.ranking.run.rank_responses`. With ``"auto"``, the
    number of abilities is chosen by predicting held-out answers.
    """
    refuse_disconnected(responses)
    settings = settings or ExplorationSettings()
    Mirt(1).suited_to(responses)
    _refuse_too_many(settings.n_abilities, responses)
    plan_engine(settings.engine, responses, model=Mirt(1))
    key, seconds = jax.random.key(settings.seed), dict[str, float]()
    chosen: dict[str, str] = {}
    if settings.n_abilities == "auto":
        with timed(seconds, "number of abilities"):
            settings, chosen = _with_number(settings, responses, key, progress=progress)
    assert settings.n_abilities != "auto"
    model = Mirt(settings.n_abilities)
    with timed(seconds, "point estimate"), fits_shown(progress):
        point = fit_point(responses, model=model)
    data = facts_of(responses, source, reading)
    watch: dict[str, Any] = {"progress": progress, "announce": announce, "checkpoint": checkpoint}
    with timed(seconds, "posterior"):
        posterior = sample_posterior(
            responses,
            key=key,
            model=model,
            engine=settings.engine,
            init=point,
            options=replace(settings.run_options, budget=settings.budget, **watch),
        ).with_attrs(seed=settings.seed, input_sha256=data.sha256)
    diagnostics = diagnostics_of(point, posterior) | chosen
    with timed(seconds, "ranking"):
        tables = _ranking(posterior), _levels(posterior), _abilities(posterior), _items(posterior)
    return Exploration(
        point, posterior, *tables, Record(settings, data, versions(), seconds, diagnostics)
    )


def _refuse_too_many(n_abilities: int | str, responses: Responses) -> None:
    """Refuse more abilities than the numbers of items and subjects allow."""
    most = min(responses.n_items, responses.n_subjects) - 1
    if n_abilities != "auto" and not 1 <= int(n_abilities) <= most:
        raise ResponseError(
            f"{responses.n_subjects} subjects and {responses.n_items} items allow for 1 to {most} "
            f"abilities, not {n_abilities}; pass fewer with --abilities, or --abilities auto"
        )


def _with_number(
    settings: ExplorationSettings, responses: Responses, key: Array, *, progress: bool
) -> tuple[ExplorationSettings, dict[str, str]]:
    """Return settings with the chosen number of abilities, and the reason for it."""
    most = min(responses.n_items, responses.n_subjects) - 1
    choice = choose_dimension(
        responses,
        key=jax.random.fold_in(key, 1),
        candidates=[n for n in CANDIDATES if n <= max(most, 1)],
        progress=progress,
    )
    return replace(settings, n_abilities=choice.n_abilities), {"n_abilities": choice.to_text()}


def expected_scores(posterior: Posterior, of: str = "theta") -> NDArray[np.float64]:
    """Return draws of the expected score on all items, shape (chain, draw, n), at some levels."""
    draws = tuple(posterior.draws(name) for name in (of, "a", "d"))
    return np.asarray(_scores(posterior.link, draws)).reshape(*posterior["theta"].shape[:2], -1)


@partial(jax.jit, static_argnums=0)
def _scores(link: str, draws: tuple[Array, ...]) -> Float[Array, "sample subject"]:
    def of_draw(draw: tuple[Array, ...]) -> Array:
        theta, a, d = draw
        return family_named(link).probability(theta @ a.T + d).mean(1)

    return jax.lax.map(of_draw, draws)


def _ranking(posterior: Posterior) -> pd.DataFrame:
    alike = equal_answers(posterior)
    columns, order = _ranked(expected_scores(posterior), posterior.verdict, alike)
    successes, trials = posterior.successes[order], posterior.trials[order]
    accuracy = successes.sum(1) / trials.sum(1)
    return pd.DataFrame(
        {
            "subject": np.asarray(posterior.subjects, object)[order],
            "accuracy": accuracy,
            "rank_by_accuracy": places(-accuracy),
            **columns,
            "n_items": np.count_nonzero(trials, 1),
            "n_trials": trials.sum(1),
            "flag": response_flags(successes, trials, 1),
        }
    )


def _ranked(
    by_chain: NDArray[np.float64], verdict: Verdict, alike: NDArray[np.intp] | None = None
) -> tuple[dict[str, Any], NDArray[np.intp]]:
    """Return columns of scores, given draws (chain, draw, n), and of ranks, and the order."""
    scores = by_chain.reshape(-1, by_chain.shape[-1])
    order, ranks = best_first(scores, alike)
    alike, scores = None if alike is None else alike[order], scores[:, order]
    chains = chains_of(by_chain[..., order])[: 0 if verdict.sound else None]
    columns = {
        **mean_and_ends("expected_score", scores),
        **rank_columns(scores, ranks, alike),
        **supported_columns(
            chains, partial(columns_of_chain, alike=alike), explored=verdict.explored
        ),
    }
    return columns, order


def _names(posterior: Posterior) -> list[str]:
    return [str(name) for name in posterior.dataset["ability"].values]


def _levels(posterior: Posterior) -> pd.DataFrame:
    theta, names = posterior.draws("theta"), _names(posterior)
    low, high = np.quantile(theta, TAILS, axis=0)
    of_each = {"level": theta.mean(0), "sd": theta.std(0, ddof=1), "low": low, "high": high}
    return pd.DataFrame(
        {
            "subject": np.repeat(np.asarray(posterior.subjects, object), len(names)),
            "ability": np.tile(np.asarray(names, object), len(posterior.subjects)),
            **{name: values.ravel() for name, values in of_each.items()},
        }
    )


def _abilities(posterior: Posterior) -> pd.DataFrame:
    """Summarise each ability; for θ ~ N(0, I), a² is an item's share of the variance."""
    theta, a = posterior.draws("theta"), posterior.draws("a")
    signal = theta.mean(0).var(0)
    reliability = signal / (signal + theta.var(0, ddof=1).mean(0))
    squares = (a**2).sum(1)
    ends = np.quantile(a, TAILS, axis=0)
    return pd.DataFrame(
        {
            "ability": _names(posterior),
            "share": (squares / squares.sum(1, keepdims=True)).mean(0),
            "reliability": reliability,
            "standing": np.where(reliability < LEAST_RELIABILITY, PRIOR, MEASURED),
            "helps": [_steep(posterior, ends[0, :, k]) for k in range(a.shape[2])],
            "hinders": [_steep(posterior, -ends[1, :, k]) for k in range(a.shape[2])],
        }
    )


def _steep(posterior: Posterior, least: NDArray[np.float64]) -> str:
    """Return the items whose slopes are credibly on this side of 0, the most certain first."""
    first = [j for j in np.argsort(-least, kind="stable")[:_MOST_STEEP] if least[j] > 0]
    return "; ".join(posterior.items[j] for j in first)


def _items(posterior: Posterior) -> pd.DataFrame:
    a, successes, trials = posterior.draws("a"), posterior.successes, posterior.trials
    columns: dict[str, Any] = {
        "item": posterior.items,
        "accuracy": successes.sum(0) / trials.sum(0),
        "d": posterior.draws("d").mean(0),
    }
    for k, name in enumerate(_names(posterior)):
        columns |= mean_and_ends(name, a[..., k])
    return pd.DataFrame(columns)


def save_exploration(run: Exploration, folder: Path, report: str) -> None:
    """Write a run's files into an empty folder."""
    tables = {
        "ranking.csv": run.ranking,
        PROFILES: run.levels,
        "abilities.csv": run.abilities,
        "items.csv": run.items,
        CLUSTERS: run.clusters,
    }
    run.point.save(folder / "point.nc")
    run.posterior.save(folder / "posterior.nc")
    write_rest(folder, tables, report, run.record)
