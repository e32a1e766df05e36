"""A run as one HTML file: no network, no script but its own, every name escaped."""

import base64
import hashlib
import io
import re
import warnings
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.figure import Figure

from bayesirt.names import one_line
from bayesirt.plots import plot_abilities, plot_items, plot_rank_probabilities, plot_speeds
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
    here = files("bayesirt.report")
    script = here.joinpath("sort_table.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["one_line"] = one_line
    template = environment.from_string(here.joinpath("report.html.j2").read_text("utf-8"))
    ranking, items = run.ranking, run.items
    return template.render(
        run=run,
        style=Markup(here.joinpath("report.css").read_text("utf-8")),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        verdict=run.posterior.verdict,
        rows=ranking.summary.to_dict("records"),
        flagged=items[items["flag"] != ""].to_dict("records"),
        abilities=_svg(plot_abilities(ranking), "Abilities with their 90% intervals"),
        probabilities=_svg(plot_rank_probabilities(ranking), "Probability of each rank"),
        speeds=_svg(plot_speeds(ranking), "Ability against speed") if run.gain else "",
        item_map=_svg(plot_items(items), "Item difficulty against discrimination"),
    )


def _svg(figure: Figure, title: str) -> Markup:
    """Return a figure as inline SVG whose text is text, with a title for screen readers."""
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    picture = buffer.getvalue()
    picture = picture[picture.index("<svg") :]
    label = escape(title)
    picture = re.sub(r'(width|height)="([\d.]+)pt"', "", picture, count=2)
    return Markup(
        picture.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).replace(
            ">", f"><title>{label}</title>", 1
        )
    )
