"""Anchors represent their benchmark, whatever the order of its items."""

from itertools import combinations

import jax
import numpy as np
import pytest

from bayesirt.errors import ResponseError
from bayesirt.estimators.anchors import AnchorRule, choose_anchors, expected_variance
from bayesirt.estimators.fixed_items import KnownItems

RULES = ("clusters", "random", "discrimination", "design", "information")
KEY = jax.random.key(3)


def some_items(n: int, k: int, seed: int = 0) -> KnownItems:
    rng = np.random.default_rng(seed)
    a = np.abs(rng.normal(size=(n, k))) * rng.choice([0.3, 1.0, 2.0], size=(n, 1))
    names = tuple(f"item {j}" for j in rng.permutation(n))
    return KnownItems(names, a, 1.5 * rng.normal(size=n), np.zeros((n, k + 1, k + 1)))


def log_volume(items: KnownItems, positions: np.ndarray, n_draws: int = 256) -> float:
    theta = np.asarray(jax.random.normal(KEY, (n_draws, items.n_abilities)))
    p = 1 / (1 + np.exp(-(theta @ items.a.T + items.d)))
    a, w = items.a[positions], (p * (1 - p))[:, positions]
    information = np.einsum("tj,jk,jl->tkl", w, a, a) + np.eye(items.n_abilities)
    return float(np.linalg.slogdet(information)[1].mean())


@pytest.mark.parametrize("how", RULES)
@pytest.mark.parametrize("n_anchors", [3, 12, 40])
def test_anchors_are_distinct_and_stand_for_all_items(how: AnchorRule, n_anchors: int):
    anchors = choose_anchors(some_items(40, 3), n_anchors, how=how, key=KEY)
    assert len(np.unique(anchors.positions)) == len(anchors) == n_anchors
    assert anchors.weights.sum() == pytest.approx(1, abs=1e-12)
    assert (anchors.weights > 0).all()
    assert anchors.how == how


@pytest.mark.parametrize("how", RULES)
def test_the_order_of_items_does_not_matter(how: AnchorRule):
    items = some_items(40, 3)
    order = np.random.default_rng(1).permutation(40)
    first = choose_anchors(items, 9, how=how, key=KEY).named(items)
    moved = items.select(order)
    assert choose_anchors(moved, 9, how=how, key=KEY).named(moved) == first


def test_medoids_are_the_items_nearest_to_centres_of_separate_clusters():
    offsets = np.array([-0.2, 0.0, 0.1])
    d = np.concatenate([offsets, 5 + offsets, 10 + offsets[:2]])
    items = KnownItems(tuple("abcdefgh"), np.ones((8, 1)), d, np.zeros((8, 2, 2)))
    found = choose_anchors(items, 3, key=KEY).named(items)
    assert found.keys() - {"g", "h"} == {"b", "e"}
    assert sorted(found.values()) == [2 / 8, 3 / 8, 3 / 8]


def test_places_that_stand_several_times_leave_no_cluster_empty():
    d = np.repeat([0.0, 1.0, 4.0], [5, 4, 1])
    names = tuple(f"{j:02}" for j in range(10))
    items = KnownItems(names, np.ones((10, 1)), d, np.zeros((10, 2, 2)))
    anchors = choose_anchors(items, 6, key=KEY)
    assert len(set(anchors.positions.tolist())) == 6
    assert set(d[anchors.positions]) == {0.0, 1.0, 4.0}
    by_place = [anchors.weights[d[anchors.positions] == x].sum() for x in (0.0, 1.0, 4.0)]
    assert by_place == pytest.approx([0.5, 0.4, 0.1])


def test_discrimination_takes_the_steepest_items():
    items = some_items(30, 2)
    steep = set(np.argsort(-np.linalg.norm(items.a, axis=1))[:6])
    assert set(choose_anchors(items, 6, how="discrimination", key=KEY).positions) == steep


def test_design_leaves_less_variance_than_other_rules():
    items = some_items(120, 3)
    left = {
        how: expected_variance(
            items,
            choose_anchors(items, 15, how=how, key=KEY).positions,
            key=jax.random.key(9),
            n_draws=1000,
        )
        for how in RULES
    }
    assert left["design"] == min(left.values())
    assert left["design"] < 0.7 * left["random"]


@pytest.mark.parametrize("seed", range(2))
def test_greedy_sets_against_all_pairs(seed: int):
    items = some_items(14, 2, seed)
    nothing = expected_variance(items, np.array([], int), key=KEY)
    sets = [np.array(pair) for pair in combinations(range(14), 2)]

    chosen = choose_anchors(items, 2, how="information", key=KEY).positions
    best = max(log_volume(items, pair) for pair in sets)
    assert (1 - 1 / np.e) * best <= log_volume(items, chosen) <= best + 1e-12

    chosen = choose_anchors(items, 2, how="design", key=KEY).positions
    gains = [nothing - expected_variance(items, pair, key=KEY) for pair in sets]
    gain = nothing - expected_variance(items, chosen, key=KEY)
    assert 0.95 * max(gains) <= gain <= max(gains) + 1e-12


@pytest.mark.parametrize("how", ["design", "information"])
def test_each_greedy_step_is_the_best_one(how: AnchorRule):
    items = some_items(20, 2)
    chosen = choose_anchors(items, 6, how=how, key=KEY).positions
    value = {
        "design": lambda s: -expected_variance(items, s, key=KEY),
        "information": lambda s: log_volume(items, s),
    }[how]
    for n in range(6):
        others = np.setdiff1d(np.arange(20), chosen[:n])
        values = [value(np.append(chosen[:n], j)) for j in others]
        assert others[np.argmax(values)] == chosen[n]


@pytest.mark.parametrize(
    ("n", "says"), [(0, "at least 1"), (21, "from 20 items"), (2, "abilities")]
)
def test_bad_numbers_are_refused(n: int, says: str):
    with pytest.raises(ResponseError, match=says):
        choose_anchors(some_items(20, 3), n, key=KEY)


def test_unknown_rules_are_refused():
    with pytest.raises(ResponseError, match="`how` must be"):
        choose_anchors(some_items(20, 3), 4, how="best", key=KEY)  # type: ignore[arg-type]
