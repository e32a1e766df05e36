"""Explanations of item difficulty: formulas, facets, tables of items, and reported sources."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from agreement import assert_engines_agree, drawn_by_both
from numpyro.handlers import seed, trace

from bayesirt import Posterior, Priors, Responses, RunOptions, read_responses
from bayesirt.data.clusters import Clusters
from bayesirt.data.difficulty import columns_of, design_of, parts_of
from bayesirt.data.facets import explained_by, groups_of
from bayesirt.errors import ResponseError
from bayesirt.inference.engines import plan_engine
from bayesirt.models import Continuous, Graded, LaRT, Normal, Repeats, ThreePL, TwoPL
from bayesirt.models.named import model_named
from bayesirt.ranking.difficulty_sources import difficulty_sources
from bayesirt.ranking.settings import Settings

ITEMS = pd.DataFrame(
    {
        "minutes": [1.0, 10.0, 100.0, 1000.0],
        "judge": ["x", "y", "x", "y"],
        "level": ["low", "low", "mid", "high"],
        "same": 1,
        "own": list("abcd"),
        "gone": [1, np.nan, 2, 3],
        "zero": [0, 1, 2, 3],
        "judge's model": [1, 2, 1, 2],
        "judge_s_model": [1, 2, 2, 1],
    },
    index=[f"q{k}" for k in range(4)],
)


def test_covariates_are_standardised_and_levels_are_found():
    design = design_of("log(minutes) + level + (1|judge)", ITEMS)
    slope, *levels = design.covariates
    assert slope.name == "log(minutes)"
    assert slope.centre == pytest.approx(np.log(1000) / 2)
    assert design.z[:, 0] * slope.spread + slope.centre == pytest.approx(np.log(ITEMS["minutes"]))
    assert [x.name for x in levels] == ["level[low]", "level[mid]"]  # relative to high
    assert [(x.name, x.levels) for x in design.factors] == [
        ("judge", Clusters(("x", "y"), (0, 1, 0, 1)))
    ]
    assert columns_of("log(minutes) + level + (1|judge)") == ["level", "minutes", "judge"]


def test_a_formula_says_what_explains_what():
    told = parts_of("ability ~ 0 + (1|llm); difficulty ~ log(minutes); severity ~ (1|judge)")
    assert told == {"ability": "0 + (1|llm)", "difficulty": "log(minutes) + (1|judge)"}
    assert columns_of(told["ability"]) == ["llm"]
    assert parts_of("") == {"ability": "", "difficulty": ""}
    for wrong in ("log(minutes)", "speed ~ minutes", "ability ~", "~ minutes"):
        with pytest.raises(ResponseError, match="explains neither ability nor difficulty"):
            parts_of(wrong)


def test_nothing_explains_nothing():
    assert not design_of("  ", ITEMS)
    assert columns_of("") == []


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("minuts", "no column 'minuts'; did you mean 'minutes'"),
        ("(1|nobody)", "no column 'nobody'; they have minutes"),
        ("log(minutes", "cannot be read"),
        ("minutes ~ judge", "left side"),
        ("(minutes|judge)", "write (1|column)"),
        ("(1|judge:level)", "write (1|column)"),
        ("twice(minutes)", "unknown function 'twice'; supported are log"),
        ("gone", "1 of 4 items have no 'gone', such as 'q1'"),
        ("log(zero)", "'log(zero)' is not a number for item 'q0'"),
        ("same", "'same' is the same for all items"),
        ("(1|own)", "no two items have the same 'own'"),
        ("(1|same)", "all items have the same 'same'"),
        ("(1|`judge's model`) + (1|judge_s_model)", "appears twice in"),
    ],
)
def test_a_formula_that_cannot_be_used_is_refused(formula, said):
    with pytest.raises(ResponseError, match=r"^[^\n]*$") as error:
        design_of(formula, ITEMS)
    assert said in str(error.value)


def judged(tmp_path: Path, rows: str = "") -> Path:
    path = tmp_path / "judged.csv"
    told = [
        f"m{i},q{j},{judge},{(i + j + k) % 2},{j}\n"
        for i in range(3)
        for j in range(2)
        for k, judge in enumerate(["ann", "bob"])
    ]
    path.write_text("model,item,who judged,score,minutes\n" + "".join(told) + rows)
    return path


def test_an_item_is_a_question_as_one_judge_grades_it(tmp_path):
    found = read_responses(judged(tmp_path), facet="who judged", describing="minutes")
    assert found.items == ("q0 · ann", "q0 · bob", "q1 · ann", "q1 · bob")
    assert found.item_metadata["question"].to_list() == ["q0", "q0", "q1", "q1"]
    assert found.item_metadata["who judged"].to_list() == ["ann", "bob"] * 2
    assert explained_by(found, ["who judged"]) == "(1|`who judged`) + (1|question)"
    assert explained_by(found, ["who judged"], "minutes + (1|question)") == (
        "minutes + (1|question) + (1|`who judged`)"
    )
    told = Settings().explained(found, ["who judged"]).priors
    assert (told.difficulty, told.groups) == ("(1|`who judged`) + (1|question)", "question")
    assert design_of(told.difficulty, found.item_metadata).factors[0].name == "who judged"


def test_the_column_of_items_may_be_called_question(tmp_path):
    frame = pd.read_csv(judged(tmp_path)).rename(columns={"item": "question"})
    found = read_responses(frame, facet="who judged")
    assert found.items == ("q0 · ann", "q0 · bob", "q1 · ann", "q1 · bob")
    assert found.item_metadata["question"].to_list() == ["q0", "q0", "q1", "q1"]


def test_facets_with_clusters_are_not_grouped_by_question(tmp_path):
    frame = pd.read_csv(judged(tmp_path)).assign(llm=lambda x: x["model"].replace("m2", "m1"))
    found = read_responses(frame, facet="who judged", cluster="llm")
    told = Settings().explained(found, ["who judged"]).priors
    assert (told.difficulty, told.groups) == ("(1|`who judged`) + (1|question)", "")


def test_a_table_of_items_may_describe_the_questions(tmp_path):
    table = tmp_path / "items.csv"
    table.write_text("item,topic\nq1,law\nq0,maths\nother,verse\n")
    found = read_responses(judged(tmp_path), facet="who judged", item_table=str(table))
    assert found.item_metadata["topic"].to_list() == ["maths", "maths", "law", "law"]
    whole = read_responses(
        judged(tmp_path), item_table=str(table), duplicates="first", describing="topic"
    )
    assert whole.item_metadata["topic"].to_list() == ["maths", "law"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"facet": "judge"}, "no column `judge`; did you mean"),
        ({"facet": "item"}, "is the column of items"),
        ({"facet": "nothing"}, "no column `nothing`"),
        ({"facet": "one"}, "all rows have the same 'one'"),
        ({"item_table": "nowhere.csv", "duplicates": "first"}, "is not a file"),
        ({"describing": "score", "duplicates": "first"}, "differs between the rows"),
    ],
)
def test_what_cannot_describe_answers_is_refused(tmp_path, options, said):
    path = judged(tmp_path)
    frame = pd.read_csv(path).assign(one="x")
    with pytest.raises(ResponseError, match=r"^[^\n]*$") as error:
        read_responses(frame, **options)
    assert said in str(error.value)


def test_repeated_rows_name_the_column_that_tells_them_apart(tmp_path):
    with pytest.raises(ResponseError, match="or --facet who judged if each has a different"):
        read_responses(judged(tmp_path))


def test_wide_tables_have_no_facets(tmp_path):
    wide = tmp_path / "wide.csv"
    wide.write_text("model,q0,q1\na,0,1\nb,1,0\n")
    with pytest.raises(ResponseError, match="--facet judge names"):
        read_responses(wide, facet="judge")


def test_models_and_engines_that_cannot_explain_say_so():
    described = replace(Responses.from_arrays(np.tri(6, 4)), item_metadata=ITEMS.set_axis(
        [f"item {k + 1}" for k in range(4)]
    ))  # fmt: skip
    for priors in (Priors(difficulty="minutes"), Priors(groups="judge")):
        with pytest.raises(ResponseError, match="lart does not support covariates of difficulty"):
            model_named("lart", priors)
    with pytest.raises(ResponseError, match="fixed priors"):
        Priors(kind="fixed", difficulty="minutes")
    for priors in (Priors(difficulty="minutes"), Priors(groups="judge")):
        with pytest.raises(ResponseError, match="laplace supports neither"):
            plan_engine("laplace", described, model=TwoPL(priors))
    grouped = replace(described, clusters=Clusters.of(list("aabbcc")))
    with pytest.raises(ResponseError, match="cannot be combined with clusters"):
        groups_of(grouped, "judge")
    assert LaRT.explained is False


@pytest.mark.parametrize(
    "model", [TwoPL(), ThreePL(), Repeats(), Graded(n=3), Continuous(), Normal()], ids=str
)
def test_every_model_of_one_ability_explains_difficulty_and_ability(model):
    """In the traced model, the centres of intercepts and abilities follow from the design."""
    design = design_of("log(minutes) + (1|judge)", ITEMS)
    skills = design_of("(1|level)", ITEMS, "subject")
    found = trace(seed(model.parameters, 0)).get_trace(4, 4, design=design, skills=skills)
    values = {name: site["value"] for name, site in found.items() if site["type"] == "sample"}
    harder = design.z @ values["beta"] + values["effect_judge"][np.array([0, 1, 0, 1])]
    centre = values["mu_d"] - values["mu_b"] * values["a"] - harder
    assert np.asarray(found["d"]["fn"].loc) == pytest.approx(np.asarray(centre), rel=1e-5)
    abler = values["skill_level"][np.array([0, 0, 1, 2])]
    assert np.asarray(found["theta"]["fn"].loc) == pytest.approx(np.asarray(abler), rel=1e-5)


def some_draws() -> Posterior:
    """Return draws with known contributions of judges, minutes and the residual to difficulty."""
    rng, shape = np.random.default_rng(0), (2, 400)
    z, judge = np.repeat([-1.0, 1.0], 10), np.tile([0, 1], 10)
    effect = np.array([0.5, -0.5]) + 0.1 * rng.normal(size=(*shape, 1))
    beta = 0.8 + 0.05 * rng.normal(size=(*shape, 1))
    rest = np.tile([0.4, 0.4, -0.4, -0.4], 5)
    d = 1 - beta * z - effect[..., judge] + rest
    responses = Responses.from_arrays(np.indices((12, 20)).sum(0) % 2)
    samples = {
        "theta": np.zeros((*shape, 12)), "a": np.ones((*shape, 20)), "d": d, "beta": beta,
        "mu_d": np.ones(shape), "effect_judge": effect,
    }  # fmt: skip
    dims = {"theta": ["subject"], "a": ["item"], "d": ["item"], "beta": ["covariate"]}
    found = Posterior.from_samples(
        samples, {}, responses, {"factors": '{"effect_judge": "judge"}', "covariates": '{"x": 2}'},
        coords={"covariate": ["x"], "judge_level": ["ann", "bob"]},
        dims={**dims, "effect_judge": ["judge_level"]},
    )  # fmt: skip
    return found.with_constants(
        {
            "covariates": (("item", "covariate"), z[:, None]),
            "judge_level_of": ("item", np.array(["ann", "bob"])[judge]),
        }
    )


def test_what_explains_difficulty_is_told():
    found = difficulty_sources(some_draws())
    slope = found.slopes.iloc[0]
    assert slope["slope"] == pytest.approx(0.4, abs=0.01)  # in the covariate's original unit
    assert slope["low"] < 0.4 < slope["high"]
    effects = found.of_factor("judge")
    assert effects["level"].to_list() == ["ann", "bob"]
    assert effects["effect"].to_list() == pytest.approx([0.5, -0.5])  # centred at their mean
    assert effects["n_items"].to_list() == [10, 10]
    z = np.repeat([-1.0, 1.0], 10)
    neutral = 1 - 0.8 * z + np.tile([0.4, 0.4, -0.4, -0.4], 5)

    def score(shift: float) -> float:
        return 100 * float((1 / (1 + np.exp(-(neutral - shift)))).mean())

    lost = [score(0) - score(x) for x in (0.5, -0.5)]
    assert effects["points"].to_list() == pytest.approx(lost, abs=0.1)
    variances = np.array([0.8**2, 0.5**2, 0.4**2])
    shares = found.shares.set_index("source")["share"]
    assert shares.index.to_list() == ["x", "judge", "not explained"]
    assert shares.to_numpy() == pytest.approx(variances / variances.sum(), abs=0.01)
    assert len(found.table) == 1 + 2 + 3
    assert effects["slope"].to_list() == pytest.approx([1, 1])


def test_a_judge_who_goes_by_something_else_is_named():
    posterior = some_draws()
    judge = np.tile([0, 1], 10)
    flat = np.where(judge == 1, 0.3, 1.0) * posterior["a"]
    tree = posterior.tree.copy()
    tree["posterior"] = tree["posterior"].to_dataset().assign(a=(("chain", "draw", "item"), flat))
    found = replace(difficulty_sources(Posterior(tree)), sound=True)
    slopes = found.of_factor("judge").set_index("level")["slope"]
    assert slopes.to_dict() == pytest.approx({"ann": 1 / 0.65, "bob": 0.3 / 0.65})
    assert (
        "bob tells models apart much less than the others do (46% of the usual" in found.to_text()
    )


def test_nothing_is_told_of_a_posterior_that_explains_nothing(small_run):
    with pytest.raises(ResponseError, match="rank with --facet"):
        difficulty_sources(small_run.posterior)
    assert small_run.difficulty is None
    assert small_run.effective_items is None


@pytest.mark.statistical
@pytest.mark.slow
def test_planted_severities_are_recovered_by_both_engines():
    """Four judges of 30 questions: intervals contain their severities, and engines agree."""
    rng = np.random.default_rng(0)
    severity, questions, minutes = np.array([-1.0, -0.2, 0.3, 0.9]), rng.normal(size=(2, 30)), 0.8
    q, k = np.divmod(np.arange(120), 4)
    d = 0.3 - minutes * questions[0, q] - questions[1, q] - severity[k] + rng.normal(0, 0.5, 120)
    theta, a = rng.normal(size=40), np.exp(0.3 * rng.normal(size=120))
    right = rng.logistic(size=(40, 120)) < theta[:, None] * a + d
    told = pd.DataFrame(
        {"judge": k.astype(str), "question": q.astype(str), "minutes": np.exp(questions[0, q])}
    )
    answers = Responses.from_arrays(right.astype(int))
    answers = replace(answers, item_metadata=told.set_axis(list(answers.items)))
    model = TwoPL(Priors(difficulty="log(minutes) + (1|judge) + (1|question)"))
    options = RunOptions(num_warmup=300, num_samples=500, num_chains=2)
    draws = drawn_by_both(answers, model=model, options=options)
    for posterior in draws.values():
        effects = difficulty_sources(posterior).of_factor("judge").set_index("level").sort_index()
        away = severity - severity.mean()
        assert np.corrcoef(effects["effect"], away)[0, 1] > 0.99
        assert (effects["low"] < away).all()
        assert (away < effects["high"]).all()
        slope = difficulty_sources(posterior).slopes.iloc[0]
        assert slope["low"] < minutes < slope["high"]
    names = ("theta", "d", "beta", "effect_judge", "effect_question", "sigma_effect_question")
    reported = {engine: posterior.reported for engine, posterior in draws.items()}
    assert_engines_agree(reported, names, 0.45, 0.35)
