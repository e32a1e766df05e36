"""Figures and report of profiles show every name literally, and agree with the numbers."""

import re

import numpy as np
import pytest
from matplotlib.figure import Figure
from profile_data import HOSTILE, fake_profile_run
from sketches import pictures_by, sketch

from bayesirt.profiles.ability_profiles import PRIOR
from bayesirt.report.page import svg
from bayesirt.report.profile_html import render_profile_report
from bayesirt.report.profile_plots import (
    plot_ability,
    plot_correlations,
    plot_heat_map,
    plot_profile,
    plot_profiles,
    plot_reliability,
    subjects_by_level,
)

DRAWN = True
RUN = fake_profile_run(12, 5, subjects=HOSTILE, abilities=HOSTILE[:4])
PROFILES = RUN.profiles
PLOTS = {
    "profile": lambda p: plot_profile(p, subjects_by_level(p)[0]),
    "ability": lambda p: plot_ability(p, p.abilities["ability"][0]),
    "profiles": lambda p: plot_profiles(p, subjects_by_level(p)),
    "heat map": plot_heat_map,
    "correlations": plot_correlations,
    "reliability": plot_reliability,
}


@pytest.mark.parametrize("name", list(PLOTS))
def test_hostile_names_are_text_and_never_markup(name):
    picture = str(svg(PLOTS[name](PROFILES), "A picture"))
    assert "<script" not in picture
    assert r"a$\bad$" in picture


def test_a_profile_has_its_levels_and_intervals_highest_on_top():
    (ax,) = plot_profile(PROFILES, "subject 6").axes
    rows = PROFILES.summary[PROFILES.summary["subject"] == "subject 6"]
    rows = rows.sort_values("level", ascending=False)
    ends = np.concatenate([c.get_segments() for c in ax.collections if len(c.get_segments())])
    by_row = ends[np.argsort(ends[:, 0, 1])]
    np.testing.assert_allclose(by_row[:, 0, 0], rows["low"])
    np.testing.assert_allclose(by_row[:, 1, 0], rows["high"])
    assert [t.get_text() for t in ax.get_yticklabels()] == list(rows["ability"])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_what_rests_on_the_prior_is_grey():
    on_prior = set(PROFILES.abilities.loc[PROFILES.abilities["standing"] == PRIOR, "ability"])
    assert on_prior
    labels = plot_reliability(PROFILES).axes[0].get_yticklabels()
    grey = {t.get_text() for t in labels if t.get_color() == "#6b6b6b"}
    assert grey == on_prior


def test_unsure_cells_are_small():
    """A cell's area is 1 - sd² times that of a full cell."""
    cells = plot_heat_map(PROFILES).axes[0].collections[0].get_paths()
    sides = np.array([np.ptp(cell.vertices[:, 0]) for cell in cells])
    order = PROFILES.abilities.sort_values("reliability", ascending=False)["ability"]
    sd = PROFILES.levels("sd").loc[subjects_by_level(PROFILES), list(order)].to_numpy().ravel()
    np.testing.assert_allclose(sides**2, 0.92**2 * np.clip(1 - sd**2, 0.02, 1))


def test_correlations_are_the_profiles_own():
    image = plot_correlations(PROFILES).axes[0].collections[0]
    drawn = np.asarray(image.get_array()).reshape(5, 5)
    np.testing.assert_allclose(drawn, drawn.T)
    above = np.sort(drawn[np.triu_indices(5, 1)])
    np.testing.assert_allclose(above, np.sort(PROFILES.pairs["correlation"]))


def test_names_that_are_not_there_are_refused():
    with pytest.raises(KeyError):
        plot_profile(PROFILES, "nobody")
    with pytest.raises(KeyError):
        plot_ability(PROFILES, "poetry")
    with pytest.raises(ValueError, match="one ability has no correlations"):
        plot_correlations(fake_profile_run(3, 1, 9).profiles)


@pytest.mark.parametrize(
    "shape",
    [(3, 1, 9), (2, 2, 6), pytest.param((30, 60, 200), marks=pytest.mark.slow)],
    ids=lambda shape: "x".join(map(str, shape)),
)
def test_every_shape_has_pictures_and_a_report(shape):
    run = fake_profile_run(*shape)
    drawn = [plot(run.profiles) for name, plot in PLOTS.items() if shape[1] > 1 or name[0] != "c"]
    assert all(isinstance(figure, Figure) for figure in drawn)
    assert render_profile_report(run).count("<svg") == (4 if shape[1] > 1 else 2)


def test_independent_abilities_have_no_picture_of_how_they_go_together():
    run = fake_profile_run(5, 3, 9, structure="independent")
    assert isinstance(plot_correlations(run.profiles), Figure)
    page = render_profile_report(run)
    assert "assumes that abilities are independent" in page
    assert "Correlations of abilities" not in page


def test_a_wide_picture_takes_more_of_the_page():
    page = render_profile_report(fake_profile_run(2, 40, 40))
    widths = re.findall(r'<svg style="max-width: ([\d.]+)rem"', page)
    assert len(widths) == 2
    assert all(float(width) > 60 for width in widths)


@pytest.mark.slow
def test_large_reports_stay_small_and_say_where_the_rest_is():
    page = render_profile_report(fake_profile_run(1000, 20, 60))
    assert len(page) < 10_000_000
    assert "Levels of 750 of 1000 subjects as numbers" in page
    assert "All are in profiles.csv." in page


def test_predictions_stand_in_the_report_where_there_are_any():
    with pictures_by(sketch):
        assert "Items that nobody has answered" not in render_profile_report(RUN)
        page = render_profile_report(fake_profile_run(12, 5, n_new=3))
    assert "3 items without responses: " in page
