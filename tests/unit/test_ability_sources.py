"""Sources of ability: ranked factors, shares of variance, and combinations not yet run."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from agreement import assert_engines_agree, drawn_by_both

from bayesirt import Posterior, Priors, Responses, RunOptions, read_responses
from bayesirt.data.clusters import Clusters
from bayesirt.errors import ResponseError
from bayesirt.inference.engines import plan_engine
from bayesirt.models import TwoPL
from bayesirt.ranking.ability_sources import ability_sources
from bayesirt.ranking.settings import Settings

LLM, SCAFFOLD = np.array([0.9, -0.2, -0.7]), np.array([0.3, -0.3])
PAIRS = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)] * 2


def agents(tmp_path: Path, *, named: bool = False) -> Path:
    path = tmp_path / "agents.csv"
    rows = [
        f"{f'run {n},' if named else ''}llm{i},s{j},q{k},{(n + k) % 2}"
        for n, (i, j) in enumerate(PAIRS[: 10 if named else 5])
        for k in range(3)
    ]
    header = "model,llm,scaffold,item,score" if named else "llm,scaffold,item,score"
    path.write_text("\n".join([header, *rows]))
    return path


def test_subjects_are_named_by_their_factors_where_they_have_no_names(tmp_path):
    found = read_responses(agents(tmp_path), factors="llm,scaffold")
    assert found.subjects == ("llm0 · s0", "llm0 · s1", "llm1 · s0", "llm1 · s1", "llm2 · s0")
    assert found.subject_metadata["llm"].to_list() == ["llm0", "llm0", "llm1", "llm1", "llm2"]
    told = Settings().explained(found, factors=("llm", "scaffold")).priors
    assert told.ability == "(1|llm) + (1|scaffold)"
    part = found.select(np.array([4, 0]), np.arange(3))
    assert part.subject_metadata["scaffold"].to_list() == ["s0", "s0"]
    assert found.to_long()["llm"].to_list() == found.to_long()["subject"].str[:4].to_list()
    with pytest.raises(ResponseError, match="does not store columns of subjects"):
        found.to_parquet(tmp_path / "agents.parquet")


def test_names_of_their_own_stay(tmp_path):
    found = read_responses(agents(tmp_path, named=True), factors=["llm", "scaffold"])
    assert found.subjects[:2] == ("run 0", "run 1")
    assert found.subject_metadata.loc["run 3"].to_list() == ["llm1", "s1"]


def test_a_file_may_describe_subjects(tmp_path):
    table = tmp_path / "models.csv"
    table.write_text("model,year\nrun 1,2024\nrun 0,2023\n")
    path = agents(tmp_path, named=True)
    found = read_responses(path, subject_table=str(table))
    assert found.subject_metadata["year"].head(2).to_list() == ["2023", "2024"]
    with pytest.raises(ResponseError, match="8 of 10 subjects have no 'year', such as 'run 2'"):
        Settings(priors=Priors(ability="year")).explained(found)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"factors": "llm,skaffold"}, "no column `skaffold`; did you mean `scaffold`"),
        ({"of_subjects": "item"}, "differs between the rows of subject"),
        ({"subject_table": "nowhere.csv"}, "--subject-table nowhere.csv is not a file"),
    ],
)
def test_what_cannot_describe_subjects_is_refused(tmp_path, options, said):
    with pytest.raises(ResponseError, match=r"^[^\n]*$") as error:
        read_responses(agents(tmp_path, named=True), **options)
    assert said in str(error.value)


def test_clusters_and_factors_do_not_go_together():
    answers = Responses.from_arrays(np.tri(4, 3))
    told = pd.DataFrame({"llm": list("aabb")}, index=list(answers.subjects))
    told = Responses(
        answers.subjects, answers.items, answers.cells,
        clusters=Clusters.of(list("aabb")), subject_metadata=told,
    )  # fmt: skip
    with pytest.raises(ResponseError, match="cannot be combined"):
        plan_engine("auto", told, model=TwoPL(Priors(ability="(1|llm)")))


def some_draws() -> Posterior:
    """Return draws with known contributions of LLMs, scaffolds, a covariate and the residual."""
    rng, shape = np.random.default_rng(0), (2, 300)
    llm, scaffold = (np.array(x) for x in zip(*PAIRS, strict=True))
    z = np.tile([-1.0, 1.0], 5)
    skills = {
        "skill_llm": LLM + 0.05 * rng.normal(size=(*shape, 3)),
        "skill_scaffold": SCAFFOLD + 0.05 * rng.normal(size=(*shape, 2)),
        "beta_theta": 0.2 + 0.01 * rng.normal(size=(*shape, 1)),
    }
    rest = 0.1 * np.repeat([1.0, -1.0], 5)
    theta = skills["skill_llm"][..., llm] + skills["skill_scaffold"][..., scaffold]
    theta += skills["beta_theta"] * z + rest
    samples = {
        **skills, "theta": theta, "a": np.ones((*shape, 4)),
        "d": np.broadcast_to([-1.0, 0, 0, 1], (*shape, 4)).copy(),
        "sigma_theta": np.full(shape, 0.1),
    }  # fmt: skip
    names = {"skills": '{"skill_llm": "llm", "skill_scaffold": "scaffold"}'}
    found = Posterior.from_samples(
        samples, {}, Responses.from_arrays(np.indices((10, 4)).sum(0) % 2),
        names | {"subject_covariates": '{"year": 4}', "link": "logit"},
        coords={
            "llm_skill": ["x", "y", "z"], "scaffold_skill": ["f", "g"],
            "subject_covariate": ["year"],
        },
        dims={
            "theta": ["subject"], "a": ["item"], "d": ["item"], "skill_llm": ["llm_skill"],
            "skill_scaffold": ["scaffold_skill"], "beta_theta": ["subject_covariate"],
        },
    )  # fmt: skip
    return found.with_constants(
        {
            "llm_skill_of": ("subject", np.array(list("xyz"))[llm]),
            "scaffold_skill_of": ("subject", np.array(list("fg"))[scaffold]),
            "subject_covariates": (("subject", "subject_covariate"), z[:, None]),
        }
    )


def test_factors_are_ranked_and_combinations_that_were_not_run_predicted():
    posterior = some_draws()
    found, unit = ability_sources(posterior), posterior.theta.std(1).mean()
    llms = found.of_factor("llm")
    assert llms["level"].to_list() == ["x", "y", "z"]
    assert llms["rank"].to_list() == [1, 2, 3]
    assert llms["n_subjects"].to_list() == [4, 4, 2]
    assert llms["effect"].to_numpy() == pytest.approx((LLM - LLM.mean()) / unit, abs=0.03)
    assert found.slopes["slope"].to_list() == pytest.approx([0.2 / 4 / unit], abs=0.01)
    parts = np.array([0.2**2, LLM[[i for i, _ in PAIRS]].var()])
    shares = found.shares.set_index("source")["share"]
    assert shares["llm"] / shares["year"] == pytest.approx(parts[1] / parts[0], rel=0.1)
    assert shares.sum() == pytest.approx(1)
    table = found.combinations.set_index(["llm", "scaffold"])
    assert table.index[~table["run"]].to_list() == [("z", "g")]
    for i, j in np.ndindex(3, 2):
        eta = LLM[i] + SCAFFOLD[j] + np.array([-1.0, 0, 0, 1])
        row = table.loc[("xyz"[i], "fg"[j])]
        assert row["score"] == pytest.approx((1 / (1 + np.exp(-eta))).mean(), abs=0.02)
        assert row["score_low"] < row["score"] < row["score_high"]


def test_nothing_is_told_of_abilities_that_nothing_explains(small_run):
    assert small_run.skills is None
    with pytest.raises(ResponseError, match="rank with --subject-factors"):
        ability_sources(small_run.posterior)


@pytest.mark.statistical
@pytest.mark.slow
def test_planted_skills_are_recovered_by_both_engines():
    """Six LLMs in four scaffolds: intervals contain the effects, and engines agree."""
    rng = np.random.default_rng(3)
    llm, scaffold = rng.normal(0, 0.8, 6), rng.normal(0, 0.5, 4)
    i, j = np.divmod(np.arange(24), 4)
    theta = llm[i] + scaffold[j] + rng.normal(0, 0.3, 24)
    a, d = np.exp(0.3 * rng.normal(size=60)), rng.normal(size=60)
    answers = Responses.from_arrays((rng.logistic(size=(24, 60)) < theta[:, None] * a + d) * 1)
    told = pd.DataFrame({"llm": i.astype(str), "scaffold": j.astype(str)})
    answers = Responses(
        answers.subjects, answers.items, answers.cells,
        subject_metadata=told.set_axis(list(answers.subjects)),
    )  # fmt: skip
    options = RunOptions(num_warmup=400, num_samples=500, num_chains=2)
    model = TwoPL(Priors(ability="(1|llm) + (1|scaffold)"))
    draws = drawn_by_both(answers, model=model, options=options)
    found = ability_sources(draws["blocked"]).of_factor("llm").set_index("level").sort_index()
    truth = (llm - llm.mean()) / theta.std()
    assert np.corrcoef(found["effect"], truth)[0, 1] > 0.95
    assert ((found["low"] < truth) & (truth < found["high"])).mean() > 0.6
    names = ("theta", "d", "skill_llm", "skill_scaffold", "sigma_theta")
    assert_engines_agree(draws, names, 0.45, 0.35)
