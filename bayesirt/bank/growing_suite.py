"""A growing suite of benchmarks: calibrate the first ones, then add others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from bayesirt.bank.bank_tables import (
    anchor_answers,
    check_anchors,
    excess_figures,
    excess_of,
    most_abilities,
    placed,
    with_anchors,
    with_kept_answers,
)
from bayesirt.bank.folder import append_step, check_new, create_bank_folder, read_bank
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.novelty import measure_novelty
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.bank.suite.excess import measure_excess
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.anchors import AnchorRule
from bayesirt.estimators.dimension import choose_dimension
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.fpc import calibrate_items
from bayesirt.estimators.mirt import fit_mirt
from bayesirt.names import one_line
from bayesirt.random_keys import Key, as_key

_CANDIDATES = (1, 2, 5, 10)


@dataclass(frozen=True)
class Growth:
    """Options that `create_suite` and `add_benchmark` share."""

    n_anchors: int = 100
    how: AnchorRule = "clusters"
    source: Mapping[str, Any] = field(default_factory=dict)
    progress: bool = False
    announce: Callable[[str], None] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The options that the bank records."""
        return {"n_anchors": self.n_anchors, "anchors": self.how}

    def tell(self, text: str) -> None:
        """Announce a step, if asked to."""
        if self.announce is not None:
            self.announce(text)


def create_suite(
    folder: str | Path,
    responses: Responses,
    benchmarks: Sequence[str],
    *,
    key: Key,
    n_abilities: int | None = None,
    **options: Any,
) -> ItemBank:
    """Calibrate the first benchmarks of a suite and store them as an item bank.

    Parameters
    ----------
    folder : str or Path
        A new or empty folder.
    responses : Responses
        Responses of the reference subjects.
    benchmarks : sequence of str
        Benchmark of each item.
    key : jax.random.key or int
    n_abilities : int, optional
        By default chosen among 1, 2, 5 and 10 on held-out answers, up to the number of anchors of
        each benchmark.

    Other Parameters
    ----------------
    n_anchors : int
        Anchors per benchmark, by default 100; all items if it has fewer.
    how : {"clusters", "random", "discrimination", "design", "information"}
        Rule of `choose_anchors`.
    source : mapping, optional
        Where the responses came from.
    progress : bool
        Show progress bars, if stderr is a terminal.
    announce : callable, optional
        Called with a description of each step before it starts.

    Returns
    -------
    ItemBank

    Raises
    ------
    ResponseError
        If the folder is not empty, the responses are unusable, or a benchmark has fewer items or
        anchors than there are abilities.

    Notes
    -----
    The errors of predictions from anchors beyond the model are measured on the same subjects that
    calibrated the items, so they are slightly underestimated.

    References
    ----------
    Habba et al. (2026), section 3.
    """
    key, folder = as_key(key), Path(folder)
    check_new(folder)
    if len(benchmarks) != responses.n_items:
        raise ResponseError(
            f"{responses.n_items} items but {len(benchmarks)} benchmarks; give one per item"
        )
    of = Growth(**options)
    n_anchors, tell = of.n_anchors, of.tell
    of_dimension, of_anchors, of_excess = jax.random.split(key, 3)
    settings = of.settings
    if n_abilities is None:
        most = min(most_abilities(benchmarks, n_anchors), responses.n_items - 1)
        few = [n for n in _CANDIDATES if n <= most]
        tell(f"choosing the number of abilities among {', '.join(map(str, few))}")
        choice = choose_dimension(responses, key=of_dimension, candidates=few, progress=of.progress)
        n_abilities, settings["dimension"] = choice.n_abilities, choice.to_text()
    check_anchors(benchmarks, n_anchors, n_abilities)
    tell(_calibrating(responses.n_items, responses, n_abilities))
    point = fit_mirt(responses, n_abilities=n_abilities)
    known = KnownItems.from_estimate(point)
    tell("choosing anchors, and measuring their prediction errors")
    items = with_anchors(known, benchmarks, n_anchors, how=of.how, key=of_anchors)
    step = BankStep(
        "create",
        items,
        placed(point, responses, items),
        anchor_answers(responses, {x for b in items.benchmark_names for x in items.anchors(b)}),
        figures=excess_of(items, responses, of_excess, progress=of.progress),
        settings=settings,
        source=dict(of.source),
    )
    return create_bank_folder(folder, step, n_abilities)


def add_benchmark(
    folder: str | Path,
    name: str,
    responses: Responses,
    *,
    key: Key,
    **options: Any,
) -> ItemBank:
    """Add a benchmark to a suite by fixed-parameter calibration: existing items never change.

    Parameters
    ----------
    folder : str or Path
        Folder of the bank.
    name : str
        Name of the benchmark.
    responses : Responses
        Responses to its items, from subjects that also answered anchors of the bank, either
        earlier or in these responses.
    key : jax.random.key or int
    **options
        ``n_anchors``, ``how``, ``source``, ``progress`` and ``announce``, as for `create_suite`.

    Returns
    -------
    ItemBank
        The bank with the new benchmark.

    Raises
    ------
    ResponseError
        If the bank already has the benchmark or one of its items, no subject is shared, or there
        are fewer new items or anchors than abilities.

    Notes
    -----
    The bank records whether the benchmark measures something new (see `measure_novelty`), for
    reviews, and the errors of its predictions from anchors, for scores.

    References
    ----------
    Habba et al. (2026), section 3.
    """
    key, folder = as_key(key), Path(folder)
    bank = read_bank(folder)
    if name in bank.benchmark_names:
        raise ResponseError(
            f"the bank has a benchmark {one_line(name)!r}; give the new one another name"
        )
    of = Growth(**options)
    tell = of.tell
    of_anchors, of_excess, of_novelty = jax.random.split(key, 3)
    joined = with_kept_answers(bank, responses)
    new = np.flatnonzero(~np.isin(np.array(joined.items, object), bank.items.names))
    labels = [name] * len(new)
    if labels:
        check_anchors(labels, of.n_anchors, bank.n_abilities)
    tell(_calibrating(len(new), responses, bank.n_abilities))
    point = calibrate_items(joined, bank.items)
    everything = KnownItems.from_estimate(point)
    tell("choosing anchors, and measuring their prediction errors")
    items = with_anchors(everything.select(new), labels, of.n_anchors, how=of.how, key=of_anchors)
    figures = _excess_of_new(bank, everything, items, joined, of_excess, progress=of.progress)
    tell("predicting held-out answers, to see whether the benchmark measures something new")
    figures |= measure_novelty(joined, bank.items, key=of_novelty)
    new_answers = joined.select(np.arange(joined.n_subjects), new)
    step = BankStep(
        "add",
        items,
        placed(point, new_answers, items),
        anchor_answers(joined, {*bank.anchor_items, *items.anchors(name)}),
        figures={name: figures},
        settings=of.settings,
        source=dict(of.source),
    )
    return append_step(folder, step)


def _calibrating(n_items: int, responses: Responses, n_abilities: int) -> str:
    abilities = "1 ability" if n_abilities == 1 else f"{n_abilities} abilities"
    return f"calibrating {n_items:,} items with {responses.n_subjects:,} subjects and {abilities}"


def _excess_of_new(
    bank: ItemBank,
    everything: KnownItems,
    items: BankItems,
    joined: Responses,
    key: Array,
    *,
    progress: bool,
) -> dict[str, float]:
    """Measure the errors of predicting the new benchmark from the anchors of all benchmarks."""
    (name,) = items.benchmark_names
    homes = dict(zip(bank.items.names, bank.benchmarks, strict=True))
    labels = [homes.get(item, name) for item in everything.names]
    inside = set(everything.names)
    anchors = {name: items.anchors(name)}
    for old in set(labels) - {name}:
        anchors[old] = {item: w for item, w in bank.anchors(old).items() if item in inside}
    excess = measure_excess(everything, labels, joined, anchors=anchors, key=key, progress=progress)
    return excess_figures(replace(excess[name], shared={}))
