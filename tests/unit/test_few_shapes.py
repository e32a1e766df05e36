"""Padded tables give the same answers, the same posterior and the same checks."""

from dataclasses import replace

import arviz_stats
import jax
import numpy as np
import pytest
from made_posterior import posterior_of

from bayesirt import (
    Posterior,
    Responses,
    RunOptions,
    ThreePL,
    TwoPL,
    choose_dimension,
    fit_cbmm,
    fit_point,
)
from bayesirt.checks.fit.held_out import predict_held_out
from bayesirt.checks.fit.item_pairs import local_dependence
from bayesirt.checks.fit.items import item_fit
from bayesirt.checks.fit.subjects import person_fit
from bayesirt.data.clusters import Clusters
from bayesirt.inference.room import Room
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.inference.ways import way_of
from bayesirt.likelihood import few_shapes
from bayesirt.likelihood.few_shapes import filled_up

SHAPE, ROOM = (29, 19), (30, 20)
OPTIONS = RunOptions(num_warmup=200, num_samples=1000, num_chains=2)


def drawn(
    responses: Responses, model: TwoPL, seed: int, options: RunOptions = OPTIONS
) -> Posterior:
    """Return draws of chains that start at the 2PL's estimate."""
    own = {"init": fit_point(responses), "options": options}
    return sample_blocked(responses, key=jax.random.key(seed), model=model, **own)


@pytest.fixture(scope="module")
def odd(small: Responses) -> Responses:
    """Return responses of a shape that needs padding, with some missing cells."""
    return small.select(np.arange(SHAPE[0]), np.arange(SHAPE[1]))


def test_a_table_grows_by_an_eighth_at_most_and_only_while_it_is_small():
    for n in (1, 2, 7, 16, 17, 33, 100, 129, 400):
        ones = np.ones((n, n), np.int8)
        layout = filled_up(ones, 2 * ones)
        assert n <= layout.shape[0] <= np.ceil(n * 9 / 8)
        assert np.array_equal(layout.trials[:n, :n], 2 * ones)
        assert layout.successes.sum() == n * n
    assert filled_up(np.ones((401, 501)), np.ones((401, 501))).shape == (401, 501)


@pytest.mark.slow
def test_chains_have_room_and_keep_those_that_there_are(odd: Responses):
    way = way_of(ThreePL())
    room = Room.of(way, way.data(odd))
    assert room.data.shape == ROOM
    options = RunOptions(num_warmup=2, num_samples=3, num_chains=2)
    posterior = drawn(odd, ThreePL(), 0, options)
    shapes = {name: posterior[name].shape for name in ("theta", "a", "d", "c", "b", "mu_c")}
    of_items = (2, 3, SHAPE[1])
    assert shapes == {
        "theta": (2, 3, SHAPE[0]),
        **dict.fromkeys(("a", "d", "c", "b"), of_items),
        "mu_c": (2, 3),
    }


def test_whoever_is_known_has_no_company(small: Responses):
    clusters = Clusters.of([f"family {k // 3}" for k in range(small.n_subjects)])
    clustered = replace(small, clusters=clusters)
    way = way_of(TwoPL(), clustered)
    assert not Room.of(way, way.data(clustered)).sizes


@pytest.mark.slow
@pytest.mark.statistical
def test_room_leaves_the_posterior_as_it_is(odd: Responses, monkeypatch: pytest.MonkeyPatch):
    with_room = drawn(odd, TwoPL(), 1)
    monkeypatch.setattr(few_shapes, "_MOST_CELLS", 0)
    without = drawn(odd, TwoPL(), 2)
    for group in ("posterior", "sample_stats"):
        names = [x for x in with_room.tree[group].data_vars if not x.startswith("acceptance")]
        one, other = (x.tree[group].to_dataset()[names] for x in (with_room, without))
        variance = sum(x.var(("chain", "draw")) / arviz_stats.ess(x) for x in (one, other))
        z = (one.mean(("chain", "draw")) - other.mean(("chain", "draw"))) / np.sqrt(variance)
        assert float(abs(z).max().to_array().max()) < 4


@pytest.mark.slow
def test_checks_of_fit_do_not_see_who_fills_up(odd: Responses, monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    theta, a = rng.normal(size=(4, SHAPE[0])), rng.lognormal(size=(4, SHAPE[1]))
    posterior = posterior_of(odd, theta=theta, a=a, d=rng.normal(size=(4, SHAPE[1])))

    def checked() -> list[np.ndarray]:
        pairs = local_dependence(posterior).pairs.sort_values(["item_1", "item_2"])
        held_out = predict_held_out(odd, key=jax.random.key(0))
        return [
            x.select_dtypes("number").to_numpy()
            for x in (item_fit(posterior), person_fit(posterior), pairs)
        ] + [held_out.summary[["log_score", "ahead", "se"]].to_numpy(), held_out.predicted]

    def chosen() -> np.ndarray:
        return choose_dimension(odd, candidates=(1, 2), folds=2, key=0).log_scores

    with_room = checked(), chosen()
    monkeypatch.setattr(few_shapes, "_MOST_CELLS", 0)
    without = checked(), chosen()
    for own, other in zip(with_room[0][:3], without[0][:3], strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-9)
    for own, other in zip(
        (*with_room[0][3:], with_room[1]), (*without[0][3:], without[1]), strict=True
    ):
        np.testing.assert_allclose(own, other, atol=2e-2)


def test_a_point_estimate_does_not_see_who_fills_up(odd, monkeypatch: pytest.MonkeyPatch):
    with_room = fit_cbmm(odd)
    monkeypatch.setattr(few_shapes, "_MOST_CELLS", 0)
    without = fit_cbmm(odd)
    assert with_room.iterations == without.iterations
    assert with_room.log_likelihood == pytest.approx(without.log_likelihood)
    for name in ("theta", "a", "d", "theta_se", "a_se", "d_se"):
        np.testing.assert_allclose(with_room[name], without[name], rtol=1e-9)
