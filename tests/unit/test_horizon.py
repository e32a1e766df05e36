"""Time horizons: a planted line is recovered, and unsuitable data are refused."""

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from cli.conftest import run_command
from made_posterior import posterior_of
from numpy.polynomial.hermite_e import hermegauss

from bayesirt import Posterior
from bayesirt.errors import ResponseError
from bayesirt.ranking.horizon import Horizons, horizons, in_time
from bayesirt.report.horizon_plot import plot_horizons

THETA = np.linspace(-1.5, 1.5, 9)
SLOPE, LEVEL, SPREAD = -0.7, 2.5, 0.8
MINUTES = np.exp(np.linspace(np.log(0.5), np.log(900), 200))


def some_draws(spread: float = SPREAD) -> Posterior:
    """Return draws of tasks with slope 1, whose intercepts scatter around a line on log minutes."""
    rng, shape = np.random.default_rng(0), (2, 100)
    d = LEVEL + SLOPE * np.log(MINUTES) + spread * np.random.default_rng(4).normal(size=200)
    theta = THETA + 0.05 * rng.normal(size=(*shape, 9))
    answers = np.indices((9, 200)).sum(0) % 2
    return posterior_of(answers, theta=theta, d=d + 0.05 * rng.normal(size=(*shape, 200)))


def minutes_of(posterior: Posterior) -> pd.Series:
    return pd.Series(MINUTES, posterior.items)


@pytest.fixture(scope="module")
def found() -> Horizons:
    posterior = some_draws()
    return horizons(posterior, minutes_of(posterior))


def test_a_planted_line_gives_its_horizons(found):
    table = found.summary.set_index("subject").loc[[f"subject {k + 1}" for k in range(9)]]
    for name, chance in (("horizon_50", 0.5), ("horizon_80", 0.8)):
        truth = (THETA + LEVEL - np.log(chance / (1 - chance))) / -SLOPE
        assert np.log(table[name].to_numpy()) == pytest.approx(truth, abs=0.35)
        assert (np.log(table[f"{name}_low"]) < truth).mean() > 0.8
        assert (np.log(table[f"{name}_high"]) > truth).mean() > 0.8
    assert found.summary["horizon_50"].is_monotonic_decreasing
    nodes, weights = hermegauss(40)
    weights = weights / weights.sum()
    for subject, row in enumerate(table.itertuples()):
        eta = THETA[subject] + LEVEL + SLOPE * np.log(row.marginal_80) + SPREAD * nodes
        assert weights @ (1 / (1 + np.exp(-eta))) == pytest.approx(0.8, abs=0.06)
    assert (table["marginal_80"] < table["horizon_80"]).all()
    of_x = SLOPE**2 * np.log(MINUTES).var()
    assert found.explained == pytest.approx(of_x / (of_x + SPREAD**2), abs=0.05)
    assert table["beyond"].to_list() == [
        not MINUTES.min() <= x <= MINUTES.max() for x in table["horizon_50"]
    ]


def test_uncertain_difficulties_are_explained_as_well_as_certain_ones(found):
    """Draws of d̂ + noise, shrunk by the reliability: true variance, but a flatter line."""
    rng, reliability, shares = np.random.default_rng(8), 0.7, []
    line = LEVEL + SLOPE * np.log(MINUTES)
    true = line + SPREAD * np.random.default_rng(4).normal(size=200)
    theta = THETA + 0.05 * rng.normal(size=(2, 100, 9))
    for _ in range(4):
        error = true.std() * np.sqrt(1 / reliability - 1) * rng.normal(size=200)
        mean = true.mean() + reliability * (true + error - true.mean())
        d = mean + true.std() * np.sqrt(1 - reliability) * rng.normal(size=(2, 100, 200))
        uncertain = posterior_of(np.indices((9, 200)).sum(0) % 2, theta=theta, d=d)
        shares.append(horizons(uncertain, minutes_of(uncertain)).explained)
    assert np.mean(shares) == pytest.approx(found.explained, abs=0.1)


def test_a_model_that_knows_the_minutes_needs_no_correction():
    rng, spread = np.random.default_rng(8), {}
    d = LEVEL + SLOPE * np.log(MINUTES) + SPREAD * rng.normal(size=(2, 100, 200))
    theta, answers = np.tile(THETA, (2, 100, 1)), np.indices((9, 200)).sum(0) % 2
    for known, sites in ((False, {}), (True, {"beta": np.full((2, 100, 1), -SLOPE)})):
        posterior = posterior_of(answers, theta=theta, d=d, **sites)
        table = horizons(posterior, minutes_of(posterior)).summary
        spread[known] = np.log(table["horizon_50"]).std()
    assert spread[True] == pytest.approx(THETA.std(ddof=1) / -SLOPE, rel=0.02)
    assert spread[False] < 0.9 * spread[True]


def test_tasks_that_are_all_typical_have_one_horizon():
    posterior = some_draws(spread=0.0)
    table = horizons(posterior, minutes_of(posterior)).summary
    assert (table["marginal_80"] / table["horizon_80"]).to_numpy() == pytest.approx(1, abs=0.03)


def test_horizons_that_double_with_time_say_how_fast():
    posterior = some_draws()
    years = THETA / -SLOPE / np.log(2) / 2  # two doublings a year
    days = pd.to_timedelta(np.round(365.25 * years), unit="D")
    dates = pd.Series(pd.Timestamp("2024-06-01") + days, posterior.subjects).astype(str)
    found = horizons(posterior, minutes_of(posterior), dates=dates)
    assert found.doubling == pytest.approx(365.25 / 2, rel=0.15)
    assert found.doubling_low < found.doubling < found.doubling_high
    assert "doubles every" in replace(found, sound=True).to_text()
    assert "date" in found.summary
    assert plot_horizons(found).axes[0].get_yscale() == "log"


def test_minutes_with_errors_lead_to_the_same_line():
    posterior, rng = some_draws(), np.random.default_rng(6)
    exact = horizons(posterior, minutes_of(posterior))
    measured = minutes_of(posterior) * np.exp(1.2 * rng.normal(size=200))
    naive, allowed = (horizons(posterior, measured, error=error) for error in (0.0, 1.2))

    def spread(found: Horizons, name: str) -> float:
        return float(np.ptp(np.log(found.summary[name])))

    for name in ("horizon_50", "marginal_80"):
        assert spread(naive, name) > 1.2 * spread(exact, name)  # a flatter line spreads horizons
        assert spread(allowed, name) == pytest.approx(spread(exact, name), rel=0.15)
    assert naive.explained < exact.explained - 0.1
    assert allowed.explained == pytest.approx(exact.explained, abs=0.07)
    with pytest.raises(ResponseError, match="leaves too little signal"):
        horizons(posterior, measured, error=3.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: x.head(9), "9 of 200 items have minutes"),
        (lambda x: x.mask(x.index == "item 3", -1), "must be above zero, got '-1.0' of 'item 3'"),
        (lambda x: x.astype(object).mask(x.index == "item 3", "long"), "got 'long'"),
        (lambda x: pd.concat([x, x.head(1)]), "'item 1' has minutes twice"),
        (lambda x: 0 * x + 5, "the same minutes"),
        (lambda x: x[::-1].set_axis(x.index), "longer tasks are not clearly harder"),
    ],
)
def test_minutes_that_give_no_horizon_are_refused(change, said):
    posterior = some_draws()
    with pytest.raises(ResponseError, match=r"^[^\n]*$") as error:
        horizons(posterior, change(minutes_of(posterior)))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("dates", "said"),
    [
        (["2024-01-01", "soon"], "'soon' is not a date"),
        (["2024-01-01"] * 2, "2 subjects have dates"),
    ],
)
def test_dates_that_tell_nothing_are_refused(dates, said):
    posterior = some_draws()
    told = pd.Series(dates, posterior.subjects[:2])
    with pytest.raises(ResponseError, match=said):
        horizons(posterior, minutes_of(posterior), dates=told)


@pytest.mark.parametrize(
    ("minutes", "said"),
    [(0.5, "30 s"), (42, "42 min"), (300, "5.0 h"), (12_000, "8.3 days")],
)
def test_times_are_told_in_the_unit_of_people(minutes, said):
    assert in_time(minutes) == said


def test_the_command_writes_a_table_and_a_picture(tmp_path: Path, small_run, capsys):
    items, out, picture = tmp_path / "m.csv", tmp_path / "h.csv", tmp_path / "h.svg"
    easiest = small_run.items.sort_values("b")["item"]
    pd.DataFrame({"item": easiest, "human_minutes": np.geomspace(1, 500, len(easiest))}).to_csv(
        items, index=False
    )
    words = ("horizon", "run", "--minutes", items, "--out", out, "--picture", picture, "--json")
    loaded = patch("bayesirt.ranking.run_folder.load_run", lambda _: small_run)
    with loaded:
        assert run_command(*words) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["horizons"]) == 30
    assert pd.read_csv(out)["subject"].to_list() == [x["subject"] for x in told["horizons"]]
    assert picture.read_text().startswith("<?xml")
    items.write_text("item,a,b\nx,1,2\n")
    with loaded:
        assert run_command(*words) == 2
    assert "one of minutes" in capsys.readouterr().err
