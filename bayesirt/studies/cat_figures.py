"""Figure of the adaptive-testing study, readable in black and white."""

import pandas as pd
from matplotlib.figure import Figure

from bayesirt.posterior import LEVEL
from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style
from bayesirt.studies.cat_banks import BANKS
from bayesirt.studies.cat_tests import METHOD_NAMES

_LINES = {
    "information": (ACCENT, "-"),
    "variance": (INK, "--"),
    "fixed": (INK, ":"),
    "random": (SOFT, "-"),
}
_MEASURES = {
    "rmse": "RMSE of ability",
    "width": f"mean width of {LEVEL:.0%} intervals",
    "coverage": f"coverage of {LEVEL:.0%} intervals",
}


def plot_tests(lengths: pd.DataFrame) -> Figure:
    """Draw error, width and coverage by number of answers, a row of panels for each model."""
    models = [model for model in BANKS if (lengths["model"] == model).any()]
    with figure_style():
        fig = Figure(figsize=(8.4, 0.8 + 2.5 * len(models)), layout="constrained")
        axes = fig.subplots(len(models), len(_MEASURES), sharex=True, squeeze=False)
        for row, model in zip(axes, models, strict=True):
            own = lengths[lengths["model"] == model]
            for ax, (measure, title) in zip(row, _MEASURES.items(), strict=True):
                for method, (color, style) in _LINES.items():
                    line = own[own["method"] == method]
                    label = METHOD_NAMES[method] if ax is axes[0, 0] else None
                    ax.plot(line["answers"], line[measure], style, color=color, lw=1.2, label=label)
                ax.set_title(f"{BANKS[model]}: {title}", fontsize=8, loc="left")
            band = 2 * (LEVEL * (1 - LEVEL) / own["subjects"].iloc[0]) ** 0.5
            row[-1].axhspan(LEVEL - band, LEVEL + band, color="#e4e4e4")
            row[-1].set_ylim(None, 1)
        fig.supxlabel("answers", fontsize=9)
        fig.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return fig
