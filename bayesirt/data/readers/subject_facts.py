"""Facts from additional files: clusters and costs of subjects, topics and metadata of items."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from bayesirt.data.clusters import Clusters, clusters_of_rows
from bayesirt.data.costs import costs_of_rows
from bayesirt.data.facets import QUESTION
from bayesirt.data.parquet_bounds import check_dictionaries
from bayesirt.data.readers.column_roles import find_columns
from bayesirt.data.readers.reading import TOPIC
from bayesirt.data.readers.tables import PARQUET_ERRORS, parquet_parts, read_table, refuse_parquet
from bayesirt.data.responses import Responses
from bayesirt.data.table_columns import (
    OWN_COLUMNS,
    describe_items,
    encode_names,
    is_blank,
    list_columns,
)
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

CLUSTER, _COST = "cluster", "cost"


def with_clusters_of_file(responses: Responses, path: Path) -> Responses:
    """Add the clusters of a file with one row per subject."""
    rows = _facts(path, "subject", CLUSTER)
    return _added(responses, rows["subject"], rows[CLUSTER], one_line(path.name, 80))


def with_costs_of_file(responses: Responses, path: Path) -> Responses:
    """Add the mean cost of each subject's answers from a file with one or more rows for each."""
    rows = _facts(path, "subject", _COST)
    codes, named = encode_names(rows["subject"], "subject")
    of_named = costs_of_rows(rows[_COST], codes, named)
    places = pd.Index(named, dtype=object).get_indexer(pd.Index(responses.subjects, dtype=object))
    if (places < 0).all():
        raise ResponseError(
            f"{one_line(path.name, 80)} names no subject of the results, such as "
            f"{one_line(responses.subjects[0])!r}; use the same names as the results"
        )
    return replace(responses, costs=np.where(places < 0, np.nan, of_named[places]))


def minutes_of_file(path: Path) -> pd.Series:
    """Return human minutes by item, from the column of minutes or the only other column."""
    rows = read_table(path)
    item = find_columns(rows.columns, {}).get("item", "item")
    others = [x for x in rows.columns if x != item]
    named = [x for x in others if "minute" in str(x).lower()] or others
    if item not in rows or len(named) != 1:
        raise ResponseError(
            f"{one_line(path.name, 80)} must have a column item and one of minutes, not "
            f"{list_columns(rows)}"
        )
    values = rows[named[0]]
    return values.mask(is_blank(values)).set_axis(rows[item].astype(str))


def dates_of_file(path: Path) -> pd.Series:
    """Return the release dates of subjects, by name."""
    rows = _facts(path, "subject", "date")
    return rows["date"].set_axis(rows["subject"].astype(str))


def with_topics_of_file(responses: Responses, path: Path) -> Responses:
    """Add the topics of a file with one row per item; items not in the file have no topic."""
    rows = _facts(path, "item", TOPIC)
    codes, named = encode_names(rows["item"], "item")
    topics = describe_items(rows, codes, named, [TOPIC])[TOPIC].reindex(list(responses.items))
    _refuse_strangers(topics.dropna().index, responses.items, one_line(path.name, 80), "item")
    described = responses.item_metadata.assign(**{TOPIC: topics.to_numpy()})
    return replace(responses, item_metadata=described)


def with_item_table(responses: Responses, path: Path, *, of_questions: bool) -> Responses:
    """Add the columns of a file with one row per item or question; absent ones are missing."""
    table, metadata = _described(path, "item"), responses.item_metadata
    names = list(metadata[QUESTION]) if of_questions else list(responses.items)
    _refuse_strangers(table.index, names, one_line(path.name, 80), "item")
    table = table.reindex(names).set_axis(metadata.index)
    return replace(responses, item_metadata=metadata.assign(**table))


def with_subject_table(responses: Responses, path: Path) -> Responses:
    """Add the columns of a file with one row per subject."""
    table, metadata = _described(path, "subject"), responses.subject_metadata
    _refuse_strangers(table.index, responses.subjects, one_line(path.name, 80), "subject")
    return replace(responses, subject_metadata=metadata.assign(**table.reindex(metadata.index)))


def _described(path: Path, kind: str) -> pd.DataFrame:
    """Return the columns of a file that describe items or subjects, one row each."""
    if not path.is_file():
        raise ResponseError(
            f"--{kind}-table {one_line(str(path), 200)} is not a file; name one with the column "
            f"{kind}"
        )
    rows, name = read_table(path), one_line(path.name, 80)
    column = find_columns(rows.columns, {}).get(kind)
    if column is None:
        raise ResponseError(f"{name} has no column for the {kind}, only {list_columns(rows)}")
    codes, named = encode_names(rows[column], kind)
    others = [x for x in rows.columns if x != column and x not in OWN_COLUMNS]
    return describe_items(rows, codes, named, others, kind)


def _refuse_strangers(named: pd.Index, sought: Sequence[str], name: str, kind: str) -> None:
    """Refuse a table that names no item, or subject, of the results."""
    if not named.isin(sought).any():
        raise ResponseError(
            f"{name} names no {kind} of the results, such as {one_line(sought[0])!r}; use the same "
            f"names as the results"
        )


def with_clusters_of_parquet(
    responses: Responses, path: Path, subject: str, cluster: str
) -> Responses:
    """Add the clusters in a column of a long Parquet file, read a batch of rows at a time."""
    try:
        pairs = pd.concat(list(_pairs(path, subject, cluster)))
    except PARQUET_ERRORS as error:
        refuse_parquet(one_line(path.name, 80), error)
    pairs = pairs.drop_duplicates(ignore_index=True)
    named = pairs[CLUSTER].rename(cluster)
    return _added(responses, pairs["subject"], named, one_line(path.name, 80))


def refuse_column(role: str, given: str) -> ResponseError:
    """Return the error for a name that is neither a file nor a column."""
    return ResponseError(
        f"--{role} {one_line(given, 80)!r} is not a file, and these results are not a long table "
        f"with such a column; name a CSV file with the columns subject and {role}"
    )


def _facts(path: Path, names: str, column: str) -> pd.DataFrame:
    """Read a table that must have two columns: names, and a fact about each."""
    rows = read_table(path)
    for name in (names, column):
        if name not in rows.columns:
            raise ResponseError(
                f"{one_line(path.name, 80)} must have the columns `{names}` and `{column}`, not "
                f"{list_columns(rows)}"
            )
    return rows


def _pairs(path: Path, subject: str, cluster: str) -> Iterator[pd.DataFrame]:
    """Yield the distinct pairs of subject and cluster of each batch of rows."""
    parts = parquet_parts(path)
    schema = pa.parquet.read_schema(parts[0])
    if cluster not in schema.names:
        listed = list_columns(pd.DataFrame(columns=schema.names))
        raise ResponseError(f"no column `{one_line(cluster)}`; the columns are {listed}")
    if pa.types.is_nested(schema.field(cluster).type):
        raise ResponseError(
            f"`{one_line(cluster)}` holds lists, not names of clusters; name another"
        )
    columns = list(dict.fromkeys((subject, cluster)))
    for part in parts:
        with pa.parquet.ParquetFile(part, read_dictionary=columns, pre_buffer=False) as file:
            for batch in file.iter_batches(1 << 20, columns=columns):
                check_dictionaries(batch)
                rows = pa.table({"subject": batch.column(subject), CLUSTER: batch.column(cluster)})
                yield rows.group_by(["subject", CLUSTER]).aggregate([]).to_pandas().astype(object)


def _added(responses: Responses, subject: pd.Series, cluster: pd.Series, name: str) -> Responses:
    codes, subjects = encode_names(subject, "subject")
    clusters = clusters_of_rows(cluster, codes, subjects)
    of_subject = dict(zip(subjects, clusters.of_each, strict=True))
    missing = next((s for s in responses.subjects if s not in of_subject), None)
    if missing is not None:
        raise ResponseError(f"{name} names no cluster for subject {one_line(missing)!r}; add a row")
    return replace(responses, clusters=Clusters.of([of_subject[s] for s in responses.subjects]))
