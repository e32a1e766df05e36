"""Figure of the adaptive-testing study."""

import pandas as pd
from matplotlib.figure import Figure

from bayesirt.posterior import LEVEL
from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style
from bayesirt.studies.cat_banks import BANKS
from bayesirt.studies.cat_tests import METHOD_NAMES
from bayesirt.studies.figures import draw_lines, legend_above, new_figure

_LINES = {
    "information": {"color": ACCENT, "ls": "-"},
    "variance": {"color": INK, "ls": "--"},
    "fixed": {"color": INK, "ls": ":"},
    "random": {"color": SOFT, "ls": "-"},
}
_MEASURES = {
    "rmse": "RMSE of ability",
    "width": f"mean width of {LEVEL:.0%} intervals",
    "coverage": f"coverage of {LEVEL:.0%} intervals",
}


@figure_style()
def plot_tests(lengths: pd.DataFrame) -> Figure:
    """Draw error, width and coverage by number of answers, a row of panels for each model."""
    models = [model for model in BANKS if (lengths["model"] == model).any()]
    n = len(models)
    fig, axes = new_figure(8.4, 0.8 + 2.5 * n, n, len(_MEASURES), sharex=True)
    for row, model in zip(axes, models, strict=True):
        own = lengths[lengths["model"] == model]
        for ax, (measure, title) in zip(row, _MEASURES.items(), strict=True):
            draw_lines(ax, own, "answers", measure, _LINES, METHOD_NAMES)
            ax.set_title(f"{BANKS[model]}: {title}", fontsize=8, loc="left")
        band = 2 * (LEVEL * (1 - LEVEL) / own["subjects"].iloc[0]) ** 0.5
        row[-1].axhspan(LEVEL - band, LEVEL + band, color="#e4e4e4")
        row[-1].set_ylim(None, 1)
    fig.supxlabel("answers", fontsize=9)
    legend_above(fig, axes[0, 0], 4)
    return fig
