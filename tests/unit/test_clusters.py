"""Clusters of subjects: how they are read, their prior, and their ranking."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpyro.infer.util import log_density
from scipy.special import expit
from small_data import write_table as write

from bayesirt import Responses, RunOptions, read_responses, sample_posterior
from bayesirt.data.clusters import Clusters
from bayesirt.errors import ResponseError
from bayesirt.estimators.cluster_shares import share_density
from bayesirt.inference.cluster_moves import share_moved, with_clusters
from bayesirt.inference.engines import plan_engine
from bayesirt.inference.one_ability import OneAbility
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.models import TwoPL
from bayesirt.names import in_percent
from bayesirt.posterior import Posterior
from bayesirt.ranking.cluster_ranking import rank_clusters
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.subject_ranking import rank_subjects
from bayesirt.report.ranking_plots import plot_clusters

CODES = (0, 1, 0, 2, 1, 0)
ROWS = pd.DataFrame(
    [(f"s{k}", f"llm{c}", f"q{j}", (k + j) % 2) for k, c in enumerate(CODES) for j in range(3)],
    columns=["subject", "llm", "item", "score"],
)
OF_EACH = [f"llm{c}" for c in CODES]


def some_sites(n_clusters: int = 3) -> dict[str, jax.Array]:
    rng = np.random.default_rng(3)
    sizes = {"theta": 6, "gamma": n_clusters, "a": 4, "d": 4}
    sites = {name: rng.normal(size=n) for name, n in sizes.items()}
    sites |= {k: rng.normal() for k in ("icc", "mu_a", "sigma_a", "mu_d", "mu_b", "sigma_d")}
    return {name: jnp.asarray(value) for name, value in sites.items()}


def test_prior_is_the_models():
    sites = some_sites()
    terms = jax.jit(with_clusters(OneAbility)(TwoPL(), CODES).terms)(sites)
    arguments = {"clusters": np.array(CODES), "n_clusters": 3}
    values = {k: v for k, v in terms.values.items() if k != "b"}
    cells = np.zeros((6, 4), int)
    density = jax.jit(lambda v: log_density(TwoPL(), (cells, cells), arguments, v)[0])(values)
    p = values["icc"]
    jacobians = jnp.log(p * (1 - p)) + sum(sites[k] for k in ("sigma_a", "sigma_d"))
    jacobians += sites["a"].sum()
    assert float(terms.total()) == pytest.approx(float(density + jacobians), rel=1e-12)


@pytest.mark.slow
def test_a_share_far_from_its_mode_comes_back():
    """Far below the mode, the local density tells too little about where the mode is."""
    rng = np.random.default_rng(0)
    codes = tuple(int(k) for k in np.repeat(np.arange(70), 2))
    values = jnp.asarray(np.repeat(rng.normal(0, 0.87, 70), 2) + rng.normal(0, 0.5, 140))
    way = with_clusters(OneAbility)(TwoPL(), codes)
    move = jax.jit(lambda key, logit: share_moved(RandomNumbers(key), way, logit, values))
    logit, drawn, accepted = jnp.asarray(-6.0), [], []
    for key in jax.random.split(jax.random.key(0), 2000):
        logit, taken = move(key, logit)
        drawn.append(float(logit))
        accepted.append(float(taken))
    assert drawn[10] > 0
    assert np.mean(accepted) > 0.8
    points = np.linspace(-12, 12, 4001)
    density = np.exp(jax.vmap(share_density(way.codes, 70, values))(jnp.asarray(points)))
    mean = (points * density).sum() / density.sum()
    sd = np.sqrt((points**2 * density).sum() / density.sum() - mean**2)
    assert np.mean(drawn[10:]) == pytest.approx(mean, abs=5 * sd / np.sqrt(1500))
    assert np.std(drawn[10:]) == pytest.approx(sd, rel=0.1)


def test_share_is_what_remains_when_clusters_are_integrated_out():
    theta = jnp.asarray(np.random.default_rng(0).normal(size=6))
    nodes = np.linspace(-8, 8, 401)

    @jax.jit
    def integrated(icc):
        """Return log p(θ | κ), with each cluster's ability integrated out on a grid."""
        grid = jnp.tile(jnp.asarray(nodes)[:, None], 3)
        each = jax.vmap(lambda g: jnp.stack([_of_cluster(theta, g, icc, c) for c in range(3)]))
        return jax.scipy.special.logsumexp(each(grid), 0).sum()

    density = jax.jit(share_density(np.array(CODES), 3, theta))
    shares = np.array([0.2, 0.5, 0.9])
    found = [float(density(jnp.log(k / (1 - k)))) for k in shares]
    expected = [float(integrated(jnp.asarray(k))) + np.log(k * (1 - k)) for k in shares]
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-9)


def _of_cluster(theta, gamma, icc, cluster):
    """Return one cluster's contribution to log p(γ, θ | κ)."""
    spread = jnp.sqrt(1 - icc)
    own = np.flatnonzero(np.array(CODES) == cluster)
    of_own = jax.scipy.stats.norm.logpdf(theta[own], gamma[cluster], spread).sum()
    return of_own + jax.scipy.stats.norm.logpdf(gamma[cluster], 0, jnp.sqrt(icc))


@pytest.mark.parametrize("name", ["level", "unit"])
def test_group_moves_keep_eta_and_know_their_jacobian(name):
    way, sites = with_clusters(OneAbility)(TwoPL(), CODES), some_sites()
    (move,) = (jax.jit(partial(way.along, line)) for line in way.model.lines if line.name == name)
    moved, log_jacobian = move(sites, jnp.array(0.4))

    @jax.jit
    def eta(sites):
        theta, a, d = way.terms(sites).returned
        return theta[:, None] * a + d

    np.testing.assert_allclose(eta(moved), eta(sites), atol=1e-12)
    assert float(jnp.abs(moved["gamma"] - sites["gamma"]).min()) > 0.01
    flat, unravel = jax.flatten_util.ravel_pytree(sites)
    along = jax.jacobian(
        lambda x: jax.flatten_util.ravel_pytree(move(unravel(x), jnp.array(0.4))[0])[0]
    )
    matrix = jax.jit(along)(flat)
    assert float(log_jacobian) == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-12)


@pytest.mark.parametrize("name", ["r.csv", "r.parquet"])
def test_a_column_of_a_long_table_names_clusters(name, tmp_path: Path):
    responses = read_responses(write(tmp_path / name, ROWS), cluster="llm")
    assert responses.clusters == Clusters(("llm0", "llm1", "llm2"), CODES)
    assert read_responses(tmp_path / name).clusters is None


def test_a_file_names_clusters_of_any_results(tmp_path: Path):
    wide = ROWS.pivot(index="subject", columns="item", values="score").reset_index()
    pairs = pd.DataFrame({"subject": ["more", *(f"s{k}" for k in range(6))]})
    write(tmp_path / "c.csv", pairs.assign(cluster=["x", *OF_EACH]))
    for name, rows in {"w.csv": wide, "r.parquet": ROWS}.items():
        path = write(tmp_path / name, rows)
        responses = read_responses(path, cluster=str(tmp_path / "c.csv"))
        assert responses.clusters is not None
        assert responses.clusters.of_each == OF_EACH


def test_clusters_stay_with_their_subjects(tmp_path: Path):
    responses = Responses.from_long(ROWS, cluster="llm")
    some = responses.select(np.array([4, 0, 3]), np.array([0, 1, 2]))
    assert some.clusters == Clusters(("llm1", "llm0", "llm2"), (0, 1, 2))
    again = Responses.from_long(responses.to_long(), score="successes", cluster="cluster")
    assert again.clusters == responses.clusters
    responses.to_parquet(tmp_path / "o.parquet")
    assert read_responses(tmp_path / "o.parquet").clusters == responses.clusters
    on_disk = read_responses(tmp_path / "o.parquet", out_of_core=True)
    assert on_disk.clusters == responses.clusters
    assert dict(responses.summary["value"])["clusters"] == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cluster": "nix"}, ("no column `nix`", "subject, llm")),
        ({"cluster": "item"}, ("`item` differs between the rows of subject 's0'", "one cluster")),
        ({"cluster": "empty"}, ("cluster's name is missing in data row 1",)),
    ],
)
@pytest.mark.parametrize("name", ["r.csv", "r.parquet"])
def test_bad_columns_are_refused(name, change, words, tmp_path: Path):
    path = write(tmp_path / name, ROWS.assign(empty=""))
    with pytest.raises(ResponseError) as error:
        read_responses(path, **change)
    assert all(word in str(error.value) for word in words), error.value


def test_bad_files_are_refused(tmp_path: Path):
    results = write(tmp_path / "r.csv", ROWS)
    pairs = pd.DataFrame({"subject": ["s0", "s1"], "cluster": ["x", "y"]})
    bad = {
        "names no cluster for subject 's2'": pairs,
        "must have the columns `subject` and `cluster`, not subject, llm": pairs.rename(
            columns={"cluster": "llm"}
        ),
        "differs between the rows of subject 's0'": pairs.assign(subject="s0"),
    }
    for words, rows in bad.items():
        path = write(tmp_path / "c.csv", rows)
        with pytest.raises(ResponseError, match=words):
            read_responses(results, cluster=str(path))
    wide = ROWS.pivot(index="subject", columns="item", values="score").reset_index()
    with pytest.raises(ResponseError, match="'llm' is not a file"):
        read_responses(write(tmp_path / "w.csv", wide), cluster="llm")
    with pytest.raises(ResponseError, match="no column `xxx"):
        read_responses(results, cluster="x" * 5000)
    with pytest.raises(ResponseError, match="6 subjects, but 2 have a cluster"):
        replace(Responses.from_long(ROWS), clusters=Clusters.of(["x", "y"]))
    with pytest.raises(ResponseError, match="give it a name"):
        replace(Responses.from_long(ROWS), clusters=Clusters.of(["x", " ", *"abcd"]))


def test_clusters_that_cannot_be_used_are_refused():
    responses = Responses.from_long(ROWS, cluster="llm")
    plan = partial(plan_engine, options=RunOptions(num_chains=2, num_samples=10))
    assert plan("auto", responses)[0] == "blocked"
    assert plan("nuts", responses)[0] == "nuts"
    assert plan("laplace", responses)[0] == "laplace"
    assert plan("auto", responses, model="lart")[0] == "blocked"
    with pytest.raises(
        ResponseError, match="laplace does not support clusters of subjects in LaRT"
    ):
        plan("laplace", responses, model="lart")
    with pytest.raises(ResponseError, match="all subjects are in the cluster 'x'"):
        plan("auto", replace(responses, clusters=Clusters.of(["x"] * 6)))
    with pytest.raises(ResponseError, match="each subject is in a cluster of its own"):
        plan("auto", replace(responses, clusters=Clusters.of(list("abcdef"))))


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    """Return the stored draws of ten LLMs with three runs each, too few draws to be sound."""
    return Posterior.load(Path(__file__).parents[1] / "stored" / "clustered" / "posterior.nc")


def test_posterior_knows_its_clusters(posterior: Posterior, small_run: Run, tmp_path: Path):
    posterior.save(tmp_path / "p.nc")
    again = Posterior.load(tmp_path / "p.nc")
    assert (
        again.clusters
        == posterior.clusters
        == Clusters.of([f"llm{k}" for k in np.repeat(np.arange(10), 3)])
    )
    assert posterior["gamma"].shape == (4, 15, 10)
    with pytest.raises(ResponseError, match="has no clusters"):
        rank_clusters(small_run.posterior)


def test_clusters_are_ranked_once_each(posterior: Posterior):
    ranking = rank_clusters(posterior)
    table = ranking.summary
    assert sorted(table["cluster"]) == sorted(f"llm{k}" for k in range(10))
    assert (table["n_subjects"] == 3).all()
    assert table["cluster"].iloc[0] in ("llm9", "llm8")
    assert table["rank_high"].max() <= 10
    assert ranking.icc_low < ranking.icc < ranking.icc_high
    assert ranking.icc > 0.6
    assert ranking.to_text().startswith("Which of 10 clusters is best is not known yet")
    text = replace(ranking, sound=True).to_text()
    first = table.iloc[0]
    best = in_percent(first["p_best"])
    assert text.startswith(f"Of 10 clusters, {first['cluster']} is best with probability {best}")
    assert "of the variance of abilities lies between clusters" in text


def test_the_picture_shows_clusters_and_their_subjects(posterior: Posterior):
    ranking, clusters = rank_subjects(posterior), rank_clusters(posterior)
    (ax,) = plot_clusters(clusters, ranking).axes
    assert [t.get_text() for t in ax.get_yticklabels()] == list(clusters.summary["cluster"])
    lines = ax.collections[0].get_segments()
    np.testing.assert_allclose([s[0, 0] for s in lines], clusters.summary["ability_low"])
    rows = ax.lines[1].get_ydata()
    assert np.bincount(np.asarray(rows, int)).tolist() == [3] * 10
    of_best = ranking.summary["cluster"] == clusters.summary["cluster"].iloc[0]
    drawn = np.asarray(ax.lines[1].get_xdata())[np.asarray(rows) == 0]
    np.testing.assert_allclose(np.sort(drawn), np.sort(ranking.summary["ability"][of_best]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:laplace. a normal approximation is rough")
def test_laplace_says_of_clusters_what_exact_draws_say():
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(15), 4)
    theta = np.sqrt(0.7) * rng.normal(size=15)[codes] + np.sqrt(0.3) * rng.normal(size=60)
    a, d = np.exp(0.4 * rng.normal(size=60)), 1.3 * rng.normal(size=60)
    right = rng.uniform(size=(60, 60)) < expit(theta[:, None] * a + d)
    responses = replace(Responses.from_arrays(right), clusters=Clusters.of(list(map(str, codes))))
    options = RunOptions(num_chains=2, num_samples=1000, num_warmup=500)
    near, exact = (
        sample_posterior(responses, key=0, model="2pl", engine=engine, options=options)
        for engine in ("laplace", "blocked")
    )
    for name in ("icc", "gamma", "theta"):
        one, other = (x.draws(name).reshape(2000, -1) for x in (near, exact))
        assert (np.abs(one.mean(0) - other.mean(0)) < 0.5 * other.std(0)).all()
        np.testing.assert_allclose(one.std(0).mean(), other.std(0).mean(), rtol=0.1)
