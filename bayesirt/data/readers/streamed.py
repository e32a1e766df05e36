"""Read long Parquet files a batch of rows at a time, if possible."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from bayesirt.data.free_memory import host_bytes_free
from bayesirt.data.long_parquet_file import (
    OWN_ROLES,
    check_written,
    describing_columns,
    read_long_parquet,
    schema_version,
    written_scale,
)
from bayesirt.data.readers.column_roles import describing, find_columns
from bayesirt.data.readers.long_parquet import LongParquet, is_plain
from bayesirt.data.readers.numbered import can_be_numbered
from bayesirt.data.readers.reading import Reading
from bayesirt.data.readers.subject_facts import CLUSTER, with_clusters_of_parquet
from bayesirt.data.readers.tables import (
    PARQUET_ERRORS,
    Progress,
    parquet_schema,
    refuse_parquet,
)
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

_OF_ANSWERS = ("latency", "cost")
"""Measurements of answers, which cannot be left on disk."""

_BYTES_A_ROW = 60
"""Memory per response, to read it and to fit a point estimate."""


def read_streamed(
    path: Path,
    reading: Reading,
    progress: Progress | None,
    announce: Callable[[str], None] | None,
) -> Responses | None:
    """Read a long Parquet file a batch of rows at a time, or return None if that is impossible."""
    if reading.facet or reading.described_subjects:
        return None
    schema, n_rows = parquet_schema(path) or (pa.schema([]), 0)
    threshold, out_of_core = reading.threshold, reading.out_of_core
    as_written = schema_version(schema) is not None and not any(reading.named.values())
    named = {**reading.columns, **(OWN_ROLES if as_written else {})}
    roles = find_columns(schema.names, named)
    usable = {"subject", "item", "score"} <= roles.keys() and set(roles.values()) <= {*schema.names}
    if not usable or not all(is_plain(schema.field(roles[k]).type) for k in ("subject", "item")):
        return None
    if out_of_core is None:
        out_of_core = n_rows * _BYTES_A_ROW > host_bytes_free()
    if out_of_core:
        _refuse_measured(named)
    if as_written:
        check_written(schema, one_line(path.name, 80))
    measured = [roles.pop(role) for role in _OF_ANSWERS if role in roles]
    described = describing_columns(schema) if as_written else describing(schema.names, roles)
    taken = {*described, *roles.values()}
    described += [x for x in reading.wanted if x in schema.names and x not in taken]
    numbered = tuple(name for name in described if can_be_numbered(schema.field(name).type))
    left_out = [name for name in described if name not in numbered] + measured
    if left_out and not out_of_core:
        return _as_it_was_written(path, reading) if as_written else None
    file = LongParquet(path, roles, threshold, n_rows, numbered, as_written, progress, announce)
    if not out_of_core and not file.counts(reading.scale):
        return None
    own_cluster = CLUSTER if as_written and CLUSTER in schema.names else None
    complete = partial(
        _completed, path, schema, roles["subject"], reading.cluster_column or own_cluster
    )
    if not out_of_core:
        return complete(file.in_memory(reading.duplicates))
    if left_out and announce is not None:
        listed = ", ".join(f"`{one_line(name)}`" for name in left_out)
        announce(
            f"{n_rows:,} rows are left on disk without {listed}: lengths, times, costs and lists "
            f"cannot be stored there"
        )
    return complete(file.on_disk(reading.duplicates))


def _completed(
    path: Path, schema: pa.Schema, subject: str, cluster: str | None, responses: Responses
) -> Responses:
    """Return responses with their scale, and with clusters."""
    responses = replace(responses, scale=written_scale(schema))
    if cluster is None:
        return responses
    return with_clusters_of_parquet(responses, path, subject, cluster)


def _refuse_measured(named: dict[str, str | None]) -> None:
    given = next((role for role in _OF_ANSWERS if named[role]), None)
    if given:
        raise ResponseError(
            f"lengths, times and costs cannot be left on disk; leave out --{given}, or read fewer "
            f"rows"
        )


def _as_it_was_written(path: Path, reading: Reading) -> Responses | None:
    if reading.threshold is not None or reading.cluster_column or reading.cost_column:
        return None
    if path.is_dir():
        raise ResponseError(
            f"{one_line(path.name, 80)} holds several files that convert wrote, with lengths or "
            f"costs; convert their sources together"
        )
    try:
        return read_long_parquet(path, duplicates=reading.duplicates)
    except PARQUET_ERRORS as error:
        refuse_parquet(one_line(path.name, 80), error)
