"""Claims are figures from tables, judged within two standard errors, with one line each."""

import numpy as np
import pandas as pd
import pytest

from bayesirt.studies import claims
from bayesirt.studies.claims import Claim, agreement, claim_table, claims_from, holding, in_words

LINES = """table;where;title;claim;here;error;paper;verdict
runs;;{method_name}, {n} runs;RMSE;rmse;;;
;method == 'a';;gain;gain;;;sign
;;;coverage;coverage;0.05;0.9;holds, by {n}
;method == 'b';Of b;twice;2 * gain;;;small if gain < 1 | large
other;;Width;;width;0.1;printed;agrees(printed_error)
;;Interval;;width;;;bounds
;;Least;;width;;;up_to(most)
;;Gain;;width;;;gain
empty;;Nothing;;x;;;
"""


@pytest.mark.parametrize(
    ("here", "error", "paper_error", "verdict"),
    [
        (1.0, 0.5, 0.0, "agrees"),
        (1.0, 0.3, 0.4, "agrees"),
        (1.0, 0.3, 0.3, "differs"),
        (5e-4, 0.0, 0.0, "agrees"),  # Printed figures are rounded.
        (1.0, np.nan, 0.0, ""),
        (np.nan, 0.1, 0.1, ""),
    ],
)
def test_figures_agree_within_two_standard_errors(here, error, paper_error, verdict):
    assert agreement(Claim("x", here, error, 0.0), paper_error) == verdict


def test_coverage_holds_within_two_standard_errors():
    assert holding(Claim("x", 0.8, 0.05)) == "holds"
    assert holding(Claim("x", 0.79, 0.05)) == "does not hold"
    assert holding(Claim("x", 0.9)) == "holds"


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path) -> pd.DataFrame:
    """Return the claims of two small tables."""
    (tmp_path / "lines.csv").write_text(LINES)
    read = pd.read_csv(tmp_path / "lines.csv", sep=";")
    monkeypatch.setattr(claims, "read_printed", lambda *_: read)
    runs = pd.DataFrame({
        "method": ["a", "b"], "n": [3, 4], "rmse": [0.1, 0.2], "rmse_se": [0.01, np.nan],
        "gain": [1.0, 2.0], "gain_se": [0.4, 1.0], "coverage": [0.85, 0.7],
    })  # fmt: skip
    other = pd.DataFrame([{"width": 1.0, "low": -1.0, "high": 2.5, "most": 4, "printed": 1.2,
                           "printed_error": 0.1}])  # fmt: skip
    tables = {"runs": runs, "other": other, "empty": pd.DataFrame()}
    found = claims_from("x", tables, {"method": {"a": "Model A", "b": "Model B"}})
    return claim_table(found).set_index("claim")


def test_every_line_is_said_of_the_rows_that_it_is_for_in_their_order(said: pd.DataFrame):
    assert said.index.tolist() == [
        "Model A, 3 runs, RMSE", "Model A, 3 runs, gain", "Model A, 3 runs, coverage",
        "Model B, 4 runs, RMSE", "Of b, twice", "Width", "Interval", "Least", "Gain",
    ]  # fmt: skip
    assert said.loc["Model A, 3 runs, RMSE", ["here", "error"]].tolist() == [0.1, 0.01]
    assert said.loc["Model A, 3 runs, coverage", ["error", "paper"]].tolist() == [0.05, 0.9]
    assert said.loc["Of b, twice", "here"] == 4
    assert np.isnan(said.loc["Of b, twice", "error"])


def test_rules_judge_and_texts_are_chosen(said: pd.DataFrame):
    assert said["verdict"].tolist() == [
        "", "above 0", "holds, by 3", "", "large", "agrees", "-1 to 2.5", "up to 4",
        "-1 to 2.5: not told from 0",
    ]  # fmt: skip


def test_claims_are_said_in_a_line_each():
    table = claim_table([Claim("RMSE", 0.12345, 0.01, 0.2, "differs"), Claim("Share", np.nan)])
    assert list(table) == ["claim", "here", "error", "paper", "verdict"]
    lines = ["RMSE: 0.1235 ± 0.01 (paper 0.2); differs", "Share: none", "Note: read this."]
    assert in_words(table, ["read this."]) == lines
