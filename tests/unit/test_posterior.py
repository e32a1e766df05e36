"""The verdict on made-up chains, and draws read back from a file."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_stats import summary
from scipy.signal import lfilter

from bayesirt import __version__
from bayesirt.data.responses import Responses
from bayesirt.posterior import Posterior
from bayesirt.verdict import judge_chains

CHAINS, DRAWS = 4, 1000
RESPONSES = Responses.from_arrays(
    [[2, 1, 0, 3], [1, 1, 2, 0], [3, 0, 1, 1]],
    [[3, 1, 0, 3], [2, 1, 2, 1], [3, 2, 1, 1]],
    subjects=["x", "y", "ω/🙂"],
    items=["i1", "i2", "i3", "i4"],
)


def independent(**changes: np.ndarray) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(CHAINS, DRAWS, 3))
    a, d = np.exp(rng.normal(size=(CHAINS, DRAWS, 4))), rng.normal(size=(CHAINS, DRAWS, 4))
    mu_a = rng.normal(size=(CHAINS, DRAWS))
    return {"theta": theta, "a": a, "d": d, "b": -d / a, "mu_a": mu_a} | changes


def statistics(**changes: np.ndarray) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    energy = rng.normal(100, 5, size=(CHAINS, DRAWS))
    return {"diverging": np.zeros((CHAINS, DRAWS), bool), "energy": energy} | changes


def made(samples=None, stats=None) -> Posterior:
    attrs = {"model": "2PL", "engine": "made", "num_warmup": 7, "target_accept": 0.5}
    return Posterior.from_samples(
        independent() if samples is None else samples,
        statistics() if stats is None else stats,
        RESPONSES,
        attrs,
    )


GOOD = made()


def test_independent_draws_are_sound():
    verdict = GOOD.verdict
    assert verdict.sound
    assert verdict.complaints == ()
    assert 1 <= verdict.r_hat < 1.01
    assert 3000 < min(verdict.ess_bulk, verdict.ess_tail) < 6000
    assert verdict.bfmi == pytest.approx(2, abs=0.2)
    assert verdict.divergences == 0
    assert verdict.to_text().startswith("Abilities and ranks have converged (R-hat at most 1.00")
    assert (verdict.unconverged, verdict.n_others) == (0, 9)


def shifted_chain() -> dict[str, np.ndarray]:
    theta = independent()["theta"]
    theta[0, :, 1] += 1
    return independent(theta=theta)


def sticky() -> np.ndarray:
    noise = np.random.default_rng(2).normal(size=(CHAINS, DRAWS))
    return lfilter([1], [1, -0.98], noise)


def with_ability(draws: np.ndarray) -> dict[str, np.ndarray]:
    theta = independent()["theta"]
    theta[:, :, 2] = draws
    return independent(theta=theta)


def sticky_tails() -> np.ndarray:
    """Return chains with independent signs and slowly moving magnitudes."""
    size = np.abs(sticky())
    return size * np.random.default_rng(3).choice([-1, 1], size=size.shape)


def diverging(n: int) -> dict[str, np.ndarray]:
    return statistics(diverging=np.arange(CHAINS * DRAWS).reshape(CHAINS, DRAWS) < n)


def creeping_energy() -> np.ndarray:
    return np.cumsum(statistics()["energy"] - 100, axis=1)


@pytest.mark.parametrize(
    ("samples", "stats", "complaint"),
    [
        (shifted_chain(), None, "R-hat above 1.01 (worst R-hat 1."),
        (with_ability(sticky()), None, "bulk ESS below 400 (worst"),
        (with_ability(sticky_tails()), None, "tail ESS below 400 (worst"),
        (None, diverging(5), "5 of 4,000 transitions diverged"),
        (None, statistics(energy=creeping_energy()), "E-BFMI 0.0"),
        (with_ability(np.full((CHAINS, DRAWS), np.nan)), None, "worst R-hat nan, theta of 'x')"),
    ],
    ids=["shifted", "sticky", "sticky tails", "diverging", "energy", "NaN"],
)
def test_bad_chains_are_named(samples, stats, complaint):
    verdict = made(samples, stats).verdict
    assert not verdict.sound
    assert complaint in "; ".join(verdict.complaints)
    assert verdict.to_text().startswith("Do not trust this ranking yet: ")


def test_worst_ability_is_named():
    complaints = made(shifted_chain()).verdict.complaints
    assert complaints[0].startswith("3 of 3 abilities have R-hat above 1.01 (worst R-hat ")
    assert complaints[0].endswith("theta of 'y')")


def test_items_and_the_population_do_not_void_the_ranking():
    a = independent()["a"]
    a[0, :, 2] += 9
    verdict = made(independent(a=a, mu_a=sticky())).verdict
    assert verdict.sound
    assert (verdict.unconverged, verdict.n_others) == (3, 9)  # an intercept counts with its slope
    text = verdict.to_text()
    assert text.startswith("Abilities and ranks have converged (R-hat at most 1.00")
    assert "3 of 9 item and population parameters have not converged (worst R-hat " in text
    assert text.endswith("a of 'i3'): do not quote these.")


def test_what_misses_effective_draws_alone_is_not_named_by_its_r_hat():
    names = [("theta", "x"), ("a", "i1"), ("mu_a", "")]
    table = pd.DataFrame(
        {"r_hat": [1.0, 1.003, 1.009], "ess_bulk": [4e3, 390, 900], "ess_tail": [4e3, 800, 350]},
        index=pd.MultiIndex.from_tuples(names),
    )
    verdict = judge_chains(table, xr.Dataset(), complete=True)
    assert verdict.sound
    assert verdict.worst_other == "tail ESS 350, mu_a"


def test_a_few_divergences_are_a_warning():
    verdict = made(None, diverging(4)).verdict
    assert verdict.sound
    assert verdict.to_text().endswith("4 transitions diverged: too few to move a rank.")


@pytest.mark.parametrize(
    ("engine", "model", "advice"),
    [
        ("nuts", "2PL", "Run again with --engine blocked."),
        ("nuts", "Q-matrix 2PL", "Run again with --engine blocked."),
        ("blocked", "2PL", "Run again with more draws (--draws 10000) or a longer --budget."),
        ("blocked", "Q-matrix 2PL", "merge abilities that few items tell apart."),
    ],
)
def test_advice_is_not_what_was_just_done(engine: str, model: str, advice: str):
    made_by = {"model": model, "engine": engine}
    posterior = Posterior.from_samples(shifted_chain(), statistics(), RESPONSES, made_by)
    assert posterior.verdict.to_text().endswith(advice)


def test_verdict_leaves_out_the_ratio_b_and_what_is_constant():
    heavy = independent(b=shifted_chain()["theta"].mean(2, keepdims=True) + np.zeros(4))
    heavy["b"][0] += 50
    assert made(heavy).verdict.sound
    rasch = independent(a=np.ones((CHAINS, DRAWS, 4)))
    assert made(rasch).verdict.sound
    assert "a" not in made(rasch).summary.index.get_level_values("parameter")


def test_no_statistics_give_no_complaint():
    verdict = made(stats={}).verdict
    assert verdict.sound
    assert np.isnan(verdict.bfmi)


def test_summary_is_what_the_draws_say():
    draws = GOOD["d"][:, :, 2].ravel()
    row = GOOD.summary.loc[("d", "i3")]
    assert row["mean"] == pytest.approx(draws.mean())
    assert row["sd"] == pytest.approx(draws.std(ddof=1))
    quantiles = np.quantile(draws, [0.05, 0.5, 0.95])
    np.testing.assert_allclose(row[["low", "median", "high"]].astype(float), quantiles)
    assert ("mu_a", "") in GOOD.summary.index
    assert len(GOOD.summary) == 3 + 3 * 4 + 1


def test_draws_join_chains_in_order():
    assert GOOD["theta"].shape == (CHAINS, DRAWS, 3)
    np.testing.assert_array_equal(GOOD.theta[DRAWS : 2 * DRAWS], GOOD["theta"][1])
    assert GOOD.draws("mu_a").shape == (CHAINS * DRAWS,)
    assert GOOD.subjects == ["x", "y", "ω/🙂"]
    assert GOOD.items == ["i1", "i2", "i3", "i4"]
    assert repr(GOOD) == (
        "<Posterior of the 2PL by made: 4 chains x 1000 draws, 3 subjects x 4 items>"
    )


def test_saved_draws_come_back(tmp_path):
    GOOD.with_attrs(seed=3).save(tmp_path / "posterior.nc")
    back = Posterior.load(tmp_path / "posterior.nc")
    for name in ("theta", "a", "d", "b", "mu_a"):
        np.testing.assert_array_equal(back[name], GOOD[name])
    np.testing.assert_array_equal(back.successes, RESPONSES.cells.matrices()[0])
    np.testing.assert_array_equal(back.trials, RESPONSES.cells.matrices()[1])
    assert (back.subjects, back.items) == (GOOD.subjects, GOOD.items)
    assert back.verdict == GOOD.verdict
    pd.testing.assert_frame_equal(back.summary, GOOD.summary)
    attrs = back.tree.attrs
    assert (attrs["seed"], attrs["model"], attrs["bayesirt_version"]) == (3, "2PL", __version__)
    assert "seed" not in GOOD.tree.attrs


def test_arviz_reads_the_file(tmp_path):
    GOOD.save(tmp_path / "posterior.nc")
    tree = xr.load_datatree(tmp_path / "posterior.nc", engine="h5netcdf")
    assert set(tree.children) == {"posterior", "sample_stats", "observed_data", "constant_data"}
    table = summary(tree, var_names=["a"], round_to="none")
    own = GOOD.summary.loc["a"]
    np.testing.assert_allclose(table["mean"], own["mean"])
    np.testing.assert_allclose(table["ess_bulk"], own["ess_bulk"], rtol=0.05)
    np.testing.assert_allclose(table["r_hat"], own["r_hat"])


@pytest.mark.parametrize(("drift", "sound"), [(0, True), (1, False)])
def test_one_chain_is_compared_with_itself(drift, sound):
    samples = {k: v[:1, :999] for k, v in independent().items()}
    samples["theta"][:, :, 0] += np.linspace(0, drift, 999)
    verdict = made(samples, {}).verdict
    assert verdict.sound == sound
    assert verdict.r_hat > 1
