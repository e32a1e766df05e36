"""A ranking summarised in a few sentences."""

from bayesirt.names import in_percent, one_line
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.separation import least_detectable
from bayesirt.ranking.subject_ranking import SCORE_RANK

_SURE = 0.95
_MAY_BE_BEST = 0.05
_MOST_NAMED = 3


def in_short(run: Run) -> list[str]:
    """Summarise the best subject, tiers, the least detectable difference and the average."""
    ranking = run.ranking
    lines = [*ranking.warnings]
    if ranking.by_score:
        lines.append(_best_by_score(run))
    elif ranking.sound:
        lines += [_best(run), _tiers(run), least_detectable(run.posterior).to_text(), _average(run)]
    else:
        lines.append("It is too early to say who is best.")
    return lines


def _best_by_score(run: Run) -> str:
    table = run.ranking.summary
    first = table.iloc[0]
    rank, low, high = (first[name] for name in SCORE_RANK)
    tied = int((table[SCORE_RANK[1]] <= 1).sum())
    others = f" The intervals of {tied} of {len(table)} include rank 1." if tied > 1 else ""
    return (
        f"By {run.ranking.score}, {one_line(str(first['subject']), 60)} ranks number {rank} "
        f"(90% interval: {low} to {high}).{others}"
    )


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
    table = run.ranking.summary
    tier = table["tier"]
    n, first = len(tier), int((tier == 1).sum())
    groups = f"{tier.max()} tier{'' if tier.max() == 1 else 's'}"
    if first == 1:
        return f"The {n} subjects form {groups}; tier 1 holds one subject alone."
    if table["p_best"].max() >= _SURE:
        return (
            f"The {n} subjects form {groups}. Tiers judge all pairs at once (simultaneous 90%), "
            f"which is stricter than judging only the best: {first - 1} more "
            f"{'shares' if first == 2 else 'share'} tier 1."
        )
    return (
        f"The {n} subjects form {groups}: the {first} in tier 1 are statistically tied with its "
        "leader. A new tier starts where the previous leader is credibly better (simultaneous "
        "90%)."
    )


def _average(run: Run) -> str:
    check = run.ranking.average
    worst = f" {check.most_misplaced}" if check.n_misplaced else ""
    return f"{check.found}.{worst} {check.advice}"
