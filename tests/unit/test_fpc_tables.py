"""Tables of the FPC study, compared with counts by hand."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from bayesirt.studies.fpc import paired_table, trend_table, varied_table

CHAIN, STEP = np.indices((4, 6))


def made_rows(mae: np.ndarray | float, **columns: object) -> Iterator[dict[str, object]]:
    mae = np.broadcast_to(mae, (4, 6))
    for chain in range(4):
        for step in range(1, 6):
            names = {"benchmark": f"b{(step + chain) % 5}", "rule": "clusters", "n_reference": 0}
            place = {"anchors": 10, "chain": chain, "step": step, "split": "random"}
            yield {**place, **names, "method": "fixed", "mae": mae[chain, step], **columns}


def test_trends_are_taken_within_benchmarks():
    rows = pd.DataFrame(made_rows(5.0 + 3 * ((STEP + CHAIN) % 5) + 0.5 * STEP))
    found = trend_table(rows).iloc[0]
    assert found["within"]
    assert found["slope"] == pytest.approx(0.5)
    assert found["slope_se"] == pytest.approx(0, abs=1e-6)
    assert found["steps"] == 4
    noise = np.random.default_rng(0).normal(size=(4, 6))
    plain = pd.DataFrame(made_rows(2.0 * STEP + noise))
    own = plain.assign(benchmark=[f"b{k}" for k in range(20)])
    found = trend_table(own).iloc[0]
    line, covariance = np.polyfit(own["step"], own["mae"], 1, cov=True)
    assert not found["within"]
    assert found["slope"] == pytest.approx(line[0])
    assert found["slope_se"] == pytest.approx(np.sqrt(covariance[0, 0]))


def test_baselines_are_compared_on_the_same_predictions():
    fixed = pd.DataFrame(made_rows(2.0 + CHAIN))
    other = pd.DataFrame(made_rows(3.0 + CHAIN % 2, method="random"))
    some = pd.DataFrame(made_rows(2.0, method="concurrent"))
    rows = pd.concat([fixed, other, some[some["chain"] == 0]], ignore_index=True)
    found = paired_table(rows).set_index("method")
    gaps = np.array([-1, -1, 1, 1])
    assert found.loc["random", "difference"] == gaps.mean()
    assert found.loc["random", "difference_se"] == pytest.approx(gaps.std(ddof=1) / 2)
    assert found.loc["random", "lower"] == 0.5
    assert found.loc["concurrent", "predictions"] == 5
    assert found.loc["concurrent", "difference"] == 0


def test_what_is_varied_is_compared_on_the_same_chains():
    extra = dict.fromkeys(("bias", "spearman", "coverage", "width"), 0.5) | {"n_calibrating": 75}
    usual = pd.DataFrame(made_rows(1.0 + CHAIN, **extra))
    more = pd.DataFrame(made_rows(9.0, **extra | {"anchors": 20}))
    varied = pd.DataFrame(made_rows(5.0, **extra | {"rule": "random"}))
    abler = pd.DataFrame(made_rows(7.0, **extra | {"split": "abler"}))
    rows = pd.concat([usual, more, varied[varied["chain"] < 2], abler], ignore_index=True)
    found = varied_table(rows, "rule").set_index("rule")
    assert found["mae"].to_dict() == {"clusters": 1.5, "random": 5.0}
    assert found["chains"].tolist() == [2, 2]
    assert varied_table(rows, "split").set_index("split").loc["random", "mae"] == 2.5
    assert varied_table(rows, "n_reference").empty
