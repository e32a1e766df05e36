"""Figures of an item bank show its contents, and show every name literally."""

import numpy as np
import pytest
from bank_data import items_step, score_step
from profile_data import HOSTILE

from bayesirt.bank.item_bank import ItemBank
from bayesirt.report.bank_plots import (
    MOST_BENCHMARKS,
    last_scores,
    plot_bank_items,
    plot_score_history,
)
from bayesirt.report.page import svg


def bank_of(*names: str, scored: tuple[str, ...] = ("new",)) -> ItemBank:
    first, *others = names
    steps = [items_step(first), *(items_step(name, "add") for name in others)]
    return ItemBank(2, (*steps, *(score_step(*names, subject=s) for s in scored)))


def test_every_item_is_drawn_by_difficulty_and_discrimination_anchors_apart():
    bank = bank_of("maths", "law")
    figure = plot_bank_items(bank)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["maths", "law"]
    for b, ax in enumerate(figure.axes):
        own = slice(3 * b, 3 * b + 3)
        slope = np.linalg.norm(bank.items.a[own], axis=1)
        others, anchors = (line.get_xydata() for line in ax.lines[:2])
        difficulty = np.clip(-bank.items.d[own] / slope, -6, 6)
        expected = np.column_stack([difficulty, slope])
        assert anchors == pytest.approx(expected[[0, 2]])
        assert others == pytest.approx(expected[[1]])


def test_scores_stand_in_their_order_beside_the_reference_subjects():
    bank = bank_of("maths", "law", scored=("b", "a"))
    figure = plot_score_history(bank)
    assert len(figure.axes) == 2
    known = bank.subjects
    assert known is not None
    for b, ax in enumerate(figure.axes):
        assert [t.get_text() for t in ax.get_xticklabels()] == ["b", "a"]
        segments = np.array(ax.collections[0].get_segments())
        assert segments[:, :, 1] == pytest.approx(np.array([[0.25, 0.75]] * 2))
        assert ax.lines[0].get_ydata()[0] == pytest.approx(np.nanmax(known.accuracy[:, b]))


def test_a_subject_that_was_scored_again_is_drawn_once_with_its_newest_score():
    bank = bank_of("maths", scored=("a", "b", "a"))
    assert last_scores(bank)[["step", "subject"]].to_numpy().tolist() == [
        ["002-score", "b"],
        ["003-score", "a"],
    ]


def test_many_benchmarks_and_subjects_do_not_fill_the_page():
    names = tuple(f"benchmark {k}" for k in range(MOST_BENCHMARKS + 3))
    bank = bank_of(*names, scored=tuple(f"s{k}" for k in range(50)))
    assert len(plot_bank_items(bank).axes) == MOST_BENCHMARKS
    panels = plot_score_history(bank).axes
    assert len(panels) == MOST_BENCHMARKS
    assert len(panels[0].collections[0].get_segments()) == 40


def test_hostile_names_are_text_and_never_markup():
    bank = bank_of(*HOSTILE[:3], scored=HOSTILE[2:])
    for figure in (plot_bank_items(bank), plot_score_history(bank)):
        picture = str(svg(figure, "A picture"))
        assert "<script" not in picture
        assert r"a$\bad$" in picture


def test_a_bank_that_scored_nobody_has_no_history():
    with pytest.raises(ValueError, match="no subject has been scored"):
        plot_score_history(bank_of("maths", scored=()))
