"""Q-matrices: reading, refusals and descriptions."""

import gzip
import json

import jax
import numpy as np
import pandas as pd
import pytest

from bayesirt import ResponseError, Responses
from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.readers import read_q_matrix
from bayesirt.profiles.simulation import simulate_q_mirt

NEEDS = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1]])
ITEMS, ABILITIES = ("q1", "q2", "q3", "q4"), ("algebra", "logic", "geometry")
Q = QMatrix.from_arrays(NEEDS, ITEMS, ABILITIES)
WIDE = pd.DataFrame(NEEDS, columns=ABILITIES).assign(item=ITEMS)
LONG = pd.DataFrame(
    [(ITEMS[j], ABILITIES[k]) for j, k in zip(*np.nonzero(NEEDS), strict=True)],
    columns=["question", "skill"],
)
LISTS = {item: LONG["skill"][LONG["question"] == item].tolist() for item in ITEMS}


def assert_is_q(found: QMatrix) -> None:
    assert found.items == ITEMS
    assert found.abilities == ABILITIES
    np.testing.assert_array_equal(found.needs, NEEDS == 1)


def test_loadings_are_in_row_major_order():
    item, ability = Q.loadings
    assert list(zip(item, ability, strict=True)) == [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 2)]
    assert Q.loading_names[2] == "q2: logic"
    assert Q.n_loadings == len(Q.loading_names) == 6
    assert list(Q.coords()["loading_ability"][1]) == [ABILITIES[k] for k in ability]


@pytest.mark.parametrize("write", ["csv", "tsv", "parquet", "json lines", "gz"])
@pytest.mark.parametrize("table", [WIDE, LONG], ids=["wide", "long"])
def test_tables_come_back(tmp_path, table, write):
    path = tmp_path / f"q.{ {'json lines': 'jsonl', 'gz': 'csv.gz'}.get(write, write) }"
    if write == "parquet":
        table.to_parquet(path, index=False)
    elif write == "json lines":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False, sep="\t" if write == "tsv" else ",")
    assert_is_q(read_q_matrix(path))


@pytest.mark.parametrize(
    "content", [LISTS, {"items": LISTS}, {"abilities": list(ABILITIES), "items": LISTS}]
)
def test_json_comes_back(tmp_path, content):
    path = tmp_path / "q.json"
    path.write_text(json.dumps(content))
    assert_is_q(read_q_matrix(path))


def test_columns_can_be_named(tmp_path):
    path = tmp_path / "q.csv"
    LONG.set_axis(["what", "takes"], axis=1).to_csv(path, index=False)
    assert_is_q(read_q_matrix(path, item="what", ability="takes"))
    with gzip.open(tmp_path / "q.csv.gz", "wb") as file:
        file.write(path.read_bytes())
    with pytest.raises(ResponseError, match="no column `wat`"):
        read_q_matrix(tmp_path / "q.csv.gz", item="wat")


REFUSED = {
    "not 0 or 1": ("item,x\nq1,1\nq2,2\n", r"got 2 at item 'q2', ability 'x'"),
    "text": ("item,x\nq1,1\nq2,yes\n", r"got text or an empty cell at item 'q2', ability 'x'"),
    "empty cell": ("item,x\nq1,\nq2,1\n", r"text or an empty cell at item 'q1'"),
    "no item column": ("name,x\nq1,1\n", r"no column for the item; name it `item`"),
    "items twice": ("item,x\nq1,1\nq1,1\n", r"item 'q1' appears 2 times"),
    "abilities twice": ("item,x,x\nq1,1,1\n", r"column 'x' twice"),
    "empty": ("", "is empty"),
    "no rows": ("item,x\n", "no rows"),
    "nothing needed": ("item,x,y\nq1,1,1\nq2,0,0\n", r"no ability is named for item 'q2'"),
    "not needed": ("item,x,y,z\nq1,1,0,0\n", r"no item needs abilities 'y', 'z'; drop"),
    "pair twice": ("item,ability\nq1,x\nq1,x\n", r"item 'q1' names ability 'x' 2 times"),
    "no name": ("item,x\n,1\n", "name is missing in data row 1"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_bad_tables_are_refused_in_a_sentence(tmp_path, text, said):
    path = tmp_path / "q.csv"
    path.write_text(text)
    with pytest.raises(ResponseError, match=said):
        read_q_matrix(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1", "not valid JSON"),
        ("[]", "holds no items"),
        ('{"q1": "x"}', "no.* list of names at 'q1'"),
        ('{"q1": ["x", "x"]}', "'x' appears 2 times"),
        ('{"q1": ["x"], "q1": ["y"]}', "item 'q1' appears 2 times"),
        ('{"q1": []}', "empty"),
        ('{"items": {"q1": ["x"]}, "abilities": ["y"]}', "'x', which is not among all `abilities`"),
    ],
)
def test_bad_json_is_refused_in_a_sentence(tmp_path, text, said):
    path = tmp_path / "q.json"
    path.write_text(text)
    with pytest.raises(ResponseError, match=said):
        read_q_matrix(path)


def test_bad_arrays_are_refused_in_a_sentence():
    with pytest.raises(ResponseError, match="got nan at item 'item 1', ability 'ability 2'"):
        QMatrix.from_arrays([[1, np.nan], [1, 1]])
    with pytest.raises(ResponseError, match="shape"):
        QMatrix.from_arrays([1, 0])
    with pytest.raises(ResponseError, match=r"2 items, but 3 names"):
        QMatrix.from_arrays([[1], [1]], items=["a", "b", "c"])
    with pytest.raises(ResponseError, match="ability 'x' appears 2 times"):
        QMatrix.from_arrays([[1, 1]], abilities=["x", "x"])


def test_one_ability_is_fine():
    q = QMatrix.from_arrays(np.ones((3, 1), bool))
    assert q.findings() == []
    assert q.n_loadings == 3


def test_rows_follow_the_responses():
    some = Q.for_items(["q3", "q1", "q2"])
    np.testing.assert_array_equal(some.needs, NEEDS[[2, 0, 1]] == 1)
    assert some.n_left_out == 1
    assert some.findings()[0].startswith("left out 1 row of the Q-matrix")
    with pytest.raises(ResponseError, match=r"no row for items 'x', 'y' of the responses"):
        Q.for_items(["q1", "x", "y"])
    with pytest.raises(ResponseError, match=r"none of the responses' items needs ability 'geo"):
        Q.for_items(["q1", "q2"])
    assert Q.for_items(["q1", "q2"], drop_unneeded=True).abilities == ("algebra", "logic")


def test_coverage_counts_items_responses_and_trials():
    trials = np.array([[1, 2, 0], [3, 0, 5]])
    responses = Responses.from_arrays(0 * trials, trials, items=["q3", "q1", "q2"])
    np.testing.assert_allclose(Q.coverage()["share of items"], 0.5)
    table = Q.coverage(responses)
    assert table["items"].tolist() == [2, 2, 1]
    assert table["responses"].tolist() == [2, 3, 2]
    assert table["trials"].tolist() == [7, 9, 4]


def test_findings_name_what_cannot_be_told_apart():
    same = QMatrix.from_arrays([[1, 1, 0], [0, 0, 1]])
    assert ["'ability 1', 'ability 2'" in f for f in same.findings()] == [True]
    nested = QMatrix.from_arrays([[1, 1], [0, 1]])
    assert nested.findings() == [
        "ability 'ability 1' is never needed without 'ability 2'; add items that need it alone"
    ]
    sums = QMatrix.from_arrays([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]])
    assert [f.startswith("the Q-matrix has rank 3 for 4") for f in sums.findings()] == [True]


def test_real_q_matrix_has_known_findings(shared):
    data = np.load(shared / "data" / "qmatrix_frcsub.npz")
    q = QMatrix.from_arrays(data["Q"], data["items"], data["Q_names"])
    assert q.coverage()["items"].tolist() == data["Q"].sum(0).tolist()
    assert sum("never needed without" in finding for finding in q.findings()) == 6


def test_simulation_is_reproducible_and_follows_its_parameters():
    q = QMatrix.from_arrays(np.repeat(np.eye(2, dtype=int), 3, axis=0))
    one, two = (
        simulate_q_mirt(400, q, key=jax.random.key(1), correlation=0.8, trials=50) for _ in range(2)
    )
    assert one.parameters.identical(two.parameters)
    theta = one.parameters["theta"].to_numpy()
    assert 0.7 < np.corrcoef(theta.T)[0, 1] < 0.9
    a, (item, ability) = one.parameters["a"].to_numpy(), q.loadings
    eta = theta[:, ability] * a + one.parameters["d"].to_numpy()[item]
    y, n = one.responses.cells.matrices()
    p = 1 / (1 + np.exp(-eta))
    z = (y - n * p) / np.sqrt(n * p * (1 - p))
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert 0.9 < z.std() < 1.1
    assert ("theta", "subject 1, ability 2") in one.summary.index
    assert "400 subjects x 6 items that need 2 abilities" in repr(one)


def test_simulation_refuses_what_is_no_correlation():
    q = QMatrix.from_arrays(np.eye(3, dtype=int))
    for wrong in (-0.9, np.ones((2, 2)), 2 * np.eye(3)):
        with pytest.raises(ResponseError, match="not a correlation matrix of 3 abilities"):
            simulate_q_mirt(5, q, key=jax.random.key(0), correlation=wrong)
    with pytest.raises(ResponseError, match="`sigma_d` must not be negative"):
        simulate_q_mirt(5, q, key=jax.random.key(0), sigma_d=-1.0)
    with pytest.raises(ResponseError, match="`missing` must be a share"):
        simulate_q_mirt(5, q, key=jax.random.key(0), missing=1.0)
