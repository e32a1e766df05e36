"""Review of an item bank: anchors and benchmarks that need attention."""

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
    """Result of `review_bank`.

    Attributes
    ----------
    anchors : DataFrame
        One row per anchor, the most alarming first, as in `anchor_drift`.
    benchmarks : DataFrame
        One row per benchmark, in the bank's order: `benchmark`, `n_items`, `n_anchors`, `n_alarms`,
        and the columns of `reference_subjects`, `benchmark_drift`, `saturation` and `novelty`.
    n_recent : int
        Number of subjects that were scored and are not reference subjects.
    alarms : tuple of Alarm
        Alarms on drift of whole benchmarks, then of anchors, the most alarming first; then on
        saturation, novelty and calibration of benchmarks.
    """

    anchors: pd.DataFrame
    benchmarks: pd.DataFrame
    n_recent: int
    alarms: tuple[Alarm, ...]

    def __repr__(self) -> str:
        return f"<BankReview: {self.n_recent} recent subjects, {len(self.alarms)} alarms>"

    def to_text(self) -> str:
        """Return the headline, and one line for each alarm."""
        return "\n".join([self.headline, *(alarm.sentence for alarm in self.alarms)])

    @property
    def headline(self) -> str:
        """Number of alarms, and the answers that they are based on."""
        n = len(self.alarms)
        alarms = counted(n, "alarm") if n else "no alarm"
        if not self.n_recent:
            return (
                f"{alarms.capitalize()}. No recent subjects: anchors can be checked once new "
                f"subjects are scored."
            )
        subjects = counted(self.n_recent, "recent subject")
        text = f"{alarms.capitalize()} from answers of {subjects} to {len(self.anchors):,} anchors."
        if len(self.benchmarks) == 1:
            return f"{text} The benchmark as a whole cannot be checked without another benchmark."
        if self.benchmarks["drift_p"].isna().all():
            return f"{text} Too few subjects answered several benchmarks to compare them as wholes."
        return text


def review_bank(
    bank: ItemBank, *, key: Key, announce: Callable[[str], None] | None = None
) -> BankReview:
    """Look for drifting anchors, and for leaked, saturated or novel benchmarks.

    Parameters
    ----------
    bank : ItemBank
    key : jax.random.key or int
        The same key gives the same review.
    announce : callable, optional
        Called with a description of each step before it starts.

    Returns
    -------
    BankReview

    Notes
    -----
    Recent subjects are those that were scored; reference subjects are those that benchmarks were
    calibrated with. For each of the two kinds of drift, a bank without drift raises any alarm in at
    most one review out of twenty (Holm). A benchmark that measures nothing new raises the alarm
    for novelty one time in twenty.

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
    """Return the abilities of recent subjects, and of all subjects."""
    by_group = [
        group_abilities(group, groups.items) if group.subjects else None
        for group in (groups.recent, groups.reference)
    ]
    some = [abilities for abilities in by_group if abilities is not None]
    everyone = Abilities(*map(jnp.concatenate, zip(*some, strict=True))) if some else None
    return by_group[0], everyone
