"""Claims are judged within two standard errors, and said in a line each."""

import numpy as np
import pytest

from bayesirt.studies.claims import Claim, at_least, beside, claim_table, in_words


@pytest.mark.parametrize(
    ("here", "error", "paper_error", "rounding", "verdict"),
    [
        (1.0, 0.5, 0.0, 0.0, "agrees"),
        (1.0, 0.3, 0.4, 0.0, "agrees"),
        (1.0, 0.3, 0.3, 0.0, "differs"),
        (1.0, 0.0, 0.0, 1.0, "agrees"),
        (1.0, np.nan, 0.0, 0.0, ""),
        (np.nan, 0.1, 0.1, 0.0, ""),
    ],
)
def test_figures_agree_within_two_standard_errors(here, error, paper_error, rounding, verdict):
    assert beside("x", here, error, 0.0, paper_error, rounding).verdict == verdict


def test_coverage_holds_within_two_standard_errors():
    assert at_least("x", 0.8, 0.05, 0.9).verdict == "holds"
    assert at_least("x", 0.79, 0.05, 0.9).verdict == "does not hold"
    assert at_least("x", 0.9, np.nan, 0.9).verdict == "holds"


def test_claims_are_said_in_a_line_each():
    table = claim_table([beside("RMSE", 0.12345, 0.01, 0.2, 0.0), Claim("Share", np.nan)])
    assert list(table) == ["claim", "here", "error", "paper", "verdict"]
    lines = ["RMSE: 0.1235 ± 0.01 (paper 0.2); differs", "Share: none", "Note: read this."]
    assert in_words(table, ["read this."]) == lines
