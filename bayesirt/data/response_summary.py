"""Summary of responses: their number, coverage and scores."""

import numpy as np
import pandas as pd

from bayesirt.data.responses import Responses
from bayesirt.data.scales import score_name


def in_short(responses: Responses) -> str:
    """Return a one-line summary of responses, as shown at a prompt."""
    successes, trials, _ = (int(total.sum()) for total in responses.cells.totals(1))
    scale = responses.scale
    unit = "right" if scale is None else f"of the full score, {scale.kind}"
    return (
        f"<Responses: {responses.n_subjects} subjects x {responses.n_items} items, "
        f"{responses.n_observed:,} responses ({responses.coverage:.0%} observed), "
        f"{successes / trials:.0%} {unit}>"
    )


def summarise(responses: Responses) -> pd.DataFrame:
    """Return counts and scores of responses: one unrounded column `value`, a row for each fact.

    >>> responses = Responses.from_arrays([[1, 0], [1, 1], [0, 1]])
    >>> summarise(responses).loc["responses", "value"]
    6
    """
    successes, trials, observed = responses.cells.totals(1)
    per_item = responses.cells.totals(0).observed
    scale = responses.scale
    mean, accuracy = score_name(scale), successes / trials
    overall, lowest, highest = (
        float(share if scale is None else scale.value(share))
        for share in (successes.sum() / trials.sum(), accuracy.min(), accuracy.max())
    )
    facts = {
        "subjects": responses.n_subjects,
        "items": responses.n_items,
        "responses": responses.n_observed,
        **({} if responses.scale else {"trials": int(trials.sum())}),
        "coverage": responses.coverage,
        mean: overall,
        f"lowest {mean} of a subject": lowest,
        f"highest {mean} of a subject": highest,
        **_of_scale(responses),
        "fewest items of a subject": int(observed.min()),
        "fewest subjects of an item": int(per_item.min()),
        "connected groups": len(responses.components()),
    }
    if responses.clusters is not None:
        facts["clusters"] = len(responses.clusters.names)
    if responses.costs is not None:
        facts["subjects whose cost is known"] = int((responses.costs >= 0).sum())
    return pd.Series(facts, dtype=object).to_frame("value")


def _of_scale(responses: Responses) -> dict[str, float | int]:
    """Return counts of grades, the range of unbounded scores, or shares of scores at either end."""
    scale = responses.scale
    if scale is None:
        return {}
    parts = responses.cells.listed().successes
    if scale.kind == "graded":
        counts = np.bincount(parts, minlength=scale.steps + 1)
        return {f"grade {name}": int(n) for name, n in zip(scale.labels, counts, strict=True)}
    if scale.kind == "unbounded":
        return {"lowest score": scale.low, "highest score": scale.full}
    return {
        f"scores of {scale.low:g}": float(np.mean(parts == 0)),
        f"scores of {scale.full:g}": float(np.mean(parts == scale.steps)),
    }
