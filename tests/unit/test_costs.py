"""Costs of subjects: how they are read, what is kept, and where they are shown."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_data import write_table as write

from bayesirt import Responses, read_responses
from bayesirt.data.costs import costs_of_rows
from bayesirt.errors import ResponseError
from bayesirt.posterior import Posterior
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.new_responses import changes_since
from bayesirt.ranking.run_update import with_other_changes
from bayesirt.ranking.subject_ranking import rank_subjects
from bayesirt.report.export import ranking_as_json, ranking_as_latex, ranking_as_markdown
from bayesirt.report.html import render_report
from bayesirt.report.ranking_plots import plot_price

ROWS = pd.DataFrame(
    [(f"s{k}", f"q{j}", (k + j) % 2, 0.5 * k + 0.1 * j) for k in range(4) for j in range(3)],
    columns=["subject", "item", "score", "cost_usd"],
)
MEANS = [0.1, 0.6, 1.1, 1.6]


@pytest.mark.parametrize("name", ["r.csv", "r.parquet"])
def test_a_column_is_found_by_its_name_and_its_mean_is_kept(name: str, tmp_path: Path):
    assert read_responses(write(tmp_path / name, ROWS)).costs == pytest.approx(MEANS)
    named = write(tmp_path / name, ROWS.rename(columns={"cost_usd": "paid"}))
    assert read_responses(named).costs is None
    assert read_responses(named, cost="paid").costs == pytest.approx(MEANS)


def test_a_file_tells_costs_of_any_results(tmp_path: Path):
    table = ROWS.pivot(index="subject", columns="item", values="score").reset_index()
    wide = write(tmp_path / "w.csv", table)
    prices = write(
        tmp_path / "c.csv", pd.DataFrame({"subject": ["s2", "s0", "new"], "cost": [3, 0, 1]})
    )
    for path in (wide, write(tmp_path / "r.csv", ROWS)):
        costs = read_responses(path, cost=str(prices)).costs
        np.testing.assert_array_equal(costs, [0, np.nan, 3, np.nan])


def test_costs_stay_with_their_subjects(tmp_path: Path):
    responses = read_responses(write(tmp_path / "r.csv", ROWS))
    chosen = responses.select(np.array([3, 1]), np.arange(3))
    assert chosen.costs == pytest.approx([1.6, 0.6])
    assert list(chosen.to_long()["cost"].round(9)) == [1.6] * 3 + [0.6] * 3
    assert responses.summary.loc["subjects whose cost is known", "value"] == 4


def test_the_mean_of_equal_costs_is_that_cost_to_the_last_bit():
    values, subject = pd.Series([0.1] * 3 + [0.7] * 49), np.repeat([0, 1], [3, 49])
    assert list(costs_of_rows(values, subject, ["x", "y"])) == [0.1, 0.7]


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (-0.1, "must not be negative, got -0.1 at subject 's0'"),
        ("much", "rename the column if it is not a cost of an answer"),
    ],
)
def test_what_is_no_cost_is_refused(cost: object, said: str):
    rows = ROWS.astype({"cost_usd": object})
    rows.loc[1, "cost_usd"] = cost
    with pytest.raises(ResponseError, match=said):
        Responses.from_long(rows, cost="cost_usd")


def test_a_file_without_costs_of_these_subjects_is_refused(tmp_path: Path):
    results = write(tmp_path / "r.csv", ROWS)
    other = write(tmp_path / "c.csv", pd.DataFrame({"subject": ["x"], "cost": [1]}))
    with pytest.raises(ResponseError, match=r"^c\.csv names no subject of the results"):
        read_responses(results, cost=str(other))
    write(other, pd.DataFrame({"subject": ["s0"], "price": [1]}))
    with pytest.raises(ResponseError, match="must have the columns `subject` and `cost`"):
        read_responses(results, cost=str(other))
    wide = write(tmp_path / "w.csv", pd.DataFrame({"model": ["a", "b"], "q1": [0, 1], "q2": 1}))
    with pytest.raises(ResponseError, match="--cost 'usd' is not a file"):
        read_responses(wide, cost="usd")


def test_costs_for_other_subjects_are_refused():
    responses = Responses.from_long(ROWS, cost="cost_usd")
    with pytest.raises(ResponseError, match="there are 4 subjects, but costs have shape"):
        replace(responses, costs=np.zeros(3))
    with pytest.raises(ResponseError, match="a cost must be a finite, non-negative number"):
        replace(responses, costs=np.array([0, 1, np.inf, 2]))


@pytest.fixture(scope="module")
def run(small: Responses, small_run: Run) -> Run:
    """Return the small run with costs, one of them unknown and one 0."""
    costs = np.random.default_rng(0).lognormal(size=30)
    costs[[4, 7]] = np.nan, 0
    drawn = small_run.posterior
    samples = {str(name): drawn[str(name)] for name in drawn.dataset.data_vars}
    statistics = {str(k): v.to_numpy() for k, v in drawn.tree["sample_stats"].items()}
    posterior = Posterior.from_samples(
        samples, statistics, replace(small, costs=costs), dict(drawn.tree.attrs)
    )
    return replace(small_run, posterior=posterior, ranking=rank_subjects(posterior))


def test_costs_stand_beside_scores(run: Run):
    table = run.ranking.summary.set_index("subject")["cost"]
    costs = run.posterior.mean_costs
    np.testing.assert_array_equal(table[run.posterior.subjects], costs)
    page = render_report(run)
    assert '<h2 id="cost">Score against cost</h2>' in page
    assert '<a href="#cost">Cost</a>' in page
    assert ">nan<" not in page
    known = [row["cost"] for row in ranking_as_json(run)["ranking"]]
    assert known.count(None) == 1
    assert "| Cost |" in ranking_as_markdown(run)
    assert "& Cost \\\\" in ranking_as_latex(run)
    (ax,) = plot_price(run.ranking, "cost").axes
    assert len(ax.lines[0].get_xdata()) == 28


def test_other_costs_are_something_new(run: Run, small: Responses):
    def stands(costs: np.ndarray | None) -> bool:
        responses = replace(small, costs=costs)
        changes = changes_since(run.posterior, responses)
        return not with_other_changes(changes, run, responses, run.record.settings, "")

    costs = run.posterior.mean_costs
    assert costs is not None
    assert stands(costs)
    assert not stands(costs + 1)
    assert not stands(None)
