"""Checks of fit raise few alarms where the model holds, and find planted misfit."""

import jax
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from bayesirt import (
    Posterior,
    Priors,
    Responses,
    RunOptions,
    check_fit,
    local_dependence,
    review_items,
)
from bayesirt.checks.fit.items import item_fit
from bayesirt.checks.fit.subjects import person_fit
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import TwoPL

pytestmark = pytest.mark.statistical
SIZE = (200, 30)
"""Shape of most data sets here, so that they share compiled code."""


def drawn(
    successes: np.ndarray, trials: np.ndarray, seed: int, model: TwoPL | None = None
) -> Posterior:
    responses = Responses.from_arrays(successes, trials)
    options = RunOptions(num_chains=4, num_warmup=200, num_samples=100, thinning=1)
    return sample_blocked(responses, key=jax.random.key(seed), model=model, options=options)


def answers(
    rng: np.random.Generator, n: int, m: int, *, missing: float = 0.0, trials: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return answers under the 2PL, with a share of the cells missing."""
    a, d = np.exp(0.4 * rng.normal(size=m)), rng.normal(size=m)
    p = expit(rng.normal(size=(n, 1)) * a + d)
    counts = np.where(rng.uniform(size=(n, m)) < missing, 0, trials)
    return rng.binomial(counts, p), counts


@pytest.mark.parametrize("options", [{"missing": 0.3}, {"trials": 5}], ids=["missing", "trials"])
def test_p_values_are_uniform_where_the_model_holds(options):
    """About the nominal share of each kind of p-values is below .05 and .01.

    Bounds allow twice the nominal rate (p-values of one data set are dependent, and a variance is
    estimated), plus what chance exceeds once in a million.
    """
    found: dict[str, list[np.ndarray]] = {"items": [], "subjects": [], "pairs": []}
    for seed in range(8):
        y, counts = answers(np.random.default_rng(seed), *SIZE, **options)
        posterior = drawn(y, counts, seed)
        found["items"].append(item_fit(posterior)["p"].dropna().to_numpy())
        found["subjects"].append(person_fit(posterior)["p"].dropna().to_numpy())
        found["pairs"].append(local_dependence(posterior).pairs["p"].to_numpy())
    for kind, parts in found.items():
        p = np.concatenate(parts)
        for alpha in (0.05, 0.01):
            below = int((p <= alpha).sum())
            print(f"{kind}: {below / len(p):.4f} of {len(p)} at {alpha}")
            assert below <= binom.isf(1e-6, len(p), 2 * alpha)
            if alpha == 0.05:
                assert below >= binom.ppf(1e-6, len(p), alpha / 2)


def test_planted_misfit_is_found():
    """Copies, testlets, guessing and careless subjects are found in 1,000 x 40, and little else."""
    rng = np.random.default_rng(0)
    n, m = 1000, 40
    theta = rng.normal(size=(n, 1))
    a, d = np.exp(0.3 * rng.normal(size=m)), rng.normal(size=m)
    a[:4], d[:4] = 2.0, -1.5
    testlet = rng.normal(size=(n, 1)) * (np.arange(m) // 4 == 2)
    p = expit(theta * a + d + 1.5 * testlet)
    p[:, :4] = 0.3 + 0.7 * p[:, :4]
    y = (rng.uniform(size=(n, m)) < p).astype(int)
    y[:, 21] = np.where(rng.uniform(size=n) < 0.1, 1 - y[:, 20], y[:, 20])
    y[:, 23] = y[:, 22]
    y[:20] = rng.uniform(size=(20, m)) < 0.5
    y[:20, 23] = y[:20, 22]
    posterior = drawn(y, np.ones_like(y), 0)
    pairs = local_dependence(posterior)
    listed = pairs.pairs[pairs.pairs["dependent"]]
    numbers = [
        tuple(sorted(int(x[5:]) - 1 for x in pair))
        for pair in zip(listed["item_1"], listed["item_2"], strict=True)
    ]
    planted = {(20, 21), (22, 23)} | {(j, k) for j in range(8, 12) for k in range(j + 1, 12)}
    assert planted <= set(numbers)
    assert len(set(numbers) - planted) <= 0.5 * len(numbers)
    items, subjects = item_fit(posterior), person_fit(posterior)
    print(items[items["misfits"]], subjects["misfits"][:20].sum(), subjects["misfits"][20:].sum())
    assert items["misfits"][:4].sum() >= 2
    assert (items["direction"][:4] == "both ends better").sum() >= 3
    assert subjects["misfits"][:20].sum() >= 10
    assert subjects["misfits"][20:].sum() <= 15
    review = review_items(posterior, dependence=pairs)
    assert review.duplicated == ["item 24"]
    assert {"item 21", "item 22"} <= set(review.near_duplicate)
    assert review.miskeyed == []


@pytest.mark.parametrize("slopes", ["positive", "free"])
def test_flipped_keys_are_found(slopes):
    rng = np.random.default_rng(1)
    y, counts = answers(rng, *SIZE)
    y[:, :3] = 1 - y[:, :3]
    review = review_items(drawn(y, counts, 0, TwoPL(Priors(slopes=slopes))))
    assert set(review.miskeyed) == {"item 1", "item 2", "item 3"}
    assert (set(review.flipped) == set(review.miskeyed)) == (slopes == "free")


def test_miskeyed_items_are_seldom_found_where_there_are_none():
    """A third of the items are uninformative; at q = .1 the bound is 13 false alarms in 30 sets."""
    false = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        a = np.where(np.arange(30) < 10, 0, np.exp(0.4 * rng.normal(size=30)))
        theta, d = rng.normal(size=(100, 1)), 2 * rng.normal(size=30)
        y = (rng.uniform(size=(100, 30)) < expit(theta * a + d)).astype(int)
        samples = {
            "theta": np.broadcast_to(theta[:, 0], (1, 4, 100)),
            "a": np.broadcast_to(a, (1, 4, 30)),
            "d": np.broadcast_to(d, (1, 4, 30)),
        }
        posterior = Posterior.from_samples(samples, {}, Responses.from_arrays(y), {})
        false += len(review_items(posterior).miskeyed) > 0
    print(f"{false} of 30 data sets with a miskeyed item")
    assert false <= binom.isf(1e-6, 30, 0.1)


def test_two_abilities_are_told_from_one():
    for apart, answer in ((False, "well"), (True, "no")):
        rng = np.random.default_rng(2)
        theta = rng.normal(size=(200, 2))
        own = theta[:, np.arange(30) % 2 if apart else np.zeros(30, int)]
        y = (rng.uniform(size=SIZE) < expit(1.5 * own + rng.normal(size=30))).astype(int)
        check = check_fit(drawn(y, np.ones_like(y), 0), key=jax.random.key(0))
        print(check.to_text())
        assert check.one_ability == answer
        assert (check.dependence.n_dependent > 100) == apart


@pytest.mark.reference
def test_lsat6_fits_and_five_benchmarks_do_not(shared):
    """LSAT6 is known to fit a Rasch model; metabench joins five different benchmarks."""
    with np.load(shared / "data" / "classic_lsat6.npz", allow_pickle=False) as data:
        y = data["Y"].astype(int)
    check = check_fit(drawn(y, np.ones_like(y), 0), key=jax.random.key(0))
    assert check.one_ability == "well"
    assert "Rasch model" in check.to_text()
    assert check.dependence.n_dependent == 0
    with np.load(shared / "data" / "metabench_joint5.npz", allow_pickle=False) as data:
        y = data["Y"][::10, ::7].astype(int)
    seen = (y >= 0).astype(int)
    check = check_fit(drawn(np.maximum(y, 0), seen, 0), key=jax.random.key(0))
    print(check.to_text())
    assert check.one_ability == "no"
    assert check.dependence.n_dependent > 100
