"""The result of an annotation: which abilities items need, according to an LLM or people."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.readers.q_matrix import read_q_matrix
from bayesirt.data.readers.tables import read_text
from bayesirt.data.whole_file import write_whole
from bayesirt.errors import ResponseError
from bayesirt.names import first_few, one_line

_SHOWN = 3


class Failure(NamedTuple):
    """An item for which a stage got no usable answer."""

    item: str
    stage: str  # "pool", "taxonomy" or "mapping": where abilities are proposed, merged or named.
    reason: str  # What was wrong with the last answer.


@dataclass(frozen=True, eq=False, repr=False)
class Annotation:
    """Which abilities items need, and which items could not be annotated.

    Attributes
    ----------
    needs : mapping of tuple of str
        From an annotated item to the abilities that it needs.
    abilities : mapping of str
        From an ability's name to its definition, including abilities that no item needs.
    failures : tuple of Failure
        Failures with reasons. An item that failed only in stage ``pool`` may still be annotated.
    pool : mapping of int
        From a proposed ability to the number of items it was proposed for; empty if the abilities
        were given.
    cut : tuple of str
        Items whose text was too long and was shown in part.
    n_asked, n_known : int
        Numbers of questions that were asked, and of questions already answered in the journal.
    """

    needs: Mapping[str, tuple[str, ...]]
    abilities: Mapping[str, str]
    failures: tuple[Failure, ...] = ()
    pool: Mapping[str, int] = field(default_factory=dict)
    cut: tuple[str, ...] = ()
    n_asked: int = 0
    n_known: int = 0

    def __repr__(self) -> str:
        return f"<Annotation: {self.to_text()}>"

    @property
    def q_matrix(self) -> QMatrix:
        """The Q-matrix of the annotated items, without the abilities that none of them needs.

        Raises
        ------
        ResponseError
            If no item is annotated.
        """
        if not self.needs:
            reason = f": {self.failures[0].reason}" if self.failures else ""
            raise ResponseError(f"no item is annotated{reason}; see `failures`, and annotate again")
        needed = {ability for row in self.needs.values() for ability in row}
        abilities = tuple(name for name in self.abilities if name in needed)
        rows = [[ability in row for ability in abilities] for row in self.needs.values()]
        return QMatrix(tuple(self.needs), abilities, np.array(rows, bool))

    @property
    def failed(self) -> dict[str, str]:
        """Reasons why items are not annotated, by item."""
        return {f.item: f.reason for f in self.failures if f.item not in self.needs}

    def to_text(self) -> str:
        """Return in words what was annotated and what was not."""
        n_items, counts = len(self.needs) + len(self.failed), [len(r) for r in self.needs.values()]
        needed = {ability for row in self.needs.values() for ability in row}
        each = f" ({min(counts)} to {max(counts)} per item)" if counts else ""
        sentences = [
            f"{len(self.needs):,} of {n_items:,} items annotated with {len(needed)} of "
            f"{len(self.abilities)} abilities{each}; {self.n_asked:,} questions asked, "
            f"{self.n_known:,} answered in the journal."
        ]
        if self.failed:
            shown = [f"{_shown(item)} ({reason})" for item, reason in self.failed.items()]
            sentences.append(f"Not annotated: {first_few(shown, _SHOWN)}.")
        unproposed = [_shown(f.item) for f in self.failures if f.stage == "pool"]
        if unproposed:
            sentences.append(f"No abilities were proposed for {first_few(unproposed, _SHOWN)}.")
        unneeded = [_shown(name) for name in self.abilities if name not in needed]
        if self.needs and unneeded:
            sentences.append(f"No item needs {first_few(unneeded, _SHOWN)}.")
        if self.cut:
            cut = first_few([_shown(item) for item in self.cut], _SHOWN)
            sentences.append(f"Too long and shown only in part: {cut}.")
        return " ".join(sentences)

    def save(self, path: str | Path) -> None:
        """Write a JSON file that `load` and `bayesirt.read_q_matrix` read.

        Parameters
        ----------
        path : str or Path
            Path ending in ``.json``. The file is written completely or not at all.

        Raises
        ------
        ResponseError
            If no item is annotated, or the file cannot be written.
        """
        path = Path(path)
        if path.suffix.lower() != ".json":
            raise ResponseError(f"{one_line(path.name)} must end in .json, as it holds JSON")
        content = {
            "abilities": self.q_matrix.abilities,
            "items": {item: list(row) for item, row in self.needs.items()},
            "definitions": dict(self.abilities),
            "failures": [failure._asdict() for failure in self.failures],
            "pool": dict(self.pool),
            "cut": self.cut,
        }
        write_whole(path, json.dumps(content, indent=1).encode())

    @classmethod
    def load(cls, path: str | Path) -> "Annotation":
        """Read an annotation that `save` wrote.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Annotation
            Annotation without counts of questions.

        Raises
        ------
        ResponseError
            If `save` did not write the file.
        """
        q = read_q_matrix(path)
        content = json.loads(read_text(Path(path)))
        needs = {
            item: tuple(q.abilities[k] for k in np.flatnonzero(row))
            for item, row in zip(q.items, q.needs, strict=True)
        }
        try:
            definitions = {name: str(text) for name, text in content["definitions"].items()}
            if not definitions.keys() >= set(q.abilities):
                raise KeyError
            failures = tuple(Failure(**failure) for failure in content["failures"])
            return cls(needs, definitions, failures, dict(content["pool"]), tuple(content["cut"]))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ResponseError(
                f"{one_line(Path(path).name)} is a Q-matrix but not a saved annotation; name a "
                f"file that Annotation.save wrote"
            ) from None


def _shown(name: str) -> str:
    return repr(one_line(name, 30))
