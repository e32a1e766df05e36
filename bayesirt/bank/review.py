"""A review of an item bank: what its keeper should look at."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import pandas as pd

from bayesirt.bank.alarms import Alarm
from bayesirt.bank.anchor_answers import AnchorGroups, anchor_groups, group_abilities
from bayesirt.bank.anchor_drift import anchor_alarms, anchor_drift, not_answered
from bayesirt.bank.benchmark_drift import benchmark_alarms, benchmark_drift
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.novelty import novelty, novelty_alarms
from bayesirt.bank.reference_subjects import reference_alarms, reference_subjects
from bayesirt.bank.saturation import no_subjects, saturation, saturation_alarms
from bayesirt.estimators.normal_beliefs import Abilities
from bayesirt.names import counted
from bayesirt.random_keys import Key, as_key


@dataclass(frozen=True, eq=False, repr=False)
class BankReview:
    """What answers to anchors say of a bank by now.

    Attributes
    ----------
    anchors : DataFrame
        One row an anchor, the most alarming first, as by `anchor_drift`.
    benchmarks : DataFrame
        One row a benchmark, in the bank's order: `benchmark`, `n_items`, `n_anchors`, `n_alarms`,
        and the columns of `reference_subjects`, `benchmark_drift`, `saturation` and `novelty`.
    n_recent : int
        Subjects that were scored and are no reference subjects.
    alarms : tuple of Alarm
        Of benchmarks as a whole, then of anchors, the most alarming first, then of what benchmarks
        measure and of their calibration.
    """

    anchors: pd.DataFrame
    benchmarks: pd.DataFrame
    n_recent: int
    alarms: tuple[Alarm, ...]

    def __repr__(self) -> str:
        return f"<BankReview: {self.n_recent} recent subjects, {len(self.alarms)} alarms>"

    def to_text(self) -> str:
        """Return what was looked at in a sentence, and each alarm in one."""
        return "\n".join([self.headline, *(alarm.sentence for alarm in self.alarms)])

    @property
    def headline(self) -> str:
        """What was looked at, and how many alarms there are."""
        n = len(self.alarms)
        found = counted(n, "alarm") if n else "no alarm"
        if not self.n_recent:
            return (
                f"{found.capitalize()}. No recent subjects: whether anchors still hold shows once "
                f"new subjects are scored."
            )
        subjects = counted(self.n_recent, "recent subject")
        text = f"{found.capitalize()}, by answers of {subjects} to {len(self.anchors):,} anchors."
        if len(self.benchmarks) == 1:
            return f"{text} Whether the benchmark as a whole holds cannot be told without another."
        if self.benchmarks["drift_p"].isna().all():
            return f"{text} Too few subjects answered several benchmarks to compare them as wholes."
        return text


def review_bank(
    bank: ItemBank, *, key: Key, announce: Callable[[str], None] | None = None
) -> BankReview:
    """Look for anchors that drift, and for benchmarks that leaked, are outgrown or measure else.

    Parameters
    ----------
    bank : ItemBank
    key : jax.random.key or int
        The same key gives the same review.
    announce : callable, optional
        Told what is being done, before it is.

    Returns
    -------
    BankReview

    Notes
    -----
    Recent subjects are those that were scored, reference subjects those that benchmarks were
    calibrated with. Each of the two kinds of drift is tested so that an honest bank raises any
    alarm of the kind in at most one review of twenty (Holm); a benchmark that measures nothing new
    raises that alarm one time in twenty.

    References
    ----------
    Habba et al. (2026), sections 4.2 and 6.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesirt.bank.step import BankItems, BankStep
    >>> from bayesirt.estimators.fixed_items import KnownItems
    >>> known = KnownItems(("x", "y"), np.ones((2, 1)), np.zeros(2), np.zeros((2, 2, 2)))
    >>> items = BankItems(known, ("maths", "maths"), np.array([1.0, np.nan]))
    >>> review_bank(ItemBank(1, (BankStep("create", items),)), key=jax.random.key(0))
    <BankReview: 0 recent subjects, 0 alarms>
    """
    key = as_key(key)
    groups = anchor_groups(bank)
    if announce is not None:
        n_recent, n_reference = len(groups.recent.subjects), len(groups.reference.subjects)
        announce(f"comparing {n_recent:,} recent subjects with {n_reference:,} reference subjects")
    recent, everyone = _abilities(groups)
    drift, measured, counts = benchmark_drift(groups), novelty(bank), reference_subjects(bank)
    drifting = [alarm.benchmark for alarm in benchmark_alarms(drift)]
    anchors = not_answered(groups)
    if recent is not None:
        anchors = anchor_drift(groups, recent, drifting=drifting)
    outgrown = no_subjects(bank) if everyone is None else saturation(bank, everyone, key=key)
    alarms = (
        *benchmark_alarms(drift),
        *anchor_alarms(anchors),
        *saturation_alarms(outgrown),
        *novelty_alarms(measured),
        *reference_alarms(counts),
    )
    names = list(bank.benchmark_names)
    table = pd.DataFrame(
        {
            "n_items": [bank.benchmarks.count(name) for name in names],
            "n_anchors": [len(bank.anchors(name)) for name in names],
            "n_alarms": [sum(alarm.benchmark == name for alarm in alarms) for name in names],
        },
        pd.Index(names, name="benchmark"),
    )
    table = table.join([counts, drift, outgrown, measured]).reset_index()
    return BankReview(anchors, table, len(groups.recent.subjects), alarms)


def _abilities(groups: AnchorGroups) -> tuple[Abilities | None, Abilities | None]:
    """Return abilities of recent subjects, and of all."""
    found = [
        group_abilities(group, groups.items) if group.subjects else None
        for group in (groups.recent, groups.reference)
    ]
    some = [abilities for abilities in found if abilities is not None]
    everyone = Abilities(*map(jnp.concatenate, zip(*some, strict=True))) if some else None
    return found[0], everyone
