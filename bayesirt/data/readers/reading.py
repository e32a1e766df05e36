"""How results are to be read: all that a reader may be told, in one place."""

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
    """How results are to be read: what `read_responses` may be told."""

    subject: str | None = None
    item: str | None = None
    score: str | None = None
    trials: str | None = None
    latency: str | None = None
    items_in: str | None = None
    duplicates: str = "error"
    threshold: float | None = None
    # What scores are, where that is not to be found: a kind, grades in their order, a full score.
    kind: str | None = None
    order: tuple[str, ...] = ()
    full: float | None = None
    metric: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()
    skip_damaged: bool = False
    out_of_core: bool | None = None
    # A column of a long table, or a file that names each subject's cluster.
    cluster: str | None = None
    # A column of a long table, or a file that names what each subject's answers cost.
    cost: str | None = None
    # Columns that differ between answers to one item, such as their judge.
    facet: tuple[str, ...] = ()
    # Columns of what subjects are made of, such as their LLM and their scaffold.
    factors: tuple[str, ...] = ()
    # Files that describe items or subjects, one row each.
    item_table: str | None = None
    subject_table: str | None = None
    # Columns that describe items, beside those that are found by their names.
    describing: tuple[str, ...] = ()
    # Columns that describe subjects.
    of_subjects: tuple[str, ...] = ()
    # A column that describes items, or a file that names each item's topic.
    by: str | None = None

    def __post_init__(self) -> None:
        """Take one name for a tuple of it, and any other sequence for a tuple."""
        for name in ("order", "metric", "filter", "facet", "factors", "describing", "of_subjects"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        parted = tuple(name.strip() for given in self.factors for name in given.split(","))
        object.__setattr__(self, "factors", parted)

    def with_columns(self, of_items: Iterable[str], of_subjects: Iterable[str]) -> "Reading":
        """Return it with more columns that describe items, and subjects."""
        return replace(
            self,
            describing=(*self.describing, *of_items),
            of_subjects=(*self.of_subjects, *of_subjects),
        )

    @property
    def named(self) -> dict[str, str | None]:
        """Columns by their role, None for those that are to be found."""
        return {role: getattr(self, role) for role in _ROLES}

    @property
    def columns(self) -> dict[str, str | None]:
        """Those, the column of costs, and the one of topics, which is no other."""
        return {**self.named, "cost": self.cost_column, "by": self.topic_column}

    @property
    def scale(self) -> Scale | None:
        """What scores are said to be, if anything is said."""
        return scale_given(self.kind, self.order, self.full)

    @property
    def given(self) -> dict[str, Any]:
        """The options that are not as they are by themselves, by name."""
        own = ((option.name, getattr(self, option.name), option.default) for option in fields(self))
        return {name: value for name, value, default in own if value != default}

    @property
    def cluster_file(self) -> Path | None:
        """The file that names each subject's cluster, if that is what was given."""
        return _file(self.cluster)

    @property
    def cost_file(self) -> Path | None:
        """The file that names what each subject's answers cost, if that is what was given."""
        return _file(self.cost)

    @property
    def cluster_column(self) -> str | None:
        """The column of each subject's cluster, if that is what was given."""
        return _column(self.cluster)

    @property
    def cost_column(self) -> str | None:
        """The column of what an answer cost, if that is what was given."""
        return _column(self.cost)

    @property
    def topic_file(self) -> Path | None:
        """The file that names each item's topic, if that is what was given."""
        return _file(self.by)

    @property
    def topic_column(self) -> str | None:
        """The column of each item's topic: of the results, or what a file's becomes."""
        return TOPIC if self.topic_file else self.by or None

    @property
    def wanted(self) -> tuple[str, ...]:
        """Columns of a long table that must describe its items."""
        own = () if self.item_table else self.describing
        by = () if self.topic_file else filter(None, [self.topic_column])
        return tuple(dict.fromkeys((*own, *by)))

    @property
    def described_subjects(self) -> tuple[str, ...]:
        """Columns of a long table that must describe its subjects."""
        return tuple(dict.fromkeys((*self.factors, *self.of_subjects)))

    @property
    def of_table(self) -> str:
        """The first option given that only tables know, or nothing."""
        options: dict[str, object] = {f"--{role}": x for role, x in self.named.items()}
        return _first({"--items-in": self.items_in, "out_of_core": self.out_of_core, **options})

    @property
    def of_logs(self) -> str:
        """The first option given that only logs know, or nothing."""
        options = {"--metric": self.metric, "--filter": self.filter}
        return _first({**options, "--skip-damaged": self.skip_damaged})


def _file(given: str | None) -> Path | None:
    """Return what was given if it is a file."""
    return Path(given) if given and os.path.isfile(given) else None


def _column(given: str | None) -> str | None:
    """Return what was given if it is not a file, and so a column."""
    return None if _file(given) else given or None


def _first(given: Mapping[str, object]) -> str:
    return next((option for option, value in given.items() if value), "")
