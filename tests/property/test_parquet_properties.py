"""Any responses are read back unchanged from a long Parquet file of this package."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from property.test_responses_properties import as_responses, steady, tables
from small_data import as_sparse

from bayesirt.data.clusters import Clusters
from bayesirt.data.readers import read_responses
from bayesirt.data.responses import Responses

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KINDS = {
    "text": TEXTS,
    "text or nothing": st.none() | TEXTS,
    "numbers": st.integers(-(2**60), 2**60),
    "fractions": st.floats(allow_nan=False),
    "answers": st.booleans(),
    "lists": st.lists(TEXTS, max_size=2),
}
COLUMNS = st.sampled_from(
    ["benchmark", "clusters", "score", "tokens", "model", "índice 7", "index"]
)


@st.composite
def described(draw: st.DrawFn) -> Responses:
    """Draw responses, dense or sparse, with or without lengths, metadata, clusters and costs."""
    responses = as_responses(draw(tables(most_trials=40)))
    if draw(st.booleans()):
        lengths = st.just(np.nan) | st.floats(1e-9, 1e9)
        n = responses.n_observed
        values = draw(st.lists(lengths, min_size=n, max_size=n))
        if not np.isnan(values).all():
            responses = replace(responses, latency=np.array(values))
    columns = {}
    for name in draw(st.lists(COLUMNS, unique=True, max_size=3)):
        kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        n = responses.n_items
        columns[name] = pd.Series(draw(st.lists(kind, min_size=n, max_size=n)), dtype=object)
    if columns:
        table = pd.DataFrame(columns).set_axis(pd.Index(responses.items, dtype=object), axis=0)
        responses = replace(responses, item_metadata=table)
    if draw(st.booleans()):
        n = responses.n_subjects
        names = TEXTS.filter(str.strip)
        of_each = draw(st.lists(names, min_size=n, max_size=n))
        responses = replace(responses, clusters=Clusters.of(of_each))
    if draw(st.booleans()):
        n = responses.n_subjects
        costs = st.just(np.nan) | st.floats(0, 1e300)
        of_subjects = draw(st.lists(costs, min_size=n, max_size=n))
        responses = replace(responses, costs=np.array(of_subjects))
    return as_sparse(responses) if draw(st.booleans()) else responses


def written_and_read(responses: Responses) -> Responses:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "r.parquet")
        responses.to_parquet(path)
        return read_responses(path)


def values_of(table: pd.DataFrame) -> dict[str, list[object]]:
    """Return columns as lists, with None for what is missing."""
    return {
        name: [None if isinstance(v, float) and np.isnan(v) else v for v in column.tolist()]
        for name, column in table.items()
    }


@steady
@given(described())
def test_nothing_is_lost(responses: Responses):
    again = written_and_read(responses)
    assert again.subjects == responses.subjects
    assert again.items == responses.items
    for one, other in zip(again.cells.listed(), responses.cells.listed(), strict=True):
        np.testing.assert_array_equal(one, other)
    if responses.latency is None:
        assert again.latency is None
    else:
        np.testing.assert_array_equal(again.latency, responses.latency)
    assert again.clusters == responses.clusters
    np.testing.assert_array_equal(*(np.array(r.costs, float) for r in (again, responses)))
    assert list(again.item_metadata.index) == list(responses.item_metadata.index)
    assert values_of(again.item_metadata) == values_of(responses.item_metadata)


@steady
@given(described())
def test_what_was_read_is_written_alike(responses: Responses):
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "1.parquet"), Path(folder, "2.parquet")
        responses.to_parquet(first)
        read_responses(first).to_parquet(second)
        assert first.read_bytes() == second.read_bytes()
