"""Answers of recent and reference subjects to anchors, and the abilities they imply."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.suite.draws import on_device
from bayesirt.estimators.ability_beliefs import ability_steps
from bayesirt.estimators.cell_expectations import Quadrature, usual_quadrature
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.normal_beliefs import (
    Abilities,
    Items,
    Normal,
    standard_normal,
    without_answers,
)
from bayesirt.estimators.symmetric_matrices import inverse
from bayesirt.likelihood.cell_sums import DenseLayout

_ROUNDS, _LAST_STEPS = 20, 5


class Group(NamedTuple):
    """Subjects and their answers to the anchors of a bank."""

    subjects: tuple[str, ...]
    # shape (subject, anchor)
    successes: NDArray[np.int64]
    trials: NDArray[np.int64]

    @property
    def layout(self) -> DenseLayout:
        """Successes and trials on the device."""
        return DenseLayout(jnp.asarray(self.successes), jnp.asarray(self.trials))

    def only(self, anchors: NDArray[np.bool_]) -> "Group":
        """Return the same subjects with answers to only some of the anchors."""
        return self._replace(successes=self.successes * anchors, trials=self.trials * anchors)


class AnchorGroups(NamedTuple):
    """The anchors of a bank, and the subjects that answered them."""

    items: KnownItems  # The anchors, in the bank's order.
    benchmarks: NDArray[np.object_]  # shape (anchor,). Benchmark of each anchor.
    recent: Group  # Subjects that were scored, without those that are also reference subjects.
    reference: Group  # Subjects that benchmarks were calibrated with.


def anchor_groups(bank: ItemBank) -> AnchorGroups:
    """Return the anchors of a bank, with recent and reference subjects."""
    anchors = bank.anchor_items
    positions = np.flatnonzero(np.isin(np.array(bank.items.names, object), anchors))
    answers = bank.answer_table
    of_reference: set[str] = set()
    for step in bank.steps:
        if step.kind != "score" and step.answers is not None:
            of_reference.update(step.answers["subject"])
    is_reference = answers["subject"].isin(of_reference)
    recent, reference = (group_of(answers[x], anchors) for x in (~is_reference, is_reference))
    homes = np.asarray(bank.benchmarks, object)[positions]
    return AnchorGroups(bank.items.select(positions), homes, recent, reference)


def group_of(
    answers: pd.DataFrame, items: Sequence[str], subjects: Sequence[str] | None = None
) -> Group:
    """Return answers as matrices."""
    names = tuple(answers["subject"].unique() if subjects is None else subjects)
    rows, columns = ({name: k for k, name in enumerate(x)} for x in (names, items))
    cells = answers["subject"].map(rows).to_numpy(int), answers["item"].map(columns).to_numpy(int)
    matrices = np.zeros((2, len(names), len(items)), np.int64)
    for matrix, column in zip(matrices, ("successes", "trials"), strict=True):
        matrix[cells] = answers[column].to_numpy(np.int64)
    return Group(names, *matrices)


def group_abilities(group: Group, items: KnownItems) -> Abilities:
    """Estimate abilities from answers to anchors, in a separate population for the group.

    Later subjects are more able than those that defined the scale, and their answers leave some
    abilities uncertain; with the old population as prior, all of them would be predicted too low.
    The mean and covariance of the population are therefore estimated from the same answers (EM),
    shrunk to 0 and the identity with the weight of K + 2 subjects. Items are treated as exact.
    """
    layout = group.layout
    return _FIT(layout, on_device(items)[0], usual_quadrature(layout, None))


def _fit(layout: DenseLayout, items: Items, quadrature: Quadrature) -> Abilities:
    n, k = layout.shape[0], items.a.shape[1]
    usual, weight = jnp.eye(k, dtype=items.d.dtype), k + 2.0

    def round_(_: int, now: tuple[Abilities, Normal]) -> tuple[Abilities, Normal]:
        abilities, population = now
        abilities = ability_steps(layout, items, population, abilities, quadrature)
        mean = abilities.mean.sum(0) / (n + weight)
        scatter = abilities._replace(mean=abilities.mean - mean).scatter()
        scatter += weight * (usual + jnp.outer(mean, mean))
        return abilities, Normal(mean, inverse(scatter / (n + weight)))

    standard = standard_normal(k, items.d.dtype)
    first = without_answers(standard, n), standard
    abilities, population = jax.lax.fori_loop(0, _ROUNDS, round_, first)
    return ability_steps(layout, items, population, abilities, quadrature, _LAST_STEPS)


_FIT: Any = jax.jit(_fit, static_argnums=2)
