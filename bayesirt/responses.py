"""Responses: who answered what, how often, and how often rightly.

The only place where data is validated. Readers bring columns; everything to the right of this
room relies on what is promised here: names are unique text, 0 <= successes <= trials, at least
two subjects and two items, and each of them was observed at least once.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bayesirt.cells import Cells, store_cells
from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.scores import Where, binary_counts, parse_numbers, repeated_counts

DUPLICATE_RULES = ("error", "trials", "first", "last")


@dataclass(frozen=True, eq=False, repr=False)
class Responses:
    """Answers of subjects (the evaluated systems) to items.

    Built by `from_long`, `from_wide` or `from_arrays`, or read by `read_responses`.

    Attributes
    ----------
    subjects, items : tuple of str
        Unique names, kept as they were read.
    cells : Cells
        Successes and trials of the observed cells, dense or sparse.
    latency : float array, shape (cell,), or None
        Response length (tokens) or time of each observed cell, > 0; NaN where it is missing.
    item_metadata : DataFrame
        One row an item, indexed by name, such as its benchmark or topic; may have no columns.
    q_matrix : DataFrame or None
        0/1, indexed by item, one column an ability.

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

    def __post_init__(self) -> None:
        _check_names(self.subjects, "subject")
        _check_names(self.items, "item")
        _check_size(self.subjects, self.items, self.cells)
        if self.item_metadata.empty:
            object.__setattr__(self, "item_metadata", pd.DataFrame(index=list(self.items)))
        for label, table in (("item metadata", self.item_metadata), ("Q-matrix", self.q_matrix)):
            if table is not None and list(table.index) != list(self.items):
                raise ResponseError(f"the {label} must have one row for each item, in their order")
        if self.q_matrix is not None and not self.q_matrix.isin([0, 1]).to_numpy().all():
            raise ResponseError("the Q-matrix must hold only 0 and 1")

    def __repr__(self) -> str:
        successes, trials, _ = (int(total.sum()) for total in self.cells.totals(1))
        return (
            f"<Responses: {self.n_subjects} subjects x {self.n_items} items, "
            f"{self.n_observed:,} responses ({self.coverage:.0%} observed), "
            f"{successes / trials:.0%} right>"
        )

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
        """Share of the cells that were observed (C in papers/002)."""
        return self.n_observed / (self.n_subjects * self.n_items)

    @property
    def summary(self) -> pd.DataFrame:
        """Counts in one unrounded column, for people and for `bayesirt check`."""
        successes, trials, observed = self.cells.totals(1)
        per_item = self.cells.totals(0).observed
        accuracy = successes / trials
        return pd.DataFrame(
            {
                "value": {
                    "subjects": self.n_subjects,
                    "items": self.n_items,
                    "responses": self.n_observed,
                    "trials": int(trials.sum()),
                    "coverage": self.coverage,
                    "accuracy": successes.sum() / trials.sum(),
                    "lowest accuracy of a subject": accuracy.min(),
                    "highest accuracy of a subject": accuracy.max(),
                    "fewest items of a subject": int(observed.min()),
                    "fewest subjects of an item": int(per_item.min()),
                    "connected groups": len(self.components()),
                }
            },
            dtype=object,
        )

    @classmethod
    def from_arrays(
        cls,
        successes: ArrayLike,
        trials: ArrayLike | None = None,
        *,
        subjects: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
    ) -> "Responses":
        """Take matrices.

        Parameters
        ----------
        successes : array, shape (subject, item)
            Whole numbers; without `trials` 0 or 1, and NaN where the item was not run.
        trials : array, shape (subject, item), optional
            Whole numbers, 0 where the item was not run.
        subjects, items : sequence of str, optional
            Names; ``subject 1`` and so on by default.

        Returns
        -------
        Responses

        Raises
        ------
        ResponseError
            Where the shapes differ or a value is no count.
        """
        matrix = np.asarray(successes, np.float64)
        if matrix.ndim != 2:
            raise ResponseError(
                f"`successes` must be a matrix of subjects x items, got {matrix.ndim} dimensions"
            )
        subjects = _default_names(subjects, "subject", matrix.shape[0])
        items = _default_names(items, "item", matrix.shape[1])
        counts = None if trials is None else np.asarray(trials, np.float64)
        if counts is not None and counts.shape != matrix.shape:
            raise ResponseError(f"`trials` has shape {counts.shape}, `successes` {matrix.shape}")
        seen = np.isfinite(matrix) | np.isinf(matrix) if counts is None else counts != 0
        subject, item = np.nonzero(seen)
        frame = {"subject": subject, "item": item, "successes": matrix[seen]}
        if counts is not None:
            frame["trials"] = counts[seen]
        return cls._from_codes(pd.DataFrame(frame), subjects, items, score="successes")

    @classmethod
    def from_wide(cls, frame: pd.DataFrame, *, threshold: float | None = None) -> "Responses":
        """Take a table with subjects in rows (its index) and items in columns.

        Parameters
        ----------
        frame : DataFrame, shape (subject, item)
            0 and 1; an empty cell, ``NA`` or a null was not observed.
        threshold : float, optional
            Scores at or above it count as right.

        Returns
        -------
        Responses

        Raises
        ------
        ResponseError
            At the first cell that is neither, and for names that stand twice.
        """
        subjects, items = [str(s) for s in frame.index], [str(i) for i in frame.columns]
        _check_names(subjects, "subject")
        _check_names(items, "item")
        values = frame.to_numpy(object)
        seen = ~(pd.isna(values) | np.isin(values.astype(str), ["", "NA"]))
        subject, item = np.nonzero(seen)
        columns = {"subject": subject, "item": item, "score": values[seen]}
        return cls._from_codes(pd.DataFrame(columns), subjects, items, threshold=threshold)

    @classmethod
    def from_long(
        cls,
        frame: pd.DataFrame,
        *,
        subject: str = "subject",
        item: str = "item",
        score: str = "score",
        trials: str | None = None,
        latency: str | None = None,
        item_metadata: Sequence[str] = (),
        duplicates: str = "error",
        threshold: float | None = None,
    ) -> "Responses":
        """Take a table with one row a response.

        Parameters
        ----------
        frame : DataFrame
        subject, item, score : str
            Columns that hold the names and the score (0, 1, or successes out of `trials`).
        trials : str, optional
            Column of the numbers of trials; 0 means not observed.
        latency : str, optional
            Column of response lengths or times; missing and zero values are left out.
        item_metadata : sequence of str, optional
            Columns that describe the item; each must be constant within an item.
        duplicates : {"error", "trials", "first", "last"}
            What rows with the same subject and item are: a mistake, repeated trials, or
            corrections of which the first or the last counts.
        threshold : float, optional
            Scores at or above it count as right.

        Returns
        -------
        Responses

        Raises
        ------
        ResponseError
            For unknown columns, bad values, and pairs that stand twice.
        """
        wanted = [c for c in (subject, item, score, trials, latency, *item_metadata) if c]
        unknown = [c for c in wanted if c not in frame.columns]
        if unknown:
            raise ResponseError(
                f"no column `{one_line(unknown[0])}`; the columns are "
                f"{', '.join(one_line(str(c)) for c in frame.columns[:20])}"
            )
        frame = frame[list(dict.fromkeys(wanted))]
        subject_code, subjects = _encode(frame[subject], "subject")
        item_code, items = _encode(frame[item], "item")
        metadata = _constant_columns(frame, item_code, items, item_metadata)
        rows = frame.drop(columns=[subject, item]).assign(
            **{"subject": subject_code, "item": item_code}
        )
        return cls._from_codes(
            rows,
            subjects,
            items,
            score=score,
            trials=trials,
            latency=latency,
            threshold=threshold,
            duplicates=duplicates,
            item_metadata=metadata,
        )

    @classmethod
    def _from_codes(
        cls,
        rows: pd.DataFrame,
        subjects: Sequence[str],
        items: Sequence[str],
        *,
        score: str = "score",
        trials: str | None = None,
        latency: str | None = None,
        threshold: float | None = None,
        duplicates: str = "error",
        item_metadata: pd.DataFrame | None = None,
    ) -> "Responses":
        """Check values, fold duplicates and store the cells; names are positions by now."""
        subject, item = rows["subject"].to_numpy(), rows["item"].to_numpy()

        def where(row: int) -> str:
            names = one_line(subjects[subject[row]]), one_line(items[item[row]])
            return f"at subject {names[0]!r}, item {names[1]!r}"

        trials = trials or ("trials" if "trials" in rows else None)
        scores = parse_numbers(rows[score], score, where)
        if trials is None:
            y, n = binary_counts(scores, score, threshold, where)
        else:
            y, n = repeated_counts(scores, parse_numbers(rows[trials], trials, where), score, where)
        x = None if latency is None else _parse_latency(rows[latency], latency, where)
        cells = pd.DataFrame({"subject": subject, "item": item, "y": y, "n": n})
        cells["x"] = np.nan if x is None else x
        cells = _fold_duplicates(cells[cells["n"] > 0], duplicates, where)
        _check_observed(cells, subjects, items)
        shape = len(subjects), len(items)
        columns = (cells[c].to_numpy() for c in ("subject", "item", "y", "n"))
        return cls(
            tuple(subjects),
            tuple(items),
            store_cells(shape, *columns),
            latency=None if latency is None else cells["x"].to_numpy(),
            item_metadata=pd.DataFrame() if item_metadata is None else item_metadata,
        )

    def to_long(self) -> pd.DataFrame:
        """Return one row an observed cell, as `from_long` takes it.

        Returns
        -------
        DataFrame
            Columns subject, item, successes, trials, latency where there is one, and the item's
            metadata.
        """
        subject, item, successes, trials = self.cells.listed()
        columns: dict[Hashable, object] = {
            "subject": np.asarray(self.subjects, object)[subject],
            "item": np.asarray(self.items, object)[item],
            "successes": successes,
            "trials": trials,
        }
        if self.latency is not None:
            columns["latency"] = self.latency
        for name, values in self.item_metadata.items():
            columns[name] = values.to_numpy()[item]
        return pd.DataFrame(columns)

    def components(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Return the groups of subjects and items that responses connect, largest first.

        Abilities of different groups have no scale in common and cannot be compared.

        Returns
        -------
        list of (subject positions, item positions)
        """
        cells, n = self.cells.listed(), self.n_subjects
        edges = (np.ones(len(cells.item), np.int8), (cells.subject, cells.item + n))
        size = n + self.n_items
        count, label = connected_components(coo_array(edges, shape=(size, size)), directed=False)
        groups = [
            (np.flatnonzero(label[:n] == k), np.flatnonzero(label[n:] == k)) for k in range(count)
        ]
        return sorted(groups, key=lambda group: -len(group[0]))

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
            If what is left is too small.
        """
        cells = self.cells.listed()
        new_subject = _positions(subjects, self.n_subjects)[cells.subject]
        new_item = _positions(items, self.n_items)[cells.item]
        kept = np.flatnonzero((new_subject >= 0) & (new_item >= 0))
        kept = kept[np.lexsort((new_item[kept], new_subject[kept]))]
        return Responses(
            tuple(self.subjects[i] for i in subjects),
            tuple(self.items[j] for j in items),
            store_cells(
                (len(subjects), len(items)),
                new_subject[kept],
                new_item[kept],
                cells.successes[kept],
                cells.trials[kept],
            ),
            latency=None if self.latency is None else self.latency[kept],
            item_metadata=self.item_metadata.iloc[items],
            q_matrix=None if self.q_matrix is None else self.q_matrix.iloc[items],
        )


def _check_names(names: Sequence[str], kind: str) -> None:
    seen = set(names)
    if "" in seen:
        raise ResponseError(f"a {kind} has an empty name; give each {kind} a name")
    broken = next((n for n in names if "\0" in n or not _is_unicode(n)), None)
    if broken is not None:
        raise ResponseError(f"{kind} {one_line(broken)!r} is not valid text; rename it")
    if len(seen) < len(names):
        counts = pd.Series(list(names), dtype=object).value_counts()
        name = one_line(str(counts.index[0]))
        raise ResponseError(
            f"{kind} {name!r} stands {counts.iloc[0]} times; rename or drop all but one"
        )


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_size(subjects: Sequence[str], items: Sequence[str], cells: Cells) -> None:
    for kind, names in (("subject", subjects), ("item", items)):
        if len(names) < 2:
            raise ResponseError(
                f"a ranking needs at least 2 {kind}s, got {len(names)}; add responses of more "
                f"{kind}s"
            )
    if cells.shape != (len(subjects), len(items)):
        raise ResponseError(
            f"{len(subjects)} subjects x {len(items)} items are named, the data are {cells.shape}"
        )


def _check_observed(cells: pd.DataFrame, subjects: Sequence[str], items: Sequence[str]) -> None:
    for kind, names in (("subject", subjects), ("item", items)):
        missing = np.bincount(cells[kind].to_numpy(np.intp), minlength=len(names)) == 0
        if missing.any():
            name = one_line(names[int(np.argmax(missing))])
            raise ResponseError(
                f"{kind} {name!r} has no response at all ({missing.sum()} such {kind}s); leave "
                f"it out"
            )


def _default_names(names: Sequence[str] | None, kind: str, n: int) -> list[str]:
    if names is None:
        return [f"{kind} {k}" for k in range(1, n + 1)]
    if len(names) != n:
        raise ResponseError(f"{n} {kind}s in the data, {len(names)} names")
    return [str(name) for name in names]


def _encode(names: pd.Series, kind: str) -> tuple[NDArray[np.intp], list[str]]:
    missing = names.isna().to_numpy()
    if missing.any():
        raise ResponseError(f"the {kind}'s name is missing in row {int(np.argmax(missing)) + 1}")
    codes, unique = pd.factorize(names.astype(str))
    return codes, [str(name) for name in unique]


def _constant_columns(
    frame: pd.DataFrame, item_code: NDArray[np.intp], items: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame | None:
    if not columns:
        return None
    described = frame[list(columns)].assign(_item=item_code)
    for column in columns:
        varying = described.groupby("_item")[column].nunique(dropna=False) > 1
        if varying.any():
            name = one_line(items[int(varying.index[varying][0])])
            raise ResponseError(
                f"`{column}` differs between the rows of item {name!r}; leave the column out or "
                f"make the item's name tell them apart"
            )
    first = described.drop_duplicates("_item").sort_values("_item").drop(columns="_item")
    return first.set_axis(list(items), axis=0)


def _parse_latency(values: pd.Series, column: str, where: Where) -> NDArray[np.float64]:
    text = values.astype(object)
    missing = (text.isna() | text.map(lambda v: str(v).strip().lower() in {"", "na", "nan"})).to_numpy()
    parsed = np.full(len(values), np.nan)
    observed = np.flatnonzero(~missing)
    parsed[observed] = parse_numbers(
        values.iloc[observed], column, lambda k: where(int(observed[k]))
    )
    if (parsed < 0).any():
        row = int(np.argmax(parsed < 0))
        raise ResponseError(f"`{column}` must not be negative, got {parsed[row]:g} {where(row)}")
    return np.where(parsed == 0, np.nan, parsed)


def _fold_duplicates(cells: pd.DataFrame, rule: str, where: Where) -> pd.DataFrame:
    if rule not in DUPLICATE_RULES:
        raise ResponseError(f"`duplicates` must be one of {', '.join(DUPLICATE_RULES)}")
    pair = ["subject", "item"]
    again = cells.duplicated(pair).to_numpy()
    if again.any():
        if rule == "error":
            raise ResponseError(
                f"{int(again.sum())} rows repeat a subject and item, the first "
                f"{where(int(cells.index[int(np.argmax(again))]))}; pass --duplicates trials if "
                f"they are repeated trials, or first or last to keep one"
            )
        if rule == "trials":
            grouped = cells.groupby(pair, as_index=False)
            cells = grouped.agg({"y": "sum", "n": "sum", "x": "mean"})
        else:
            cells = cells.drop_duplicates(pair, keep="first" if rule == "first" else "last")
    return cells.sort_values(pair, kind="stable", ignore_index=True)


def _positions(kept: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    positions = np.full(n, -1, np.intp)
    positions[kept] = np.arange(len(kept))
    return positions
