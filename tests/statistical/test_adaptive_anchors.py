"""Adaptive anchors are as precise with fewer answers, and intervals keep their coverage.

Choosing items by the answers so far does not bias the posterior, which conditions on those answers.
The number of intervals that contain the truth is binomial. Their share must lie within 5.0 standard
errors of .9, which gives a false alarm once in two million.
"""

import jax
import numpy as np
import pytest
from scipy.special import expit

from bayesirt.bank.bank_tables import with_anchors
from bayesirt.bank.suite.next_items import SuiteItems, choose_adaptively
from bayesirt.bank.suite.suite_scores import predict_suite
from bayesirt.data.responses import Responses
from bayesirt.estimators.anchors import AnchorRule
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.likelihood.cell_sums import DenseLayout

N_SUBJECTS, N_ITEMS, N_ANSWERS = 400, 200, 40
BENCHMARKS = np.repeat(np.array(["a", "b", "c", "d"], object), N_ITEMS // 4)


@pytest.mark.statistical
@pytest.mark.parametrize(("how", "n_asked"), [("clusters", 20), ("design", 30)])
def test_fewer_answers_do_when_asked_adaptively(how: AnchorRule, n_asked: int):
    """Half the answers of clusters, or three quarters of the best fixed rule's, are enough."""
    rng = np.random.default_rng(11)
    theta = rng.normal(size=(N_SUBJECTS, 2))
    lean = rng.uniform(0, 1, size=(4, 1, 2))
    a = (lean + 0.3 * rng.normal(size=(4, N_ITEMS // 4, 2))).reshape(N_ITEMS, 2) * 1.6
    known = KnownItems(
        tuple(f"q{j:03}" for j in range(N_ITEMS)), a, rng.normal(size=N_ITEMS),
        np.zeros((N_ITEMS, 3, 3)),
    )  # fmt: skip
    right = (rng.random((N_SUBJECTS, N_ITEMS)) < expit(theta @ a.T + known.d)).astype(int)
    truth = right.reshape(N_SUBJECTS, 4, -1).mean(2).mean(1)
    order = choose_adaptively(
        SuiteItems.of(known, BENCHMARKS),
        DenseLayout(right, np.ones_like(right)),
        n_asked,
        key=jax.random.key(0),
    )
    items = with_anchors(known, BENCHMARKS, N_ANSWERS // 4, how=how, key=jax.random.key(1))
    adaptive = np.zeros_like(right)
    np.put_along_axis(adaptive, np.asarray(order), 1, 1)
    anchors = np.broadcast_to(~np.isnan(items.weights), right.shape).astype(int)
    widths, errors = {}, {}
    for name, trials in (("adaptive", adaptive), ("anchors", anchors)):
        asked = np.flatnonzero(trials.any(0))
        cells = (right * trials)[:, asked], trials[:, asked]
        answers = Responses.from_arrays(*cells, items=[known.names[j] for j in asked])
        scores = predict_suite(known, BENCHMARKS, answers, anchors={}, key=jax.random.key(2))
        own = scores.suite.set_index("subject").loc[list(answers.subjects)]
        held = ((own["low"] <= truth) & (truth <= own["high"])).mean()
        widths[name] = (own["high"] - own["low"]).mean()
        errors[name] = np.abs(own["score"] - truth).mean()
        print(f"{name}: {trials[0].sum()} answers, width {widths[name]:.4f}, "
              f"error {errors[name]:.4f}, intervals hold {held:.3f}")  # fmt: skip
        assert abs(held - 0.9) < 5 * np.sqrt(0.9 * 0.1 / N_SUBJECTS)
    assert widths["adaptive"] < 1.03 * widths["anchors"]
    assert errors["adaptive"] < 1.1 * errors["anchors"]
