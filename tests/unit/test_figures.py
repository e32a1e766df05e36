"""Figures show every name as it is, and say what the numbers say."""

import numpy as np
import pandas as pd
import pytest

from bayesirt.plots import plot_abilities, plot_items, plot_rank_probabilities
from bayesirt.ranking import Ranking
from bayesirt.report.page import svg
from bayesirt.run import Run

HOSTILE = [r"a$\bad$", "cost $5 vs $6_{", "<script>alert(1)</script>", "&amp;"]


@pytest.fixture
def hostile(small_run: Run) -> Ranking:
    summary = small_run.ranking.summary.copy()
    summary.loc[: len(HOSTILE) - 1, "subject"] = HOSTILE
    old = small_run.ranking
    return Ranking(summary, old.pairwise, old.rank_probabilities, old.average)


def test_abilities_stand_with_their_intervals_best_on_top(small_run: Run):
    (ax,) = plot_abilities(small_run.ranking).axes
    summary = small_run.ranking.summary
    assert [t.get_text() for t in ax.get_yticklabels()] == list(summary["subject"])
    lines = ax.collections[0].get_segments()
    assert np.allclose([line[0, 0] for line in lines], summary["ability_low"])
    assert np.allclose([line[1, 0] for line in lines], summary["ability_high"])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_rank_probabilities_are_the_rankings_own(small_run: Run):
    ax = plot_rank_probabilities(small_run.ranking).axes[0]
    drawn = np.asarray(ax.collections[0].get_array()).reshape(30, 30)
    assert np.allclose(drawn, small_run.ranking.rank_probabilities)
    assert np.allclose(drawn.sum(1), 1)


def test_flagged_items_are_named(small_run: Run):
    items = small_run.items.copy()
    items["flag"] = ["all right", *[""] * (len(items) - 1)]
    (ax,) = plot_items(items).axes
    assert [t.get_text() for t in ax.texts] == [items["item"][0]]


@pytest.mark.parametrize("plot", [plot_abilities, plot_rank_probabilities])
def test_hostile_names_are_text_and_never_markup(plot, hostile: Ranking):
    picture = str(svg(plot(hostile), "A picture"))
    assert "<script" not in picture
    assert r"a$\bad$" in picture
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in picture


def test_a_picture_is_the_same_every_time(small_run: Run):
    first, second = (str(svg(plot_items(small_run.items), "Items")) for _ in range(2))
    assert first == second
    assert first.startswith('<svg role="img" aria-label="Items"')


def test_long_tables_are_cut_for_the_eye(small_run: Run):
    old = small_run.ranking
    many = pd.concat([old.summary] * 4, ignore_index=True)
    many["subject"] = [f"s{k}" for k in range(len(many))]
    figure = plot_abilities(Ranking(many, old.pairwise, old.rank_probabilities, old.average))
    assert len(figure.axes[0].get_yticklabels()) == 60
