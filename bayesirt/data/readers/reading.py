"""Options for how results are read, in one place."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bayesirt.data.scales import Scale, scale_given

TOPIC = "topic"
_ROLES = ("subject", "item", "score", "trials", "latency")


@dataclass(frozen=True)
class Reading:
    """Options of `read_responses`."""

    subject: str | None = None
    item: str | None = None
    score: str | None = None
    trials: str | None = None
    latency: str | None = None
    items_in: str | None = None
    duplicates: str = "error"
    threshold: float | None = None
    # Kind of scores, ordered grades and full score, unless they are to be detected.
    kind: str | None = None
    order: tuple[str, ...] = ()
    full: float | None = None
    metric: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()
    skip_damaged: bool = False
    out_of_core: bool | None = None
    # A column of a long table, or a file that names each subject's cluster.
    cluster: str | None = None
    # A column of a long table, or a file with the cost of each subject's answers.
    cost: str | None = None
    # Columns that vary between answers to one item, such as their judge.
    facet: tuple[str, ...] = ()
    # Columns with the parts of a subject, such as its LLM and its scaffold.
    factors: tuple[str, ...] = ()
    # Files that describe items or subjects, one row each.
    item_table: str | None = None
    subject_table: str | None = None
    # Columns that describe items, besides those that are detected by name.
    describing: tuple[str, ...] = ()
    # Columns that describe subjects.
    of_subjects: tuple[str, ...] = ()
    # A column that describes items, or a file that names each item's topic.
    by: str | None = None

    def __post_init__(self) -> None:
        """Convert single names and other sequences to tuples."""
        for name in ("order", "metric", "filter", "facet", "factors", "describing", "of_subjects"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        parted = tuple(name.strip() for given in self.factors for name in given.split(","))
        object.__setattr__(self, "factors", parted)

    def with_columns(self, of_items: Iterable[str], of_subjects: Iterable[str]) -> "Reading":
        """Return these options with more columns that describe items and subjects."""
        return replace(
            self,
            describing=(*self.describing, *of_items),
            of_subjects=(*self.of_subjects, *of_subjects),
        )

    @property
    def named(self) -> dict[str, str | None]:
        """Columns by role, None for those to be detected."""
        return {role: getattr(self, role) for role in _ROLES}

    @property
    def columns(self) -> dict[str, str | None]:
        """The named columns, and those of costs and topics, by role."""
        return {**self.named, "cost": self.cost_column, "by": self.topic_column}

    @property
    def scale(self) -> Scale | None:
        """Scale that the options ask for, if any."""
        return scale_given(self.kind, self.order, self.full)

    @property
    def given(self) -> dict[str, Any]:
        """Options that differ from their defaults, by name."""
        options = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return {name: value for name, value, default in options if value != default}

    @property
    def cluster_file(self) -> Path | None:
        """The file that names each subject's cluster, if `cluster` is a file."""
        return _file(self.cluster)

    @property
    def cost_file(self) -> Path | None:
        """The file with the cost of each subject's answers, if `cost` is a file."""
        return _file(self.cost)

    @property
    def cluster_column(self) -> str | None:
        """The column of each subject's cluster, if `cluster` is not a file."""
        return _column(self.cluster)

    @property
    def cost_column(self) -> str | None:
        """The column with the cost of each answer, if `cost` is not a file."""
        return _column(self.cost)

    @property
    def topic_file(self) -> Path | None:
        """The file that names each item's topic, if `by` is a file."""
        return _file(self.by)

    @property
    def topic_column(self) -> str | None:
        """The column of each item's topic: in the results, or added from a file."""
        return TOPIC if self.topic_file else self.by or None

    @property
    def wanted(self) -> tuple[str, ...]:
        """Columns of a long table that must describe its items."""
        columns = () if self.item_table else self.describing
        by = () if self.topic_file else filter(None, [self.topic_column])
        return tuple(dict.fromkeys((*columns, *by)))

    @property
    def described_subjects(self) -> tuple[str, ...]:
        """Columns of a long table that must describe its subjects."""
        return tuple(dict.fromkeys((*self.factors, *self.of_subjects)))

    @property
    def of_table(self) -> str:
        """The first given option that applies only to tables, or an empty string."""
        options: dict[str, object] = {f"--{role}": x for role, x in self.named.items()}
        return _first({"--items-in": self.items_in, "out_of_core": self.out_of_core, **options})

    @property
    def of_logs(self) -> str:
        """The first given option that applies only to logs, or an empty string."""
        options = {"--metric": self.metric, "--filter": self.filter}
        return _first({**options, "--skip-damaged": self.skip_damaged})


def _file(given: str | None) -> Path | None:
    """Return the path of a given file, or None if it is not one."""
    return Path(given) if given and os.path.isfile(given) else None


def _column(given: str | None) -> str | None:
    """Return the name of a given column, or None if it is a file."""
    return None if _file(given) else given or None


def _first(given: Mapping[str, object]) -> str:
    return next((option for option, value in given.items() if value), "")
