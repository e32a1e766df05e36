"""Sketches of a report's pictures: their words only, because Matplotlib takes seconds."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.text import Text

from bayesirt.report import bank_html, gate_html, item_part, pictures, profile_html

_SKETCH = Markup(
    '<svg role="img" aria-label="{0}" viewBox="0 0 9 9"><title>{0}</title><text>{1}</text></svg>'
)


def sketch(figure: Figure, title: str) -> Markup:
    """Replace `svg`."""
    return _SKETCH.format(title, " ".join(text.get_text() for text in figure.findobj(Text)))


@contextmanager
def pictures_by(draw: Callable[[Figure, str], Markup]) -> Iterator[None]:
    """Choose the function that draws the pictures of reports."""
    with ExitStack() as stack:
        for module in (bank_html, gate_html, item_part, pictures, profile_html):
            stack.enter_context(patch.object(module, "svg", draw))
        yield
