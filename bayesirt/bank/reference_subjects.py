"""Benchmarks that were calibrated with too few reference subjects."""

import numpy as np
import pandas as pd

from bayesirt.bank.alarms import Alarm
from bayesirt.bank.item_bank import ItemBank
from bayesirt.names import counted, one_line

LEAST_REFERENCE = 100
"""Reference subjects that a benchmark of a diverse suite needs."""


def reference_subjects(bank: ItemBank) -> pd.DataFrame:
    """Count the subjects that each benchmark was calibrated with.

    One row per benchmark: `n_reference`, the subjects that answered its anchors when it was
    calibrated and, if it was added later, also known anchors. NaN if the bank holds no answers.

    Habba et al. (2026), section 4.2.
    """
    home = dict(zip(bank.items.names, bank.benchmarks, strict=True))
    counts = {}
    for step in bank.steps:
        for name in () if step.items is None else step.items.benchmark_names:
            counts[name] = np.nan
            if step.answers is not None:
                in_benchmark = step.answers["item"].map(home) == name
                linked = set(step.answers["subject"][in_benchmark])
                if step.kind == "add":
                    linked &= set(step.answers["subject"][~in_benchmark])
                counts[name] = float(len(linked))
    return pd.DataFrame({"n_reference": counts}).rename_axis("benchmark")


def reference_alarms(table: pd.DataFrame) -> list[Alarm]:
    """Return an alarm for each benchmark with fewer than 100 reference subjects."""
    few = table[table["n_reference"] < LEAST_REFERENCE]
    return [_alarm(str(name), int(row["n_reference"])) for name, row in few.iterrows()]


def _alarm(name: str, n: int) -> Alarm:
    subjects = counted(n, "reference subject")
    text = (
        f"{one_line(name)} was calibrated with {subjects}, but a diverse suite needs about "
        f"{LEAST_REFERENCE}: its predictions have wide intervals, and may be off by more than "
        f"these; have more subjects answer it and the anchors, and calibrate it in a new bank."
    )
    return Alarm("reference", name, None, text)
