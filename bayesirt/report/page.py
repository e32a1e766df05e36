"""A report as one HTML file: no network, no foreign scripts, every name escaped."""

import base64
import hashlib
import io
import re
import warnings
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bayesirt.names import brief, one_line, percent_in_table
from bayesirt.report.plots import WIDTH

_PAGE_WIDTH = 52.0
"""Width in rem of a figure of the usual width, as in report.css."""
_SVG_DPI = 72
_THEME = {
    "#1a1a1a": "ink",
    "#000000": "ink",
    "#9a9a9a": "soft",
    "#0b5394": "accent",
    "#e4e4e4": "line",
    "#ffffff": "paper",
}
"""Colours of figures that follow the page's theme, light or dark."""


def render_page(template: str, **values: Any) -> str:
    """Render a template."""
    environment = Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters.update(one_line=one_line, brief=brief, percent_in_table=percent_in_table)
    script = _text("tables.js") + _text("downloads.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(
        style=Markup(_text("report.css")),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        **values,
    )


def _text(name: str) -> str:
    return files("bayesirt.report").joinpath(name).read_text("utf-8")


def _lay_out(figure: Figure) -> None:
    """Fix the layout of a figure; otherwise saving it would draw everything twice."""
    FigureCanvasSVG(figure)
    figure.set_dpi(_SVG_DPI)
    if engine := figure.get_layout_engine():
        engine.execute(figure)
        figure.set_layout_engine(None)


def svg(figure: Figure, title: str) -> Markup:
    """Return a figure as inline SVG whose text is text, with a title for screen readers."""
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        _lay_out(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    picture = buffer.getvalue()
    picture = re.sub("<metadata>.*?</metadata>", "", picture[picture.index("<svg") :], flags=re.S)
    shaded = "QuadMesh" in picture or "<image" in picture  # text is drawn on the shades
    if not shaded:
        for colour, name in _THEME.items():
            picture = picture.replace(colour, f"var(--{name})")
        picture = picture.replace("<text ", '<text fill="currentColor" ')
    label, width = escape(title), figure.get_figwidth()
    style = "" if width == WIDTH else f'style="max-width: {_PAGE_WIDTH * width / WIDTH:.1f}rem" '
    style += 'class="plain" ' if shaded else ""
    picture = re.sub(r'(width|height)="([\d.]+)pt"', "", picture, count=2)
    return Markup(
        picture.replace("<svg ", f'<svg {style}role="img" aria-label="{label}" ', 1).replace(
            ">", f"><title>{label}</title>", 1
        )
    )
