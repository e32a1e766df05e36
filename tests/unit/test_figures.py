"""Figures show every name literally, and their texts match the numbers."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.subject_ranking import Ranking
from bayesirt.report.leaderboard import TICK_LOCATOR
from bayesirt.report.page import svg
from bayesirt.report.plots import name_points, plot_abilities, plot_items, plot_rank_probabilities
from bayesirt.report.ranking_plots import (
    _DRAWS,
    _MOST_CURVES,
    plot_comparison,
    plot_information,
    plot_item_curves,
    plot_pairwise,
    plot_price,
    plot_rank_flow,
)

HOSTILE = [r"a$\bad$", "cost $5 vs $6_{", "<script>alert(1)</script>", "&amp;"]


@pytest.fixture
def hostile(small_run: Run) -> Ranking:
    summary = small_run.ranking.summary.copy()
    summary.loc[: len(HOSTILE) - 1, "subject"] = HOSTILE
    summary.loc[: len(HOSTILE) - 1, "rank_by_accuracy"] = 30  # large moves are named
    return replace(small_run.ranking, summary=summary)


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


@pytest.mark.parametrize(
    "plot", [plot_abilities, plot_rank_probabilities, plot_pairwise, plot_rank_flow]
)
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


def test_only_pairs_that_are_not_sure_have_a_number(small_run: Run):
    ax = plot_pairwise(small_run.ranking).axes[0]
    shown = small_run.ranking.pairwise.to_numpy()[:25, :25]
    np.testing.assert_allclose(np.asarray(ax.images[0].get_array()), shown)
    open_pairs = ((shown > 0.05) & (shown < 0.95)).sum() - 25
    assert len(ax.texts) == open_pairs


def test_flows_join_both_ranks_and_name_those_that_moved_far(small_run: Run):
    summary = small_run.ranking.summary.copy()
    summary["rank_by_accuracy"] = np.arange(1, 31)
    summary.loc[[3, 17], "rank_by_accuracy"] = [18, 4]
    (ax,) = plot_rank_flow(replace(small_run.ranking, summary=summary)).axes
    ends = [tuple(line.get_ydata()) for line in ax.lines]
    assert ends == [
        (float(left), float(k)) for k, left in enumerate(summary["rank_by_accuracy"], 1)
    ]
    assert [t.get_text() for t in ax.texts] == [summary["subject"][3], summary["subject"][17]]


def test_flows_to_the_same_rank_share_a_label(small_run: Run):
    summary = small_run.ranking.summary.copy()
    summary["rank"] = np.arange(1, 31)
    summary.loc[[3, 4], "rank"] = 4
    summary["rank_by_accuracy"] = summary["rank"]
    summary.loc[[3, 4], "rank_by_accuracy"] = [14, 16]
    ranking = replace(small_run.ranking, summary=summary, by_score=True)
    (ax,) = plot_rank_flow(ranking).axes
    assert [t.get_text() for t in ax.texts] == [", ".join(summary["subject"][[3, 4]])]


@pytest.mark.parametrize(("low", "high"), [(0.28, 0.96), (0.9, 1.0), (0.0, 1.0), (0.985, 1.0)])
def test_shares_have_no_tick_beyond_all(low: float, high: float):
    ticks = TICK_LOCATOR.tick_values(low, high)
    assert ticks.max() <= 1 + 1e-12
    assert ticks.min() <= low


def test_precision_is_one_over_root_information(small_run: Run):
    posterior = small_run.posterior
    (ax,) = plot_information(posterior).axes
    grid, middle = ax.lines[0].get_data()
    at = 40
    most = max(20, min(_DRAWS, _MOST_CURVES // len(posterior.items)))
    a, d = (posterior.reported.draws(name, most) for name in ("a", "d"))
    p = 1 / (1 + np.exp(-(a * grid[at] + d)))
    errors = 1 / np.sqrt((a**2 * p * (1 - p)).sum(1))
    assert middle[at] == pytest.approx(np.median(errors), rel=1e-4)
    assert len(ax.lines[1].get_xdata()) == 30


def test_item_curves_pass_through_what_was_expected(small_run: Run):
    posterior = small_run.posterior
    names = posterior.items[:4]
    axes = plot_item_curves(posterior, names).axes
    assert [ax.get_title() for ax in axes if ax.axison] == names
    a, d = (posterior.draws(name)[:, 2] for name in ("a", "d"))
    grid, middle = axes[2].lines[0].get_data()
    expected = np.median(1 / (1 + np.exp(-(a * grid[50] + d))))
    assert middle[50] == pytest.approx(expected, abs=0.02)
    shares = axes[2].lines[1].get_ydata()
    right, trials = posterior.successes[:, 2].sum(), posterior.trials[:, 2].sum()
    assert len(shares) == 5
    assert np.mean(shares) == pytest.approx(right / trials, abs=0.02)


def test_every_curve_can_be_read_by_itself(small_run: Run):
    names = small_run.posterior.items[:4]
    axes = plot_item_curves(small_run.posterior, names, notes=["one", "two"]).axes
    assert [ax.get_title() for ax in axes] == [
        f"{names[0]}\none",
        f"{names[1]}\ntwo",
        *names[2:],
    ]
    lowest = [ax.xaxis.get_tick_params()["labelbottom"] for ax in axes]
    assert lowest == [False, False, True, True]
    assert len(plot_item_curves(small_run.posterior, names[:1]).axes) == 1


def test_names_of_points_do_not_lie_on_each_other():
    figure = Figure(figsize=(7.2, 4.6))
    ax = figure.subplots()
    rng = np.random.default_rng(0)
    points = pd.DataFrame(rng.normal(size=(200, 2)), columns=["x", "y"])
    points["name"] = [f"benchmark-{k:04d}" for k in range(200)]
    ax.plot(points["x"], points["y"], "o")
    name_points(ax, points, "x", "y", "name")
    shown = [text.get_text() for text in ax.texts]
    assert 8 <= len(shown) <= 12
    assert shown[0] == "benchmark-0000"
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(p.overlaps(q) for p, q in combinations(boxes, 2))


def test_disagreeing_subjects_are_named(small_run: Run):
    comparison = small_run.comparison
    subjects = comparison.subjects.assign(disagrees=np.arange(30) == 5)
    (ax,) = plot_comparison(replace(comparison, subjects=subjects)).axes
    assert [t.get_text() for t in ax.texts] == [subjects["subject"][5]]


def test_the_line_of_lengths_is_not_beaten(small_run: Run):
    rng = np.random.default_rng(0)
    summary = small_run.ranking.summary.assign(length=rng.integers(10, 1000, 30).astype(float))
    summary.loc[0, "length"] = np.nan
    (ax,) = plot_price(replace(small_run.ranking, summary=summary), "length").axes
    lengths, scores = ax.lines[1].get_data()
    there = summary.dropna(subset="length")
    for length, score in zip(lengths, scores, strict=True):
        assert there[there["length"] <= length]["expected_score"].max() == score
    assert len(ax.lines[0].get_xdata()) == 29
