"""The calibration study passes a correct engine, and catches and names wrong ones.

The correct engine draws from the exact posterior of 3 x 2 responses by rejection: a prior draw is
accepted with probability equal to its likelihood.
"""

import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from jax import Array
from scipy.special import expit
from scipy.stats import binom, norm, t

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.models import Priors
from bayesirt.posterior import Posterior
from bayesirt.simulate import Simulation, simulate_responses
from bayesirt.studies import calibration_study
from bayesirt.studies.calibration import (
    CELL,
    CalibrationStudy,
    calibration_claims,
    calibration_found,
    coverage_table,
    plot_coverage,
    plot_rank_ecdf,
    rank_table,
    trust_table,
)
from bayesirt.studies.claims import claim_table
from bayesirt.studies.rank_ecdf import counts_below, simultaneous_envelope, uniformity_p_value
from bayesirt.studies.replication import Engine, judge, quantities_of, row_columns

FALSE_ALARM = 1e-6
SIZE = (3, 2)
REPLICATIONS = 150
N_DRAWS = 999


def exact_draws(responses: Responses, key: Array) -> dict[str, np.ndarray]:
    """Draw from the posterior under the default priors, reimplemented in NumPy."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    successes, _ = responses.cells.matrices()
    n_subjects, n_items = successes.shape
    kept: list[dict[str, np.ndarray]] = []
    while sum(len(part["theta"]) for part in kept) < N_DRAWS:
        n = 20_000
        mu_a, sigma_a = 0.5 * rng.normal(size=(n, 1)), 0.5 * np.abs(rng.normal(size=(n, 1)))
        mu_d, sigma_d = 2 * rng.normal(size=(n, 1)), 2 * np.abs(rng.normal(size=(n, 1)))
        theta = rng.normal(size=(n, n_subjects))
        a = np.exp(mu_a + sigma_a * rng.normal(size=(n, n_items)))
        d = mu_d - 2 * rng.normal(size=(n, 1)) * a + sigma_d * rng.normal(size=(n, n_items))
        p = expit(theta[:, :, None] * a[:, None] + d[:, None])
        likelihood = np.where(successes, p, 1 - p).prod((1, 2))
        keep = rng.uniform(size=n) < likelihood
        kept.append({"theta": theta[keep], "a": a[keep], "d": d[keep]})
    return {k: np.concatenate([part[k] for part in kept])[:N_DRAWS] for k in kept[0]}


def distorted(factor: float = 1.0, shift: float = 0.0) -> Engine:
    """Return an engine whose draws are rescaled, or shifted by `shift` posterior sd."""

    def engine(responses: Responses, key: Array) -> Posterior:
        draws = exact_draws(responses, key)
        draws["a"] = np.log(draws["a"])
        wrong = {
            name: (mean := own.mean(0)) + factor * (own - mean) + shift * own.std(0)
            for name, own in draws.items()
        }
        wrong["a"] = np.exp(wrong["a"])
        return Posterior.from_samples({k: v[None] for k, v in wrong.items()}, {}, responses, {})

    return engine


exact = distorted()
ENGINES = {
    "right": exact,
    "narrow": distorted(factor=0.5),
    "wide": distorted(factor=2.0),
    "low": distorted(shift=-0.8),
}


@pytest.fixture(scope="module")
def study() -> CalibrationStudy:
    return calibration_study(ENGINES, [SIZE], REPLICATIONS, key=jax.random.key(0))


def test_a_right_engine_is_calibrated_in_everything(study: CalibrationStudy):
    """Fails with another key twice in a million."""
    runs = study.replications[study.replications["engine"] == "right"]
    own = calibration_found(runs, replace(study.design, false_alarm=FALSE_ALARM))
    print(own.to_text())
    assert len(own.summary) == 7
    assert (own.summary["verdict"] == "calibrated").all()
    assert (own.summary["replications"] == REPLICATIONS).all()
    assert len(own.coverage) == 10
    assert (own.coverage["verdict"] == "calibrated").all()


@pytest.mark.parametrize(
    ("engine", "verdict"),
    [("narrow", "too narrow"), ("wide", "too wide"), ("low", "biased low")],
)
def test_wrong_engines_are_caught_and_named(study: CalibrationStudy, engine: str, verdict: str):
    ranks = study.summary[study.summary["engine"] == engine].set_index("quantity")
    assert (ranks["verdict"] != "calibrated").all()
    assert ranks.loc[["theta", "a", "d"], "verdict"].tolist() == [verdict] * 3
    coverage = study.coverage[study.coverage["engine"] == engine]
    of_all = coverage[coverage["group"].isin(["theta", "a", "d"])]
    assert of_all["verdict"].tolist() == [verdict] * 6


@pytest.mark.parametrize(("n", "kept"), [(200, 99), (30, 99), (50, 9)])
def test_uniform_ranks_stay_inside_the_envelope_as_often_as_it_says(n: int, kept: int):
    """The share among 20,000 simulations is within 5 standard errors of its probability."""
    envelope = simultaneous_envelope(n, kept, 0.95)
    ranks = np.random.default_rng(0).integers(0, kept + 1, (20_000, n))
    of_rank = np.zeros((len(ranks), kept + 1), int)
    np.add.at(of_rank, (np.arange(len(ranks))[:, None], ranks), 1)
    counts = of_rank.cumsum(1)[:, :-1]
    np.testing.assert_array_equal(counts_below(ranks[0], kept), counts[0])
    share = ((envelope.lower <= counts) & (counts <= envelope.upper)).all(1).mean()
    print(n, kept, envelope.probability, share)
    assert 0.95 <= envelope.probability < 0.96
    assert abs(share - envelope.probability) < 5 * np.sqrt(0.95 * 0.05 / 20_000)


def all_ranks(n: int, kept: int) -> np.ndarray:
    """Return all possible outcomes of n ranks, which are equally probable."""
    return np.array(list(product(range(kept + 1), repeat=n)))


@pytest.mark.parametrize(("n", "kept"), [(3, 4), (5, 2)])
def test_the_p_value_counts_every_outcome_that_strays_as_far(n: int, kept: int):
    def statistic(ranks: np.ndarray) -> float:
        z = np.arange(1, kept + 1) / (kept + 1)
        counts = (ranks[:, None] < np.arange(1, kept + 1)).sum(0)
        return min(*binom.cdf(counts, n, z), *binom.sf(counts - 1, n, z))

    outcomes = all_ranks(n, kept)
    values = np.array([statistic(ranks) for ranks in outcomes])
    for ranks, value in zip(outcomes, values, strict=True):
        expected = (values <= value * (1 + 1e-9)).mean()
        assert uniformity_p_value(ranks, kept) == pytest.approx(expected, rel=1e-10)


def test_the_envelope_is_left_exactly_where_the_p_value_is_small():
    n, kept = 5, 3
    outcomes = all_ranks(n, kept)
    counts = np.array([counts_below(ranks, kept) for ranks in outcomes])
    p_values = np.array([uniformity_p_value(ranks, kept) for ranks in outcomes])
    for probability in (0.5, 0.8, 0.95):
        envelope = simultaneous_envelope(n, kept, probability)
        inside = ((envelope.lower <= counts) & (counts <= envelope.upper)).all(1)
        np.testing.assert_array_equal(inside, p_values > 1 - probability)
        assert inside.mean() == pytest.approx(envelope.probability, rel=1e-10)


def test_a_rank_out_of_range_is_refused():
    with pytest.raises(ValueError, match="from 0 to 9"):
        counts_below(np.array([3, 10]), 9)


def known(**options) -> Simulation:
    return simulate_responses(4, 3, key=jax.random.key(5), **options)


def fixed(**draws: np.ndarray) -> Engine:
    """Return an engine that gives these draws, shape (draw, ...)."""
    return lambda responses, _key: Posterior.from_samples(
        {k: np.asarray(v)[None] for k, v in draws.items()}, {}, responses, {}
    )


def around(simulation: Simulation, offsets: np.ndarray) -> Engine:
    """Return an engine whose draws are the truth plus offsets."""
    truth = simulation.parameters
    return fixed(**{name: truth[name] + offsets[:, None] for name in ("theta", "a", "d")})


def run(engine, simulation: Simulation, kept: int = 9, seed: int = 0, priors: Priors | None = None):
    key = jax.random.key(seed)
    return judge(simulation, engine, key=key, priors=priors or Priors(), kept=kept)


def test_ranks_and_coverage_are_counted_by_hand():
    simulation = known()
    offsets = np.array([-4, -3, -2, -1, 1, 2, 3, 4, 5.0])
    row = run(around(simulation, offsets), simulation)
    assert [row[f"rank_{name}"] for name in ("theta", "a", "d")] == [4, 4, 4]
    assert row["ties_theta"] == 0
    assert [row[f"{side}90%_theta"] for side in ("below", "in", "above")] == [0, 4, 0]
    row = run(around(simulation, offsets + 4.5), simulation)
    assert row["rank_d"] == 0
    assert [row[f"{side}50%_d"] for side in ("below", "in", "above")] == [3, 0, 0]
    row = run(around(simulation, offsets - 6), simulation)
    assert [row[f"{side}90%_a"] for side in ("below", "in", "above")] == [0, 0, 3]
    assert set(row) == set(row_columns(Priors()))


def test_ties_are_counted_and_broken_at_random():
    simulation = known()
    offsets = np.array([-1, 0, 0, 0, 1.0])
    rows = [run(around(simulation, offsets), simulation, kept=5, seed=s) for s in range(40)]
    assert {row["ties_theta"] for row in rows} == {3}
    assert {row["rank_theta"] for row in rows} == {1, 2, 3, 4}


def test_kept_draws_are_spread_over_all():
    simulation = known()
    offsets = np.repeat([-1.0, 1.0, 1.0, -1.0, 1.0], 20)
    assert run(around(simulation, offsets), simulation, kept=5)["rank_theta"] == 2


def test_quantities_are_what_they_are_called():
    simulation = known(trials=7)
    rng = np.random.default_rng(0)
    draws = {"theta": rng.normal(size=(5, 4)), "a": rng.normal(size=(5, 3)), "d": np.ones((5, 3))}
    found = quantities_of(draws, simulation.responses)
    successes, trials = simulation.responses.cells.matrices()
    p = expit(draws["theta"][:, :, None] * draws["a"][:, None] + draws["d"][:, None])
    likelihood = (successes * np.log(p) + (trials - successes) * np.log1p(-p)).sum((1, 2))
    np.testing.assert_allclose(found["log_likelihood"], likelihood, rtol=1e-10)
    best = successes.sum(1).argmax()
    np.testing.assert_allclose(found["top_score"], p[:, best].mean(1), rtol=1e-10)
    extreme = np.abs(successes.sum(0) / trials.sum(0) - 0.5).argmax()
    np.testing.assert_array_equal(found["extreme_a"], draws["a"][:, extreme])


def test_extreme_items_are_counted_apart():
    successes = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 0]])
    drawn = known()
    simulation = Simulation(drawn.parameters, Responses.from_arrays(successes))
    row = run(around(simulation, np.linspace(-1, 1, 9)), simulation)
    assert (row["members_a"], row["members_extreme_a"]) == (3, 2)
    assert row["in90%_extreme_d"] == 2


def test_rasch_has_no_discriminations_to_study():
    priors = Priors(slopes="rasch")
    simulation = known(priors=priors)
    row = run(around(simulation, np.linspace(-1, 1, 9)), simulation, priors=priors)
    assert "rank_d" in row
    assert not {"rank_a", "rank_extreme_a", "members_a"} & set(row)


def said_of(study: CalibrationStudy, what: str) -> tuple[float, str]:
    """Return a claim's figure, and the part of its verdict about the first run it counts."""
    claim = study.claims[study.claims["claim"].str.endswith(what)].iloc[0]
    return claim["here"], claim["verdict"].split(": ")[1]


def test_an_engine_may_fail_and_this_is_counted(tmp_path: Path):
    def refuses(responses, key):
        raise ResponseError("no curvature")

    simulation = known()
    assert run(refuses, simulation)["failed"] == "no curvature"
    odd = around(simulation, np.array([0, 1, 2, 3, 4, 5, 6, 7, np.nan]))
    assert run(odd, simulation)["failed"] == "draws are not finite"
    study = calibration_study({"no": refuses}, [(3, 2)], 2, key=jax.random.key(0))
    assert said_of(study, "replications that failed") == (2, "no curvature")
    assert not len(study.summary)
    study.save(tmp_path)
    assert (tmp_path / "verdict.txt").exists()


def test_warnings_are_counted_and_the_first_is_kept():
    def warns(responses, key):
        warnings.warn("still long\nsteps", stacklevel=1)
        warnings.warn("more", stacklevel=1)
        return exact(responses, key)

    study = calibration_study({"warns": warns}, [(3, 2)], 2, key=jax.random.key(0))
    assert study.replications["warned"].tolist() == ["still long·steps"] * 2
    assert said_of(study, "replications that warned") == (2, "still long·steps")


def test_a_broken_engine_ends_the_study():
    def broken(responses, key):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        calibration_study({"broken": broken}, [(3, 2)], 1, key=jax.random.key(0))
    with pytest.raises(ValueError, match="99 draws are kept, but the engine returned 20"):
        calibration_study({"few": few_draws}, [(3, 2)], 1, key=jax.random.key(0))


def few_draws(responses: Responses, key: Array) -> Posterior:
    short = {k: v[None, :20] for k, v in exact_draws(responses, key).items()}
    return Posterior.from_samples(short, {}, responses, {})


def made_rows(covered: list[int], members: list[int], **cell) -> pd.DataFrame:
    """Return rows in which a group's 90% intervals cover `covered` of `members`."""
    place = {"engine": "e", "n_subjects": 9, "n_items": 9} | cell
    rows = []
    for own, n in zip(covered, members, strict=True):
        counts = {"members_theta": n}
        for level in ("50%", "90%"):
            counts |= {f"below{level}_theta": n - own, f"in{level}_theta": own}
            counts |= {f"above{level}_theta": 0}
        rows.append({**place, "failed": "", **counts})
    return pd.DataFrame(rows)


def test_the_error_of_coverage_is_that_between_replications():
    """Replications that cover all or nothing count as one observation each."""
    covered, members = [10, 10, 10, 0, 10, 10, 0, 10], [10] * 8
    own = coverage_table(made_rows(covered, members), 0.05).set_index("level").loc[0.9]
    shares = np.array(covered) / 10
    assert own["coverage"] == pytest.approx(0.75)
    assert own["se"] == pytest.approx(shares.std(ddof=1) / np.sqrt(8), rel=1e-10)
    assert own["low"] == pytest.approx(0.75 - t.ppf(0.975, 7) * own["se"], rel=1e-10)
    assert own["below"] == pytest.approx(0.25)
    assert own["verdict"] == "calibrated"


def test_the_error_of_coverage_is_never_below_that_of_independent_members():
    own = coverage_table(made_rows([3, 1, 0], [3, 1, 0]), 0.05).set_index("level").loc[0.9]
    assert (own["coverage"], own["members"], own["replications"]) == (1, 4, 2)
    assert own["se"] == pytest.approx(np.sqrt(0.9 * 0.1 / 4), rel=1e-10)


def test_trust_begins_where_no_larger_size_fails():
    sizes = {(5, 5): 99, (10, 5): 80, (10, 10): 90, (20, 20): 91}
    tables = [
        coverage_table(made_rows([n] * 50, [100] * 50, n_subjects=i, n_items=j), 0.05)
        for (i, j), n in sizes.items()
    ]
    trust = trust_table(pd.concat(tables[::-1]))
    assert trust[["engine", "group", "n_subjects", "n_items"]].to_numpy().tolist() == [
        ["e", "theta", 10, 10]
    ]
    assert trust_table(tables[1])["n_subjects"].isna().all()
    claims = claim_table(
        calibration_claims(
            pd.DataFrame(columns=[*CELL, "failed", "warned"]), *[pd.DataFrame()] * 2, trust
        )
    )
    assert (claims["here"].item(), claims["verdict"].item()) == (100, "from 10 x 10 on")


def made_ranks(ranks: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {"engine": "e", "n_subjects": 9, "n_items": 9, "failed": "", "rank_theta": ranks}
    ).assign(ties_theta=0, ess_theta=[50, *[100] * (len(ranks) - 1)])


@pytest.mark.parametrize(
    ("centre", "spread", "verdict"),
    [
        (0, 1, "calibrated"),
        (0, 2, "too narrow"),
        (0, 0.4, "too wide"),
        (1, 1, "biased low"),
        (-1, 1, "biased high"),
        (1.5, 2.5, "too narrow and biased low"),
    ],
)
def test_verdicts_on_truths_so_far_from_their_posteriors(centre, spread, verdict):
    """Truths are quantiles of N(centre, spread), while the posterior claims N(0, 1)."""
    z = centre + spread * norm.ppf((np.arange(200) + 0.5) / 200)
    table = rank_table(made_ranks((norm.cdf(z) * 100).astype(int).clip(0, 99)), 99, 1e-3)
    assert table["verdict"].tolist() == [verdict]
    assert table["dependent"].tolist() == [1]


def results(study: CalibrationStudy) -> pd.DataFrame:
    return study.replications.drop(columns="seconds")


def small_study(engines=("right",), n: int = 3, **options) -> CalibrationStudy:
    chosen = {name: ENGINES[name] for name in engines}
    return calibration_study(chosen, [(3, 2), (2, 2)], n, **{"key": jax.random.key(1)} | options)


def test_an_engine_is_judged_alike_whoever_is_beside_it():
    both = results(small_study(("narrow", "right")))
    own = both[both["engine"] == "right"].reset_index(drop=True)
    pd.testing.assert_frame_equal(own, results(small_study()))


def test_nothing_to_study_is_refused():
    for engines, sizes, n in (({}, [SIZE], 1), (ENGINES, [], 1), (ENGINES, [SIZE], 0)):
        with pytest.raises(ValueError, match="a study needs"):
            calibration_study(engines, sizes, n, key=jax.random.key(0))


def test_rank_curves_are_drawn_with_their_envelope(study: CalibrationStudy):
    figure = plot_rank_ecdf(study.replications, study.summary, SIZE, study.design)
    panels = np.array(figure.axes).reshape(7, 4)
    own = study.replications.query("engine == 'right'")["rank_theta"].to_numpy().astype(int)
    curve = panels[0, 0].lines[-1]
    z = np.arange(1, 100) / 100
    share = (own[:, None] < np.arange(1, 100)).mean(0)
    np.testing.assert_allclose(curve.get_ydata()[1:-1], share - z, atol=1e-12)
    envelope = simultaneous_envelope(REPLICATIONS, 99, 1 - 0.05 / len(study.summary))
    np.testing.assert_allclose(
        panels[0, 0].lines[0].get_ydata()[1:-1], envelope.lower / REPLICATIONS - z
    )
    framed = [[ax.spines["left"].get_linewidth() == 2 for ax in row] for row in panels]
    wrong = (study.summary["verdict"] != "calibrated").to_numpy().reshape(4, 7).T
    np.testing.assert_array_equal(framed, wrong)


def test_coverage_is_drawn_by_size_with_its_interval(study: CalibrationStudy):
    figure = plot_coverage(study.coverage)
    assert len(figure.axes) == 10
    of_theta = figure.axes[5]
    right = study.coverage.query("engine == 'right' and group == 'theta' and level == 0.9")
    (bars,) = of_theta.containers[0].lines[2]
    (segment,) = bars.get_segments()
    np.testing.assert_allclose(segment[:, 1], right[["low", "high"]].to_numpy()[0])


def test_hostile_names_are_drawn_as_they_are():
    hostile = r"a$\bad$"
    study = calibration_study({hostile: exact}, [SIZE], 3, key=jax.random.key(0))
    figure = study.draw(f"ranks_{SIZE[0]}x{SIZE[1]}")
    figure.canvas.draw()
    assert figure.axes[0].get_title() == hostile
