"""Responses: who answered what, how often, and how often correctly.

Data is validated only here. Readers supply columns, and all other code relies on these guarantees:
names are unique text, 0 <= successes <= trials, there are at least two subjects and two items, and
each of them was observed at least once.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesirt.data.cell_rows import fold_rows
from bayesirt.data.cells import CellList, Cells, check_cells, connected_groups, select_cells
from bayesirt.data.clusters import Clusters, check_clusters, clusters_of_rows
from bayesirt.data.costs import check_costs, costs_of_rows
from bayesirt.data.scales import Scale
from bayesirt.data.score_values import read_scores, where_of, without_score
from bayesirt.data.table_columns import (
    LongColumns,
    check_columns,
    check_index,
    check_tables_of_items,
    describe_items,
    encode_names,
    parse_latency,
)
from bayesirt.data.wide_tables import as_matrix, cells_of_table, clean_cells, filled_cells
from bayesirt.errors import ResponseError
from bayesirt.names import check_names, given_names, notebook_html, one_line


@dataclass(frozen=True, eq=False, repr=False)
class Responses:
    """Answers of subjects (the evaluated systems) to items, as `read_responses` reads them.

    Attributes
    ----------
    subjects, items : tuple of str
        Unique names, kept as they were read.
    cells : Cells
        Successes and trials of the observed cells, dense or sparse.
    latency : float array, shape (cell,), or None
        Response length (tokens) or time of each observed cell, > 0; NaN where it is missing.
    item_metadata : DataFrame
        One row per item, indexed by name, such as its topic; may have no columns.
    q_matrix : DataFrame or None
        0/1, indexed by item, one column per ability.
    clusters : Clusters or None
        Which subjects belong together, such as several runs or prompts of one LLM.
    costs : float array, shape (subject,), or None
        Mean cost of an answer of each subject, in any unit; NaN where it is unknown.
    scale : Scale or None
        Kind of answers, if not right and wrong.
    subject_metadata : DataFrame
        One row per subject, indexed by name, such as its LLM and its scaffold; may have no columns.

    Examples
    --------
    >>> Responses.from_arrays([[1, 0], [1, 1], [0, 1]])
    <Responses: 3 subjects x 2 items, 6 responses (100% observed), 67% right>
    """

    subjects: tuple[str, ...]
    items: tuple[str, ...]
    cells: Cells
    latency: NDArray[np.float64] | None = None
    item_metadata: pd.DataFrame = field(default_factory=pd.DataFrame)
    q_matrix: pd.DataFrame | None = None
    clusters: Clusters | None = None
    costs: NDArray[np.float64] | None = None
    scale: Scale | None = None
    subject_metadata: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __post_init__(self) -> None:
        check_names(self.subjects, "subject")
        check_names(self.items, "item")
        check_cells(self.cells, self.subjects, self.items)
        if self.clusters is not None:
            check_clusters(self.clusters, self.n_subjects)
        if self.costs is not None:
            check_costs(self.costs, self.n_subjects)
        if self.item_metadata.empty:
            object.__setattr__(self, "item_metadata", pd.DataFrame(index=list(self.items)))
        if self.subject_metadata.empty:
            object.__setattr__(self, "subject_metadata", pd.DataFrame(index=list(self.subjects)))
        check_tables_of_items(self.items, self.item_metadata, self.q_matrix)
        check_index(self.subject_metadata, self.subjects, "subject")

    def __repr__(self) -> str:
        from bayesirt.data.response_summary import in_short

        return in_short(self)

    def _repr_html_(self) -> str:
        return notebook_html(repr(self)[1:-1], self.summary)

    @property
    def n_subjects(self) -> int:
        """Number of subjects."""
        return len(self.subjects)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    @property
    def n_observed(self) -> int:
        """Number of observed cells."""
        return self.cells.n_observed

    @property
    def coverage(self) -> float:
        """Share of the cells that were observed (C in Kang (2026))."""
        return self.n_observed / (self.n_subjects * self.n_items)

    @property
    def summary(self) -> pd.DataFrame:
        """Counts in one unrounded column, as `bayesirt check` shows them."""
        from bayesirt.data.response_summary import summarise

        return summarise(self)

    @classmethod
    def from_arrays(
        cls,
        successes: ArrayLike,
        trials: ArrayLike | None = None,
        *,
        subjects: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
        scale: Scale | None = None,
    ) -> "Responses":
        """Make responses from matrices.

        Parameters
        ----------
        successes : array, shape (subject, item)
            Whole numbers. Without `trials`, 0 or 1, and NaN where the item was not run.
        trials : array, shape (subject, item), optional
            Whole numbers, 0 where the item was not run.
        subjects, items : sequence of str, optional
            Names; ``subject 1`` and so on by default.
        scale : Scale, optional
            Kind of scores, if not right and wrong: grades, or numbers from 0 to 1.

        Returns
        -------
        Responses

        Raises
        ------
        ResponseError
            If the shapes differ or a value is not a count.
        """
        clean = clean_cells(successes, trials) if scale is None else None
        if clean is not None:
            subjects = given_names(subjects, "subject", clean.shape[0])
            items = given_names(items, "item", clean.shape[1])
            return cls(tuple(subjects), tuple(items), clean)
        matrix = as_matrix(successes, "successes")
        subjects = given_names(subjects, "subject", matrix.shape[0])
        items = given_names(items, "item", matrix.shape[1])
        counts = None if trials is None else as_matrix(trials, "trials")
        if counts is not None and counts.shape != matrix.shape:
            raise ResponseError(f"`trials` has shape {counts.shape}, `successes` {matrix.shape}")
        seen = ~np.isnan(matrix) if counts is None else counts != 0
        subject, item = np.nonzero(seen)
        values = {"score": pd.Series(matrix[seen], name="successes")}
        if counts is not None:
            values["trials"] = pd.Series(counts[seen])
        binary = Scale("binary")
        return cls._from_rows(subject, item, values, subjects, items, scale=scale or binary)

    @classmethod
    def from_wide(
        cls, frame: pd.DataFrame, *, threshold: float | None = None, scale: Scale | None = None
    ) -> "Responses":
        """Make responses from a table with subjects in rows (its index) and items in columns.

        Parameters
        ----------
        frame : DataFrame, shape (subject, item)
            0 and 1, grades, or scores from 0 to 1. An empty cell, ``NA`` or a null was not
            observed.
        threshold : float, optional
            Scores at or above it count as right.
        scale : Scale, optional
            Kind of scores; by default detected.

        Returns
        -------
        Responses

        Raises
        ------
        ResponseError
            At the first cell with another value, and for duplicated names.
        """
        subjects, items = [str(s) for s in frame.index], [str(i) for i in frame.columns]
        check_names(subjects, "subject")
        check_names(items, "item")
        clean = cells_of_table(frame, threshold) if scale is None else None
        if clean is not None:
            return cls(tuple(subjects), tuple(items), clean)
        cells = filled_cells(frame)
        return cls._from_rows(*cells, subjects, items, threshold=threshold, scale=scale)

    @classmethod
    def from_long(
        cls,
        frame: pd.DataFrame,
        *,
        duplicates: str = "error",
        threshold: float | None = None,
        scale: Scale | None = None,
        **columns: Any,
    ) -> "Responses":
        """Make responses from a table with one row per response.

        Parameters
        ----------
        frame : DataFrame
        duplicates : {"error", "trials", "first", "last"}
            How to treat rows with the same subject and item: as an error, as repeated trials, or
            as corrections of which only the first or the last counts.
        threshold : float, optional
            Scores at or above it count as right.
        scale : Scale, optional
            Kind of scores; by default detected.

        Other Parameters
        ----------------
        subject, item, score : str
            Columns that hold the names and the score (0 or 1, a grade, a score from 0 to 1, or
            successes out of `trials`); a row without a score was not run.
        trials : str, optional
            Column of the numbers of trials; 0 means not observed.
        latency : str, optional
            Column of response lengths or times; missing and zero values are left out.
        cluster : str, optional
            Column that groups subjects, such as the LLM that they are runs of.
        cost : str, optional
            Column with the cost of each answer; kept as the mean of each subject.
        item_metadata : sequence of str, optional
            Columns that describe the item; each must be constant within an item.
        subject_metadata : sequence of str, optional
            Columns that describe the subject; each must be constant within a subject.

        Returns
        -------
        Responses

        Raises
        ------
        ResponseError
            For unknown columns, bad values and duplicated pairs.
        """
        roles = LongColumns(**columns)
        check_columns(frame, roles.named)
        missing = without_score(frame[roles.score])
        frame = frame if missing is None else frame[~missing]
        subject, subjects = encode_names(frame[roles.subject], "subject")
        item, items = encode_names(frame[roles.item], "item")
        values = {role: frame[name].reset_index(drop=True) for role, name in roles.values.items()}
        read = cls._from_rows(
            subject, item, values, subjects, items,
            threshold=threshold, scale=scale, duplicates=duplicates,
        )  # fmt: skip
        cluster, cost = roles.cluster, roles.cost
        about = describe_items(frame, subject, subjects, roles.subject_metadata, "subject")
        return replace(
            read,
            item_metadata=describe_items(frame, item, items, roles.item_metadata),
            clusters=clusters_of_rows(frame[cluster], subject, subjects) if cluster else None,
            costs=costs_of_rows(frame[cost], subject, subjects) if cost else None,
            subject_metadata=about,
        )

    @classmethod
    def _from_rows(
        cls,
        subject: NDArray[np.integer],
        item: NDArray[np.integer],
        values: Mapping[str, pd.Series],
        subjects: Sequence[str],
        items: Sequence[str],
        *,
        threshold: float | None = None,
        scale: Scale | None = None,
        duplicates: str = "error",
    ) -> "Responses":
        """Check values, fold duplicates and store the cells.

        `subject` and `item` are positions; `values` has a `score`, and optionally `trials` and
        `latency`, each a series that has its name in the data.
        """
        subject, item = subject.astype(np.int32), item.astype(np.int32)
        where = where_of(subjects, items, subject, item)
        named = {role: role if x.name is None else x.name for role, x in values.items()}
        title = {role: one_line(str(name)) for role, name in named.items()}
        score, trials = values["score"], values.get("trials")
        y, n, scale = read_scores(score, trials, title["score"], threshold, where, scale)
        if scale is not None and duplicates == "trials":
            duplicates = "error"  # a grade is not a number of trials
        timed = "latency" in values
        x = parse_latency(values["latency"], title["latency"], where) if timed else None
        rows = np.flatnonzero(n) if not n.all() else slice(None)
        cells, latency = fold_rows(
            (len(subjects), len(items)),
            CellList(*(column[rows] for column in (subject, item, y, n))),
            duplicates,
            lambda row: where(int(np.flatnonzero(n)[row])),
            latency=None if x is None else x[rows],
        )
        return cls(tuple(subjects), tuple(items), cells, latency=latency, scale=scale)

    def to_long(self) -> pd.DataFrame:
        """Return one row per observed cell, as `from_long` takes it.

        Returns
        -------
        DataFrame
            Columns subject, item, successes and trials; latency, cluster and cost if known; and
            the metadata of items and subjects.
        """
        subject, item, successes, trials = self.cells.listed()
        columns: dict[Hashable, object] = {
            "subject": np.asarray(self.subjects, object)[subject],
            "item": np.asarray(self.items, object)[item],
            "successes": successes,
            "trials": trials,
            "latency": self.latency,
            "cluster": self.clusters and np.asarray(self.clusters.of_each, object)[subject],
            "cost": None if self.costs is None else self.costs[subject],
        }
        columns = {name: x for name, x in columns.items() if x is not None}
        for table, rows in ((self.item_metadata, item), (self.subject_metadata, subject)):
            columns |= {name: values.to_numpy()[rows] for name, values in table.items()}
        return pd.DataFrame(columns)

    def to_parquet(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a long Parquet file, from which `read_responses` restores the same responses.

        Parameters
        ----------
        path : str or Path
        overwrite : bool

        Raises
        ------
        ResponseError
            If the file exists already, or cannot be written.
        """
        from bayesirt.data.long_parquet_file import write_long_parquet

        write_long_parquet(self, path, overwrite=overwrite)

    def components(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Return the connected groups of subjects and items as positions, largest group first."""
        return connected_groups(self.cells)

    def select(self, subjects: NDArray[np.intp], items: NDArray[np.intp]) -> "Responses":
        """Return the responses of some subjects to some items.

        Parameters
        ----------
        subjects, items : int array
            Positions to keep, in the new order.

        Returns
        -------
        Responses

        Raises
        ------
        ResponseError
            If too few responses remain.
        """
        cells, rows = select_cells(self.cells, subjects, items)
        return Responses(
            tuple(self.subjects[i] for i in subjects),
            tuple(self.items[j] for j in items),
            cells,
            latency=None if self.latency is None else self.latency[rows],
            item_metadata=self.item_metadata.iloc[items],
            q_matrix=None if self.q_matrix is None else self.q_matrix.iloc[items],
            clusters=None if self.clusters is None else self.clusters.select(subjects),
            costs=None if self.costs is None else self.costs[subjects],
            scale=self.scale,
            subject_metadata=self.subject_metadata.iloc[subjects],
        )
