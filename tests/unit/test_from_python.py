"""From a table in memory to a ranking, its figures, its files and its citation."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from quick_engine import draw_near

import bayesirt
from bayesirt.data.readers.recognise import LeftOutWarning
from bayesirt.errors import ResponseError
from bayesirt.models.named import MODELS
from bayesirt.ranking.finished_run import Run
from bayesirt.report import methods
from bayesirt.report.citation import cited_in
from bayesirt.report.pictures import pictures_of, write_picture

RNG = np.random.default_rng(0)
LONG = pd.DataFrame(
    {
        "model": np.repeat([*"abcdef"], 5),
        "item": np.tile([f"q{k}" for k in range(5)], 6),
        "score": RNG.integers(0, 2, 30),
    }
)
WIDE = LONG.pivot(index="model", columns="item", values="score")


class Stream:
    """A table of another library, with the Arrow stream interface only."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table(LONG).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "table",
    [LONG, pa.table(LONG), Stream(), LONG.to_dict("records"), LONG.to_dict("list"), WIDE,
     LONG.set_index(["model", "item"])],
    ids=["pandas", "pyarrow", "stream", "records", "columns", "wide", "indexed"],
)  # fmt: skip
def test_tables_in_memory_are_read(table: Any):
    responses = bayesirt.read_responses(table)
    expected = bayesirt.Responses.from_long(LONG, subject="model")
    found, expected = (x.cells.matrices()[0] for x in (responses, expected))
    np.testing.assert_array_equal(found, expected)
    assert responses.subjects == tuple("abcdef")


def test_options_are_those_of_files():
    renamed = LONG.rename(columns={"model": "who", "score": "grade"})
    renamed["grade"] = RNG.normal(size=30)
    told = {"subject": "who", "item": "item", "score": "grade", "kind": "unbounded"}
    assert bayesirt.read_responses(renamed, **told).scale.kind == "unbounded"


def test_an_index_without_a_name_is_told_to_be_models():
    with pytest.warns(LeftOutWarning, match="first column of the table has no name"):
        responses = bayesirt.read_responses(WIDE.rename_axis(None))
    assert responses.subjects == tuple("abcdef")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (3, "results must be a path, a table .* or rows, not int"),
        (LONG.iloc[:0], "the table has no rows"),
        (pd.concat([LONG, LONG["score"]], axis=1), "a single, unique name"),
        (LONG.drop(columns="score"), "the table has no column for the score"),
    ],
)
def test_what_is_no_table_is_refused(table: Any, said: str):
    with pytest.raises(ResponseError, match=said):
        bayesirt.read_responses(table)


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayesirt.ranking.run.sample_posterior", draw_near)


@pytest.mark.usefixtures("near")
def test_one_call_ranks_and_its_folder_opens_again(tmp_path: Path):
    run = bayesirt.rank(LONG, bayesirt.Settings(seed=3), check_fit=False)
    assert run.record.settings.seed == 3
    bayesirt.save_run(run, tmp_path / "run")
    again = bayesirt.open_run(str(tmp_path / "run"))
    pd.testing.assert_frame_equal(again.ranking.summary, run.ranking.summary)
    with pytest.raises(ResponseError, match="already holds a run"):
        bayesirt.save_run(run, tmp_path / "run")
    bayesirt.save_run(run, tmp_path / "run", overwrite=True)
    with pytest.raises(TypeError, match="read already; leave out kind"):
        bayesirt.rank(bayesirt.read_responses(LONG), kind="graded")


def test_whole_numbers_stand_for_keys():
    drawn = [bayesirt.simulate_responses(4, 3, key=key) for key in (7, jax.random.key(7))]
    one, other = (x.responses.cells.matrices()[0] for x in drawn)
    np.testing.assert_array_equal(one, other)


def test_notebooks_show_tables_with_names_escaped(small_run: Run):
    summary = small_run.ranking.summary.copy()
    summary.loc[0, "subject"] = "<script>"
    ranking = replace(small_run.ranking, summary=summary)
    for result in (replace(small_run, ranking=ranking), ranking):
        shown = result._repr_html_()
        assert "<script>" not in shown
        assert "&lt;script&gt;" in shown
    for result in (small_run.posterior, small_run.point):
        assert "<table" in result._repr_html_()


def test_every_picture_has_a_file(small_run: Run, tmp_path: Path):
    names = pictures_of(small_run)
    assert {"abilities", "flow", "items", "estimates"} <= {*names}
    for kind in ("svg", "pdf", "png"):
        write_picture(bayesirt.plot_run(small_run, "flow"), tmp_path / f"flow.{kind}")
        assert (tmp_path / f"flow.{kind}").stat().st_size > 1000
    with pytest.raises(ResponseError, match=r"must end in one of \.svg, \.pdf, \.png; rename it"):
        write_picture(bayesirt.plot_run(small_run), tmp_path / "flow.gif")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("abilitys", "did you mean abilities"),
        ("xyz", "take one of abilities, "),
        ("clusters", "nothing to show in clusters; take one of abilities"),
    ],
)
def test_other_pictures_are_refused(small_run: Run, name: str, said: str):
    with pytest.raises(ResponseError, match=said):
        bayesirt.plot_run(small_run, name)


def test_a_paragraph_cites_what_it_names(small_run: Run):
    found = bayesirt.cite(small_run)
    assert found.text.startswith(f"{len(small_run.ranking.summary)} subjects were ranked on ")
    keys = re.findall(r"@\w+\{(\w+),", found.bibtex)
    assert keys[0] == "bayesirt"
    assert {"mogstad2024", "birnbaum1968"} <= {*keys}
    assert "samejima1969" not in keys
    assert found.bibtex.count("{") == found.bibtex.count("}")


def test_every_source_that_methods_name_has_an_entry():
    texts = [methods._FIT, *methods._POINTS.values(), *methods._ENGINES.values()]
    texts += [model.meaning for model in MODELS.values()]
    named = {
        (names, year)
        for text in texts
        for names, year in re.findall(r"((?:van der )?[A-Z][\w ,-]*?), (\d{4})", text)
    }
    assert len(named) > 15
    for names, year in named:
        assert cited_in(f"({names}, {year})"), (names, year)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"draws": 0}, "`draws` must be at least 10, got 0"),
        ({"chains": 0}, "`chains` must be at least 1, got 0"),
        ({"budget": float("nan")}, "`budget` must be at least 0, got nan"),
        ({"target_accept": 1.0}, "`target_accept` must lie between 0 and 1, got 1.0"),
        ({"engine": "hmc"}, "`engine` must be one of auto, nuts, blocked, laplace, got 'hmc'"),
        ({"point": "best"}, "`point` must be one of auto, "),
    ],
)
def test_settings_that_no_run_can_have_are_refused(settings: dict[str, Any], said: str):
    with pytest.raises(ResponseError, match=re.escape(said)):
        bayesirt.Settings(**settings)
