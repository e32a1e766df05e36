"""From any results to a ranking in one call."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayesirt.data.readers.frames import Frame
from bayesirt.data.readers.reading import Reading
from bayesirt.data.readers.recognise import read_responses
from bayesirt.data.responses import Responses
from bayesirt.data.topics import items_by_topic
from bayesirt.ranking.by_topic import with_topics
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.record import facts_of
from bayesirt.ranking.run import rank_responses
from bayesirt.ranking.settings import Settings


def rank(
    results: str | Path | Frame | Responses,
    settings: Settings | None = None,
    *,
    by: str | None = None,
    facet: str | Sequence[str] = (),
    check_fit: bool = True,
    progress: bool = False,
    **reading: Any,
) -> Run:
    """Rank subjects by ability, as ``bayesirt rank`` does.

    Parameters
    ----------
    results : str, Path, DataFrame or Responses
        What `read_responses` takes: a table of pandas, polars, pyarrow or DuckDB, rows as
        dictionaries, a file, or logs of a harness.
    settings : Settings, optional
        The model, its priors, the engine, the seed and so on.
    by : str, optional
        A column that describes items, such as their topic, or a file with the columns ``item`` and
        ``topic``: subjects are also ranked by each topic.
    facet : str or sequence of str
        Columns that differ between answers to one question, such as the judge who graded them: the
        harshness of each level is estimated, and abilities are those at an average level.
    check_fit : bool
        Check whether the model fits, which may take as long as the ranking.
    progress : bool
        Show progress bars, if stderr is a terminal.
    **reading
        Options of `read_responses`, such as ``subject="llm"`` or ``kind="graded"``.

    Returns
    -------
    Run
        With `ranking`, `items`, `posterior` and `point`, and `topics` if `by` was given;
        `save_run` writes it with a report.

    Raises
    ------
    ResponseError
        If the results cannot be read or ranked; the message says why in one sentence.

    Examples
    --------
    >>> import bayesirt, pandas as pd
    >>> answers = pd.read_csv(bayesirt.example_path())
    >>> run = bayesirt.rank(answers)  # doctest: +SKIP
    >>> run.ranking.summary.head()  # doctest: +SKIP
    """
    spec, settings = Reading(**reading | {"by": by, "facet": facet}), settings or Settings()
    if isinstance(results, Responses):
        if reading:
            raise TypeError(f"responses have been read already; leave out {', '.join(reading)}")
        responses, source = results, None
    else:
        spec = spec.with_columns(*settings.described)
        responses = read_responses(results, **spec.given)
        source = Path(results) if isinstance(results, str | Path) else None
    column = spec.topic_column
    if column:
        items_by_topic(responses, column)  # refuses unsuitable columns before the work
    settings = settings.explained(responses, spec.facet, spec.factors)
    data = facts_of(responses, source, spec.given)
    run = rank_responses(responses, settings, data=data, check_fit=check_fit, progress=progress)
    if column:
        run = with_topics(run, responses, column)
    return run.with_fit(progress=progress) if check_fit and run.posterior.complete else run
