"""Figures of a fit check: what was observed, and what the model expects."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesirt.data.scales import Scale, shown_score
from bayesirt.names import one_line
from bayesirt.posterior import TAILS, Posterior
from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style, one_panel

if TYPE_CHECKING:
    from bayesirt.checks.fit.fit_check import FitCheck

_FIFTHS, _DRAWS = 5, 50


def plot_calibration(fit: "FitCheck") -> Figure:
    """Draw the proportion correct of held-out answers against the predicted probability."""
    table = fit.calibration.summary
    with one_panel(4.4) as (fig, ax):
        ax.plot([0, 1], [0, 1], color=SOFT, lw=0.8)
        ax.fill_between(
            table["predicted"], table["low"], table["high"], color=ACCENT, alpha=0.2, lw=0
        )
        ax.plot(table["predicted"], table["calibrated"], color=ACCENT)
        ax.plot(table["predicted"], table["observed"], "o", color=INK, ms=3)
        ax.set_xlabel("predicted probability of a right answer")
        ax.set_ylabel("proportion correct")
    return fig


def plot_totals(fit: "FitCheck") -> Figure:
    """Draw histograms of the proportions correct of subjects and of items."""
    table = fit.totals.summary
    with figure_style():
        fig = Figure(figsize=(7.2, 3.0), layout="constrained")
        for ax, kind in zip(fig.subplots(1, 2), ("subjects", "items"), strict=True):
            bins = table[table["of"] == kind]
            middle = (bins["from"] + bins["to"]) / 2
            ax.bar(
                middle, bins["high"] - bins["low"], 0.8 * (bins["to"] - bins["from"]), bins["low"],
                color=ACCENT, alpha=0.25, lw=0,
            )  # fmt: skip
            ax.plot(middle, bins["observed"], "o", color=INK, ms=4)
            ax.set_xlabel(f"proportion correct of {kind}")
            ax.set_ylabel("how many")
            ax.set_ylim(0, 1.05 * max(np.max(bins["high"]), np.max(bins["observed"])))
    return fig


def plot_levels(posterior: Posterior) -> Figure:
    """Draw observed and expected shares of answers that reach each grade, by fifths of subjects."""
    posterior, answers = posterior.reported, posterior.answers
    assert answers is not None
    levels = _levels(posterior)
    names = answers.labels[1:] or _names_of_levels(posterior.link, answers)
    with one_panel(4.4) as (fig, ax):
        for name, of_level in zip(names, levels, strict=True):
            ax.fill_between(of_level.ability, of_level.low, of_level.high, color=ACCENT, alpha=0.2)
            ax.plot(of_level.ability, of_level.expected, color=ACCENT, lw=0.8)
            ax.plot(of_level.ability, of_level.observed, "o", color=INK, ms=3)
            ax.annotate(
                one_line(name, 20), (of_level.ability[0], of_level.expected[0]), xytext=(-6, 0),
                textcoords="offset points", va="center", ha="right", fontsize=7,
            )  # fmt: skip
        ax.set_ylim(-0.03, 1.03)
        ax.set_xlabel("ability, means of fifths of the subjects")
        ax.set_ylabel("share of answers that reach it")
    return fig


def _names_of_levels(link: str, answers: Scale) -> tuple[str, ...]:
    from bayesirt.likelihood.normal import LEVELS, NORMAL

    if link != NORMAL.name:
        return "above 0", f"{answers.full:g}"
    return tuple(f"above {shown_score(answers, level)}" for level in LEVELS)


class _Level(NamedTuple):
    """Shares of answers that reach a level, by fifths of the subjects; shape (fifth,) each."""

    ability: NDArray[np.float64]
    observed: NDArray[np.float64]
    expected: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def _levels(posterior: Posterior) -> list[_Level]:
    """Return each level's observed and expected shares, with their 90% bands under the model."""
    import jax.numpy as jnp

    from bayesirt.likelihood.families import family_named

    order = np.argsort(posterior.theta.mean(0), kind="stable")
    fifths = [g for g in np.array_split(order, _FIFTHS) if len(g)]
    places = np.repeat(np.arange(len(fifths)), [len(g) for g in fifths])[np.argsort(order)]
    seen, family = posterior.trials > 0, family_named(posterior.link)
    drawn = [posterior.draws(name, _DRAWS) for name in posterior.parameters]
    size = np.bincount(places, seen.sum(1))
    sums = []
    for theta, a, d, *further in zip(*drawn, strict=True):
        law = family.given(further).law
        assert law is not None
        assert law.levels is not None
        levels = law.levels(jnp.asarray(theta[:, None] * a + d))
        p = [np.where(seen, x, 0) for _, x in levels]
        sums.append([[np.bincount(places, y.sum(1)) for y in (x, x * (1 - x))] for x in p])
    mean, noise = np.moveaxis(np.array(sums) / size, 2, 0)  # shape (draw, level, fifth)
    sd = np.sqrt(mean.var(0) + (noise / size).mean(0))
    ability = np.array([posterior.theta.mean(0)[g].mean() for g in fifths])
    reach = ndtri(TAILS[1])
    return [
        _Level(
            ability,
            np.bincount(places, (seen & (posterior.successes >= least)).sum(1)) / size,
            mean[:, k].mean(0),
            np.clip(mean[:, k].mean(0) - reach * sd[k], 0, 1),
            np.clip(mean[:, k].mean(0) + reach * sd[k], 0, 1),
        )
        for k, (least, _) in enumerate(levels)
    ]
