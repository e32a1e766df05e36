"""A ranking in a few sentences, for somebody with half a minute."""

from bayesirt.names import one_line
from bayesirt.run import Run
from bayesirt.separation import in_percent, least_detectable

_SURE = 0.95
_MAY_BE_BEST = 0.05
_MOST_NAMED = 3


def in_short(run: Run) -> list[str]:
    """Return who is best, who cannot be told from it, what shows at all, and what averages do.

    Parameters
    ----------
    run : Run

    Returns
    -------
    list of str
        A sentence each, the most important first.
    """
    return [_best(run), _tiers(run), least_detectable(run.posterior).to_text(), _average(run)]


def _best(run: Run) -> str:
    table = run.ranking.summary.sort_values("p_best", ascending=False, kind="stable")
    name, p = one_line(str(table["subject"].iloc[0]), 60), float(table["p_best"].iloc[0])
    if p >= _SURE:
        return f"{name} is best, with a probability of {in_percent(p)}."
    others = table.iloc[1:]
    others = others[others["p_best"] >= _MAY_BE_BEST]
    named = [
        f"{one_line(str(row.subject), 60)} ({row.p_best:.0%})"
        for row in others.head(_MOST_NAMED).itertuples()
    ]
    more = len(others) - len(named)
    also = f"; so may {', '.join(named)}{f' and {more} more' if more else ''}" if named else ""
    return (
        f"Who is best is not settled: {name} may be, with a probability of {in_percent(p)}{also}."
    )


def _tiers(run: Run) -> str:
    tier = run.ranking.summary["tier"]
    n, first = len(tier), int((tier == 1).sum())
    groups = f"{tier.max()} tier{'' if tier.max() == 1 else 's'}"
    if first == 1:
        return f"The {n} subjects form {groups}; the first holds one subject alone."
    return (
        f"The {n} subjects form {groups}: the {first} of the first cannot be told from its "
        "best. A new tier starts with the first subject that the best of the tier before is "
        "surely above, all pairs judged at once."
    )


def _average(run: Run) -> str:
    check = run.ranking.average
    if check.n_misplaced:
        subjects = "1 subject" if check.n_misplaced == 1 else f"{check.n_misplaced} subjects"
        found = f"The simple average misleads for {subjects}. {check.most_misplaced}"
    elif check.adequate:
        found = "The simple average would do here."
    else:
        found = "The simple average agrees with this ranking, as far as intervals tell."
    return f"{found} {check.advice}"
