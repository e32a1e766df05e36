"""Every picture of a ranking's report, by name."""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from matplotlib.figure import Figure

from bayesirt.data.whole_file import write_whole
from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.ranking.finished_run import Run
from bayesirt.report.fit_plots import plot_calibration, plot_levels, plot_totals
from bayesirt.report.page import svg
from bayesirt.report.plots import plot_abilities, plot_items, plot_rank_probabilities, plot_speeds
from bayesirt.report.ranking_plots import (
    plot_clusters,
    plot_comparison,
    plot_difficulty,
    plot_information,
    plot_pairwise,
    plot_price,
    plot_rank_flow,
    plot_repeats,
)

_Part = TypeVar("_Part")
_FORMATS, _DPI = ("svg", "pdf", "png"), 200
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Picture:
    """A picture, and the runs that have it."""

    title: str
    draw: Callable[[Run], Figure]
    belongs_to: Callable[[Run], bool] = lambda _: True
    of_fit: bool = False  # Whether it shows a fit check, which is made on demand.


def _priced(price: str) -> Picture:
    def known(run: Run) -> bool:
        table = run.ranking.summary
        return price in table and bool((table[price] > 0).any())

    return Picture(
        f"Expected score against {price}", lambda run: plot_price(run.ranking, price), known
    )


def _there(part: _Part | None) -> _Part:
    """Return a part of a run, which `belongs_to` has found to exist."""
    assert part is not None
    return part


PICTURES = {
    "abilities": Picture(
        "Abilities with their 90% intervals", lambda run: plot_abilities(run.ranking)
    ),
    "ranks": Picture(
        "Probability of each rank",
        lambda run: plot_rank_probabilities(run.ranking),
        lambda run: run.ranking.sound,
    ),
    "pairs": Picture(
        "Probability that row is above column", lambda run: plot_pairwise(run.ranking)
    ),
    "flow": Picture("Ranks by mean score and by ability", lambda run: plot_rank_flow(run.ranking)),
    "items": Picture("Item difficulty against discrimination", lambda run: plot_items(run.items)),
    "information": Picture(
        "Standard error by ability", lambda run: plot_information(run.posterior)
    ),
    "estimates": Picture(
        "Point estimates against posterior means", lambda run: plot_comparison(run.comparison)
    ),
    "length": _priced("length"),
    "cost": _priced("cost"),
    "speeds": Picture(
        "Ability against speed",
        lambda run: plot_speeds(run.ranking),
        lambda run: run.posterior.has_speeds,
    ),
    "clusters": Picture(
        "Abilities of clusters",
        lambda run: plot_clusters(_there(run.clusters), run.ranking),
        lambda run: run.clusters is not None,
    ),
    "difficulty": Picture(
        "What makes questions hard",
        lambda run: plot_difficulty(_there(run.difficulty)),
        lambda run: run.difficulty is not None,
    ),
    "repeats": Picture(
        "Results over several runs",
        lambda run: plot_repeats(_there(run.repeats), run.ranking),
        lambda run: run.repeats is not None,
    ),
    "calibration": Picture(
        "Proportion correct against predicted probability",
        lambda run: plot_calibration(_there(run.fit)),
        of_fit=True,
    ),
    "totals": Picture(
        "Proportions correct of subjects and items",
        lambda run: plot_totals(_there(run.fit)),
        of_fit=True,
    ),
    "levels": Picture(
        "Shares of answers that reach each grade, by ability",
        lambda run: plot_levels(run.posterior),
        lambda run: run.posterior.answers is not None,
    ),
}
"""In the order of the report."""


def in_report(run: Run, name: str) -> str:
    """Return a picture as SVG with its title, or an empty string if the run lacks it."""
    picture = PICTURES[name]
    if not picture.belongs_to(run):
        return ""
    return svg(picture.draw(run), title_of(run, name))


def title_of(run: Run, name: str) -> str:
    """Return a picture's title."""
    return PICTURES[name].title.replace("mean score", run.ranking.score)


def pictures_of(run: Run) -> list[str]:
    """Return the names of the pictures that a run has."""
    return [name for name, picture in PICTURES.items() if picture.belongs_to(run)]


def write_picture(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's suffix names."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _FORMATS:
        raise ResponseError(
            f"{one_line(str(path), 200)} must end in one of .{', .'.join(_FORMATS)}; rename it"
        )
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=_DPI, metadata=_UNDATED.get(kind))
    write_whole(path, buffer.getvalue())


def plot_run(run: Run, picture: str = "abilities") -> Figure:
    """Draw a picture of a ranking, as in its report.

    Parameters
    ----------
    run : Run
        From `rank` or `open_run`.
    picture : str
        One of `PICTURES`; not every run has all of them.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ResponseError
        If there is no such picture, or the run has nothing to show in it.

    Examples
    --------
    >>> import bayesirt
    >>> run = bayesirt.open_run("run")  # doctest: +SKIP
    >>> bayesirt.plot_run(run, "flow").savefig("flow.pdf")  # doctest: +SKIP
    """
    if picture not in PICTURES:
        near = get_close_matches(picture, PICTURES, 1)
        hint = f"did you mean {near[0]}?" if near else f"take one of {', '.join(pictures_of(run))}"
        raise ResponseError(f"there is no picture {one_line(picture)!r}; {hint}")
    if not PICTURES[picture].belongs_to(run):
        raise ResponseError(
            f"this run has nothing to show in {picture}; take one of {', '.join(pictures_of(run))}"
        )
    if PICTURES[picture].of_fit and run.fit is None:
        checked = run.with_fit()
        if checked.fit is None:
            raise ResponseError(str(checked.record.diagnostics["fit"]).removesuffix("."))
        run = replace(run, fit=checked.fit)
    return PICTURES[picture].draw(run)
