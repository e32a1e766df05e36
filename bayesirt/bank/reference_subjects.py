"""Benchmarks that were calibrated with too few reference subjects."""

import numpy as np
import pandas as pd

from bayesirt.bank.alarms import Alarm
from bayesirt.bank.item_bank import ItemBank
from bayesirt.names import one_line

LEAST_REFERENCE = 100
"""Reference subjects that a benchmark of a diverse suite needs."""


def reference_subjects(bank: ItemBank) -> pd.DataFrame:
    """Count the subjects that each benchmark was calibrated with.

    One row a benchmark, indexed by it: `n_reference`, subjects that answered its anchors when it
    was calibrated and, where it was added, known anchors too. NaN where the bank keeps no answers.

    Habba et al. (2026), section 4.2.

    >>> from bayesirt.bank.step import BankItems, BankStep
    >>> from bayesirt.estimators.fixed_items import KnownItems
    >>> known = KnownItems(("x", "y"), np.ones((2, 1)), np.zeros(2), np.zeros((2, 2, 2)))
    >>> items = BankItems(known, ("maths", "maths"), np.array([1.0, np.nan]))
    >>> answer = {"subject": "s", "item": "x", "successes": 1, "trials": 1}
    >>> step = BankStep("create", items, answers=pd.DataFrame([answer]))
    >>> reference_subjects(ItemBank(1, (step,))).loc["maths"].tolist()
    [1.0]
    """
    home = dict(zip(bank.items.names, bank.benchmarks, strict=True))
    counts = {}
    for step in bank.steps:
        for name in () if step.items is None else step.items.benchmark_names:
            counts[name] = np.nan
            if step.answers is not None:
                own = step.answers["item"].map(home) == name
                linked = set(step.answers["subject"][own])
                if step.kind == "add":
                    linked &= set(step.answers["subject"][~own])
                counts[name] = float(len(linked))
    return pd.DataFrame({"n_reference": counts}).rename_axis("benchmark")


def reference_alarms(table: pd.DataFrame) -> list[Alarm]:
    """Return an alarm for each benchmark with fewer than 100 reference subjects.

    >>> table = pd.DataFrame({"n_reference": [99.0, 100.0]}, ["maths", "law"])
    >>> [alarm.benchmark for alarm in reference_alarms(table)]
    ['maths']
    """
    few = table[table["n_reference"] < LEAST_REFERENCE]
    return [_alarm(str(name), int(row["n_reference"])) for name, row in few.iterrows()]


def _alarm(name: str, n: int) -> Alarm:
    noun = "subject" if n == 1 else "subjects"
    text = (
        f"{one_line(name)} was calibrated with {n} reference {noun}, where a diverse suite needs "
        f"about {LEAST_REFERENCE}: predictions of it are wide, and may be off by more than they "
        f"say; let more subjects answer it and the anchors, and calibrate it in a new bank."
    )
    return Alarm("reference", name, None, text)
