"""A methods paragraph for a paper, with the BibTeX entries of what it cites."""

import re
from dataclasses import dataclass
from importlib.resources import files

from bayesirt import __version__
from bayesirt.ranking.finished_run import Run
from bayesirt.report.methods import methods_of

_ENTRIES = "references.bib"
_SURNAME = re.compile(r"author = \{\{?(.+?)[,}]")
_YEAR = re.compile(r"year = \{(\d{4})\}")
_OPENINGS = {
    "Point estimate": "Sampling started from a point estimate: ",
    "Posterior": "The posterior is drawn by: ",
    "Fit": "The model's fit is checked: ",
    "Prediction": "Models are compared by ",
}
"""Openings for what the report states as a phrase; the rest are whole sentences already."""
_TOLD = ("Model", "Point estimate", "Posterior", "Ranks", "Fit", "Prediction")


@dataclass(frozen=True)
class Citation:
    """A description of how a ranking was made, with citations."""

    text: str  # A paragraph.
    bibtex: str  # The package and everything that the paragraph cites.

    def __str__(self) -> str:
        return f"{self.text}\n\n{self.bibtex}"


def cite(run: Run) -> Citation:
    """Return a methods paragraph on a ranking, with BibTeX.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Citation
    """
    data, settings = run.record.data, run.record.settings
    versions = dict(run.record.versions)
    this_version = versions.pop("bayesirt", __version__)
    others = ", ".join(f"{name} {version}" for name, version in versions.items())
    sentences = [
        f"{data.subjects:,} subjects were ranked on {data.responses:,} responses to "
        f"{data.items:,} items with bayesirt {this_version} ({others}; seed {settings.seed}).",
        *(_OPENINGS.get(title, "") + text for title, text in methods_of(run) if title in _TOLD),
        run.posterior.verdict.to_text(),
        "Intervals contain 90% of the posterior probability.",
    ]
    text = " ".join(sentences)
    return Citation(text, "\n\n".join([_of_package(this_version), *cited_in(text)]))


def cited_in(text: str) -> list[str]:
    """Return the BibTeX entries that a text cites by first author and year.

    >>> len(cited_in("After Lord and Novick (1968)."))
    1
    """
    entries = files("bayesirt.report").joinpath(_ENTRIES).read_text("utf-8").strip().split("\n\n")
    return [entry for entry in entries if _names(entry).search(text)]


def _names(entry: str) -> re.Pattern[str]:
    """Return the pattern of an entry's citation: first author, perhaps others, and year."""
    surname, year = _SURNAME.search(entry), _YEAR.search(entry)
    assert surname is not None
    assert year is not None
    return re.compile(rf"\b{re.escape(surname[1])}\b[\w\s,-]*\(?{year[1]}")


def _of_package(version: str) -> str:
    return (
        "@software{bayesirt, author = {{The bayesirt developers}}, title = {bayesirt: ranking "
        f"language models with honest uncertainty}}, version = {{{version}}}, "
        "year = {2026}}"
    )
