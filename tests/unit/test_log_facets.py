"""Judges, prompts and scaffolds in logs, as facets of answers and factors of subjects."""

import pytest
from harness_data import (
    MODELS,
    deepeval,
    deepeval_case,
    helm,
    inspect_eval,
    inspect_header,
    instance,
    lm_eval,
    lm_eval_row,
    promptfoo,
    promptfoo_row,
    sample,
    stat,
    write_json,
)

from bayesirt import read_responses
from bayesirt.errors import ResponseError


def _judged(model, *judges, **about):
    """Return the header of an inspect log whose scorers use these judges."""
    header = inspect_header(model)
    scorers = [{"name": "inspect_ai/model_graded_qa", "options": {"model": x}} for x in judges]
    return header | {"eval": header["eval"] | {"scorers": scorers} | about}


def _samples(*grades):
    """Return three samples, each with the grades of scorers that share a name."""
    names = ["model_graded_qa", "model_graded_qa1"][: len(grades)]
    return [
        sample(k, None, scores={n: {"value": x[k]} for n, x in zip(names, grades, strict=True)})
        for k in range(3)
    ]


def test_each_judge_in_a_log_of_inspect_grades_each_question(tmp_path):
    for model in MODELS:
        header = _judged(model, "gpt", "claude")
        inspect_eval(tmp_path / f"{model[5:]}.eval", _samples("CIC", "CII"), header)
    read = read_responses(tmp_path, facet="judge")
    assert read.items[:2] == ("mul/0 · gpt", "mul/0 · claude")
    assert read.item_metadata["judge"].tolist() == ["gpt", "claude"] * 3
    assert read.item_metadata["question"].nunique() == 3
    assert read.cells.totals(0).successes.tolist() == [3, 3, 0, 0, 3, 0]
    assert read_responses(tmp_path, metric="model_graded_qa", facet=()).n_items == 3
    with pytest.raises(ResponseError, match="--metric"):
        read_responses(tmp_path)


def test_judges_of_one_run_may_stand_in_logs_of_their_own(tmp_path):
    for model in MODELS:
        roles = {"grader": {"model": "claude"}}
        for name, header in (
            ("one", _judged(model, "gpt")),
            ("two", _judged(model, None, model_roles=roles)),
        ):
            grades = "CIC" if name == "one" else "CCC"
            inspect_eval(tmp_path / f"{model[5:]}_{name}.eval", _samples(grades), header)
    read = read_responses(tmp_path, facet="judge")
    assert read.n_items == 6
    assert set(read.item_metadata["judge"]) == {"gpt", "claude"}
    with pytest.raises(ResponseError, match="contradict"):
        read_responses(tmp_path)


def test_solvers_and_arguments_of_tasks_are_factors_and_facets(tmp_path):
    for model in MODELS[:2]:
        for solver in ("react", None):
            about = {"solver": solver, "task_args": {"style": "short"}}
            plan = {"steps": [{"solver": "system_message"}, {"solver": "generate"}]}
            header = _judged(model, **about) | {"plan": plan}
            name = f"{model[5:]}_{solver}.eval"
            inspect_eval(tmp_path / name, [sample(k, "CIC"[k]) for k in range(3)], header)
    read = read_responses(tmp_path, factors=("model", "solver"))
    assert read.subjects[0] == "acme/large · system_message + generate"
    assert read.subject_metadata["solver"].nunique() == 2
    with pytest.raises(ResponseError, match="all rows have the same 'style', 'short'"):
        read_responses(tmp_path, facet="style")


def test_prompts_of_promptfoo_are_a_facet_or_a_factor(tmp_path):
    rows = [
        promptfoo_row(test, model, (test + len(prompt)) % 2, prompt)
        for test in range(3)
        for model in ("a", "b")
        for prompt in ("Say {{q}}", "Think: {{q}}")
    ]
    path = promptfoo(tmp_path / "results.json", rows)
    assert read_responses(path).n_subjects == 4
    faceted = read_responses(path, facet="prompt")
    assert faceted.subjects == ("a", "b")
    assert faceted.n_items == 6
    assert set(faceted.item_metadata["prompt"]) == {"Say {{q}}", "Think: {{q}}"}
    crossed = read_responses(path, factors="model,prompt")
    assert crossed.subjects[1] == "a · Think: {{q}}"
    assert crossed.n_items == 3


def test_judges_of_promptfoo_and_deepeval(tmp_path):
    for judge in ("gpt", "claude"):
        rubric = {"type": "llm-rubric", "value": "kind"}
        rows = [
            promptfoo_row(
                k, model, k % 2,
                testCase={"assert": [rubric], "options": {"provider": {"id": judge}}},
            )
            for k in range(2) for model in ("a", "b")
        ]  # fmt: skip
        promptfoo(tmp_path / "pf" / f"{judge}.json", rows, description="kindness")
    assert set(read_responses(tmp_path / "pf", facet="judge").items) == {
        f"kindness/{k} · {judge}" for k in range(2) for judge in ("gpt", "claude")
    }
    for model in ("a", "b"):
        cases = [deepeval_case(k, k % 2) for k in range(3)]
        for case in cases:
            other = {"name": "Tone [GEval]", "score": 1.0, "evaluationModel": "claude"}
            case["metricsData"].append(other)
        deepeval(tmp_path / "de" / f"test_run_{model}.json", model, cases)
    read = read_responses(tmp_path / "de", facet="judge", threshold=0.5)
    assert set(read.item_metadata["judge"]) == {"judge", "claude"}


def test_examples_in_prompts_of_lm_eval_are_a_facet(tmp_path):
    for model in MODELS:
        for shots, date in ((0, "2026-11-21T10-58-10"), (5, "2026-11-22T10-58-10")):
            rows = [lm_eval_row(k, (k + shots) % 2) for k in range(2)]
            path = lm_eval(tmp_path, model, rows, date=date)
            totals = {"results": {}, "model_name": model, "n-shot": {"arc": shots}}
            write_json(path.parent / f"results_{date}.json", totals)
    read = read_responses(tmp_path, facet="fewshot")
    assert set(read.items) == {"arc/0 · 0", "arc/0 · 5", "arc/1 · 0", "arc/1 · 5"}


def test_metrics_are_a_facet_of_any_log(tmp_path):
    for model in MODELS:
        rows = [instance(f"id{k}", k % 2, stat("safety_gpt_score", 1)) for k in range(3)]
        helm(tmp_path, model, rows)
    read = read_responses(tmp_path, facet="metric", metric=("exact_match", "safety_gpt_score"))
    assert set(read.item_metadata["metric"]) == {"exact_match", "safety_gpt_score"}
    with pytest.raises(ResponseError, match=r"do not record `judge`; .* trial, metric, model"):
        read_responses(tmp_path, facet="judge", metric="exact_match")


def test_a_log_that_does_not_tell_a_facet_is_named(tmp_path):
    inspect_eval(tmp_path / "a.eval", _samples("CIC"), _judged("a", "gpt"))
    inspect_eval(tmp_path / "b.eval", _samples("CIC"), _judged("b"))
    with pytest.raises(ResponseError, match=r"b\.eval does not record `judge`"):
        read_responses(tmp_path, facet="judge")
    inspect_eval(tmp_path / "b.eval", _samples("CIC", "CCC"), _judged("b", "gpt", "gpt"))
    with pytest.raises(ResponseError, match="`model_graded_qa`, `model_graded_qa1`: choose with"):
        read_responses(tmp_path, facet="judge")
