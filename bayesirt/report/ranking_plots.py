"""Figures that explain a ranking: pairwise probabilities, rank shifts, item information."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bayesirt.checks.point_comparison import Comparison
from bayesirt.names import one_line
from bayesirt.posterior import LOW_MIDDLE_HIGH, Posterior
from bayesirt.ranking.cluster_ranking import ClusterRanking
from bayesirt.ranking.difficulty_sources import DifficultySources
from bayesirt.ranking.subject_ranking import Ranking
from bayesirt.report.plots import (
    ACCENT,
    INK,
    SOFT,
    draw_abilities,
    figure_style,
    name_points,
    one_below_the_other,
    one_panel,
)

if TYPE_CHECKING:
    from bayesirt.ranking.repeated_runs import RepeatedRuns

_MOST_CLUSTERS = 60
_MOST_PAIRED = 25
_MOST_FLOWING = 40
_MOST_REPEATED = 40
_MOST_NAMED_FLOWS = 12
_GRID = np.linspace(-4, 4, 81)
_DRAWS = 200
_MOST_CURVES = 200_000
"""Most curves of items, over all draws."""


def plot_pairwise(ranking: Ranking) -> Figure:
    """Draw P(row above column) for the best subjects, the best on top."""
    shown = ranking.pairwise.iloc[:_MOST_PAIRED, :_MOST_PAIRED].to_numpy()
    names = [one_line(str(s), 30) for s in ranking.summary["subject"].head(_MOST_PAIRED)]
    n = len(names)
    with one_panel(2.6 + 0.2 * n) as (fig, ax):
        image = ax.imshow(shown, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        for i, j in zip(*np.nonzero((shown > 0.05) & (shown < 0.95)), strict=True):
            if i != j:
                ink = "white" if shown[i, j] > 0.5 else INK
                number = f"{100 * shown[i, j]:.0f}"
                ax.text(
                    j, i, number, ha="center", va="center", fontsize=6, color=ink, in_layout=False
                )
        ax.set_yticks(range(n), names)
        ax.set_xticks(range(n), names, rotation=90)
        ax.spines[:].set_visible(False)
        fig.colorbar(image, ax=ax, label="P(row above column)", shrink=0.6)
    return fig


def plot_clusters(clusters: ClusterRanking, ranking: Ranking) -> Figure:
    """Draw each cluster's ability with its 90% interval, and its subjects' abilities as circles."""
    table = clusters.summary.head(_MOST_CLUSTERS)
    row_of = {cluster: row for row, cluster in enumerate(table["cluster"])}
    shown = ranking.summary[ranking.summary["cluster"].isin(table["cluster"])]
    with figure_style():
        fig, ax = draw_abilities(table, "cluster", "D")
        ax.plot(shown["ability"], shown["cluster"].map(row_of), "o", color=SOFT, mfc="none", ms=4)
    return fig


def plot_difficulty(sources: DifficultySources) -> Figure:
    """Draw each source's share of the variance of difficulty, and the effect of each level."""
    factors = [sources.of_factor(name).head(_MOST_CLUSTERS) for name in sources.compared]
    sizes = [len(sources.shares), *map(len, factors)]
    with figure_style():
        fig = Figure(figsize=(7.2, 0.9 * len(sizes) + 0.2 * sum(sizes)), layout="constrained")
        axes = fig.subplots(len(sizes), 1, height_ratios=[n + 1 for n in sizes], squeeze=False)
        labels = (
            "share of the variance of difficulty",
            *(f"logits harder than average, by {one_line(name, 40)}" for name in sources.compared),
        )
        tables = [sources.shares.rename(columns={"source": "level", "share": "effect"}), *factors]
        for ax, table, label in zip(axes[:, 0], tables, labels, strict=True):
            rows = np.arange(len(table))
            ax.hlines(rows, table["low"], table["high"], color=ACCENT, lw=2.4)
            ax.plot(table["effect"], rows, "o", color=INK, ms=4)
            ax.axvline(0, color=SOFT, lw=0.8, zorder=0)
            one_below_the_other(ax, table["level"])
            ax.set_xlabel(label)
    return fig


def plot_repeats(repeats: "RepeatedRuns", ranking: Ranking) -> Figure:
    """Draw pass^k, the proportion correct of one run, and pass@k, for the most runs."""
    names = list(ranking.summary["subject"].head(_MOST_REPEATED))
    table = repeats.table.set_index(["runs", "subject"])
    once, often = (table.loc[k].loc[names] for k in (1, repeats.table["runs"].max()))
    rows, most = np.arange(len(names)), repeats.table["runs"].max()
    drawn = (
        (often, "pass_all", "<", f"all of {most} runs"),
        (once, "pass_at", "o", "one run"),
        (often, "pass_at", ">", f"at least one of {most}"),
    )
    with one_panel(1.3 + 0.18 * len(names)) as (fig, ax):
        ax.hlines(rows, often["pass_all"], often["pass_at"], color=SOFT, lw=0.8)
        for values, name, marker, label in drawn:
            ax.hlines(rows, values[name + "_low"], values[name + "_high"], color=ACCENT, lw=2.4)
            ax.plot(values[name], rows, marker, color=INK, ms=4, label=label)
        one_below_the_other(ax, names)
        ax.set_xlim(0, 1)
        ax.set_xlabel("share of the questions")
        fig.legend(loc="outside upper center", ncols=3, frameon=False)
    return fig


def plot_rank_flow(ranking: Ranking) -> Figure:
    """Draw each subject's rank by accuracy on the left and by ability on the right."""
    table = ranking.summary.head(_MOST_FLOWING)
    left = table["rank_by_accuracy"].to_numpy(float)
    right = table["rank"].to_numpy() if ranking.by_score else np.arange(1, len(table) + 1)
    moved = np.abs(left - right)
    strong = (moved >= 2) & (moved >= np.sort(moved)[-min(_MOST_NAMED_FLOWS, len(moved))])
    with one_panel(1.0 + 0.15 * len(table)) as (fig, ax):
        for k in range(len(table)):
            color, width = (ACCENT, 1.6) if strong[k] else (SOFT, 0.7)
            ax.plot([0, 1], [left[k], right[k]], "-o", color=color, lw=width, ms=3)
        for rank in np.unique(right[strong]):  # subjects that share a rank share a label
            names = [one_line(str(x), 36) for x in table["subject"][strong & (right == rank)]]
            ax.annotate(
                one_line(", ".join(names), 60), (1, rank), xytext=(6, 0), va="center",
                textcoords="offset points", fontsize=7,
            )  # fmt: skip
        ax.set_xlim(-0.1, 1.7)
        ax.set_ylim(max(left.max(), right.max()) + 1, 0)
        ax.set_xticks([0, 1], [f"by {ranking.score}", "by ability"])
        ax.set_ylabel("rank")
    return fig


def plot_information(posterior: Posterior) -> Figure:
    """Draw the standard error at each ability, with the subjects' abilities as ticks."""
    posterior = posterior.reported
    most = max(20, min(_DRAWS, _MOST_CURVES // len(posterior.items)))
    of_items = [posterior.draws(name, most) for name in posterior.parameters[1:]]
    theta = posterior.theta.mean(0)
    information = _information(posterior.link, _GRID, *of_items)
    errors = 1 / np.sqrt(np.maximum(information, 1e-6))
    low, middle, high = np.quantile(errors, LOW_MIDDLE_HIGH, axis=1)
    with one_panel(3.4) as (fig, ax):
        ax.fill_between(_GRID, low, high, color=ACCENT, alpha=0.2, lw=0)
        ax.plot(_GRID, middle, color=ACCENT)
        ax.plot(theta, np.zeros(len(theta)), "|", color=INK, ms=14, clip_on=False)
        in_range = (theta.min() - 0.5 < _GRID) & (theta.max() + 0.5 > _GRID)
        ax.set_ylim(0, min(1.5, 1.1 * high[in_range].max()))
        ax.set_xlim(_GRID[0], _GRID[-1])
        ax.set_xlabel("ability; each tick is a subject")
        ax.set_ylabel("standard error")
        ax.grid(color="#e4e4e4", lw=0.6)
    return fig


def _information(
    link: str, grid: NDArray[np.float64], *of_items: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the information of all items at each ability of a grid, draw by draw."""
    import jax

    from bayesirt.ranking.item_information import item_information

    @jax.jit
    def over_grid(grid: jax.Array, *of_items: jax.Array) -> jax.Array:
        return jax.lax.map(lambda x: item_information(x, *of_items, link=link).sum(1), grid)

    return np.asarray(over_grid(grid, *of_items), np.float64)


def plot_item_curves(
    posterior: Posterior, items: Sequence[str], *, notes: Sequence[str] = ()
) -> Figure:
    """Draw the proportion correct expected at each ability, with bands, and that observed."""
    import jax.numpy as jnp

    from bayesirt.likelihood.families import family_named

    posterior = posterior.reported
    all_items = posterior.items
    places = [all_items.index(name) for name in items]
    a, d, *further = (posterior.draws(name, _DRAWS)[:, places] for name in posterior.parameters[1:])
    columns = 2 if len(places) == 4 else min(3, len(places))
    rows = -(-len(places) // columns)
    with figure_style():
        fig = Figure(figsize=(7.2, 0.4 + 2.1 * rows), layout="constrained")
        grid = fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for k, ax in enumerate(grid.ravel()):
            if k >= len(places):
                ax.axis("off")
                continue
            eta = _GRID[:, None] * a[:, k] + d[:, k]
            family = family_named(posterior.link).given([values[:, k] for values in further])
            curves = np.asarray(family.probability(jnp.asarray(eta)))
            low, middle, high = np.quantile(curves, LOW_MIDDLE_HIGH, axis=1)
            ax.fill_between(_GRID, low, high, color=ACCENT, alpha=0.2, lw=0)
            ax.plot(_GRID, middle, color=ACCENT)
            ax.plot(*_fifths(posterior, places[k]), "o", color=INK, ms=4)
            ax.tick_params(labelbottom=k + columns >= len(places))
            lines = [one_line(text, 34) for text in (items[k], *notes[k : k + 1])]
            ax.set_title("\n".join(lines), fontsize=8)
            ax.set_ylim(-0.03, 1.03)
        fig.supxlabel("ability", fontsize=9)
        fig.supylabel(
            "share of the full score" if posterior.answers else "proportion correct", fontsize=9
        )
    return fig


def plot_comparison(comparison: Comparison) -> Figure:
    """Draw point estimates of ability against posterior means with their sds."""
    table = comparison.subjects
    ends = np.array([table["estimate"].min(), table["estimate"].max()])
    with one_panel(4.6, 5.4) as (fig, ax):
        ax.plot(ends, ends, color=SOFT, lw=0.8)
        ax.errorbar(
            table["estimate"], table["posterior_mean"], table["posterior_sd"], fmt="o",
            color=ACCENT, ms=3, lw=0.7,
        )  # fmt: skip
        outliers = table[table["disagrees"]].sort_values("shrinkage", key=abs, ascending=False)
        name_points(ax, outliers, "estimate", "posterior_mean", "subject")
        ax.set_xlabel("point estimate of ability")
        ax.set_ylabel("posterior mean, with one sd")
        ax.grid(color="#e4e4e4", lw=0.6)
    return fig


def plot_price(ranking: Ranking, price: str) -> Figure:
    """Draw the expected score against length or cost, and label the best at each price."""
    table = ranking.summary[ranking.summary[price] > 0]
    table = table.sort_values([price, "expected_score"], ascending=[True, False])
    front = table[table["expected_score"].cummax() == table["expected_score"]]
    with one_panel(4.2) as (fig, ax):
        ax.vlines(
            table[price], table["expected_score_low"], table["expected_score_high"], color=SOFT,
            lw=0.8,
        )  # fmt: skip
        ax.plot(table[price], table["expected_score"], "o", color=ACCENT, ms=4)
        ax.step(front[price], front["expected_score"], where="post", color=INK, lw=0.8)
        ax.set_xscale("log")
        name_points(ax, front[::-1], price, "expected_score", "subject")
        ax.set_xlabel(f"mean {price} of an answer, in the unit of the data")
        ax.set_ylabel("expected score")
        ax.grid(color="#e4e4e4", lw=0.6)
    return fig


def _fifths(posterior: Posterior, item: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean ability and proportion correct of fifths of an item's subjects."""
    subjects = np.flatnonzero(posterior.trials[:, item])
    theta = posterior.theta.mean(0)[subjects]
    groups = [g for g in np.array_split(subjects[np.argsort(theta, kind="stable")], 5) if len(g)]
    right, trials = posterior.successes[:, item], posterior.trials[:, item]
    ability = posterior.theta.mean(0)
    return (
        np.array([ability[g].mean() for g in groups]),
        np.array([right[g].sum() / trials[g].sum() for g in groups]),
    )
