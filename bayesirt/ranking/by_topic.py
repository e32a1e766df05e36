"""Rank subjects by topic: the model is fitted to the answers to each topic's items."""

from collections.abc import Callable
from dataclasses import replace
from zlib import crc32

import jax
import numpy as np
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.data.topics import items_by_topic, topic_names
from bayesirt.errors import ResponseError
from bayesirt.estimators.registry import fit_point
from bayesirt.names import counted, one_line
from bayesirt.posterior import Posterior
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.kept_ranking import ranked
from bayesirt.ranking.record import timed
from bayesirt.ranking.run import drawn
from bayesirt.ranking.settings import Settings
from bayesirt.ranking.topic_rankings import TopicRankings, gains_by_topic

_FEWEST_ITEMS = 5
_LEAST_BUDGET = 60.0
"""Fewest seconds for a topic, unless the whole budget is smaller."""


def with_topics(
    run: Run,
    responses: Responses,
    column: str,
    *,
    announce: Callable[[str], None] | None = None,
) -> Run:
    """Return a run with a ranking by each topic, from the answers to its items alone.

    The run's model is fitted to each topic separately. Answers to other topics do not count, so
    nothing is assumed about correlations between topics: one ability for all answers would draw
    every topic towards the others.
    """
    topics = items_by_topic(responses, column)
    without = int((topic_names(responses.item_metadata[column]) == "").sum())
    notes = []
    if without:
        notes.append(
            f"{counted(without, 'item')} without a topic count only in the overall ranking."
        )
    was = run.record.settings
    budget = max(was.budget / len(topics), min(was.budget, _LEAST_BUDGET))
    settings = replace(was, budget=budget, scale=())
    seconds, posteriors = dict(run.record.seconds), {}
    with timed(seconds, "topics"):
        for k, (topic, items) in enumerate(topics.items(), 1):
            if announce is not None:
                announce(f"topic {k} of {len(topics)}, {one_line(topic, 60)}")
            try:
                own = replace(settings, seed=_seed_of(topic, settings.seed))
                posteriors[topic] = _posterior_of(responses, items, own)
            except ResponseError as error:
                notes.append(f"{one_line(topic, 60)} is not ranked: {error}.")
    if not posteriors:
        raise ResponseError(f"no topic can be ranked by itself; {notes[-1].removesuffix('.')}")
    rankings = {topic: ranked(own, settings)[0] for topic, own in posteriors.items()}
    if unsound := [topic for topic, ranking in rankings.items() if not ranking.sound]:
        listed = ", ".join(one_line(topic, 40) for topic in unsound)
        notes.append(f"Draws are not sound in {listed}: gains and losses are not reported there.")
    sound = {topic: own for topic, own in posteriors.items() if rankings[topic].sound}
    topic_rankings = TopicRankings(
        column,
        rankings,
        {topic: len(topics[topic]) for topic in rankings},
        gains_by_topic(
            {topic: own.theta for topic, own in sound.items()},
            {topic: own.subjects for topic, own in sound.items()},
        ),
        tuple(notes),
    )
    diagnostics = {**run.record.diagnostics, "topics": topic_rankings.to_text()}
    record = replace(run.record, seconds=seconds, diagnostics=diagnostics)
    return replace(run, topics=topic_rankings, record=record)


def _seed_of(topic: str, seed: int) -> int:
    """Return a seed per topic: with a common one, draws of equally large topics would correlate."""
    return (seed + crc32(topic.encode())) % 2**32


def _posterior_of(responses: Responses, items: NDArray[np.intp], settings: Settings) -> Posterior:
    """Draw from the posterior of the answers to one topic's items."""
    if len(items) < _FEWEST_ITEMS:
        raise ResponseError(f"it has {counted(len(items), 'item')}, but {_FEWEST_ITEMS} are needed")
    subject, item, *_ = responses.cells.listed()
    subjects = np.unique(subject[np.isin(item, items)])
    part = responses.select(subjects, items)
    if part.clusters is not None and not part.clusters.tell_apart:
        part = replace(part, clusters=None)
    if len(part.components()) > 1:
        raise ResponseError("its subjects fall into groups without common items")
    settings.response_model.suited_to(part)
    key = jax.random.key(settings.seed)
    point = fit_point(part, settings.point, model=settings.response_model, key=key)
    options = replace(settings.run_options, budget=settings.budget)
    return drawn(part, point, settings, options, {})[0]
