"""The report of a ranking."""

from bayesirt.plots import plot_abilities, plot_items, plot_rank_probabilities, plot_speeds
from bayesirt.report.page import render_page, svg
from bayesirt.run import Run


def render_report(run: Run) -> str:
    """Return the report of a run.

    Parameters
    ----------
    run : Run

    Returns
    -------
    str
        A whole HTML document.
    """
    ranking, items = run.ranking, run.items
    return render_page(
        "report.html.j2",
        run=run,
        verdict=run.posterior.verdict,
        rows=ranking.summary.to_dict("records"),
        flagged=items[items["flag"] != ""].to_dict("records"),
        abilities=svg(plot_abilities(ranking), "Abilities with their 90% intervals"),
        probabilities=svg(plot_rank_probabilities(ranking), "Probability of each rank"),
        speeds=svg(plot_speeds(ranking), "Ability against speed") if run.gain else "",
        item_map=svg(plot_items(items), "Item difficulty against discrimination"),
    )
