"""The FPC study grows suites as the bank does, measures correctly, and reports its tables.

Most tests use made-up predictions instead of calibrating.
"""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from tiny_studies import FPC as TINY
from tiny_studies import made_chain

from bayesirt.bank.growing_suite import add_benchmark, create_suite
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.studies import fpc_chain, fpc_tasks
from bayesirt.studies.engine import Study
from bayesirt.studies.fpc import fpc_found, fpc_study
from bayesirt.studies.fpc_chain import (
    Chain,
    first_benchmarks,
    measure_predictions,
    measure_random,
    predict_benchmark,
    run_chain,
    shares,
)
from bayesirt.studies.fpc_tasks import (
    FPC_QUICK,
    FPC_SIMULATED,
    METHODS,
    FPCDesign,
    FPCMatrix,
    SimulatedSuite,
    chain_order,
    chain_task,
    conditions_of,
    divided,
    given_matrix,
    simulated_matrix,
    tasks_of,
)
from bayesirt.studies.labels import read_labels
from bayesirt.studies.measures import read_printed
from bayesirt.studies.tasks import PortableKey, compile_clock


def made_matrix(simulated: bool = True) -> FPCMatrix:
    matrix = simulated_matrix(TINY.simulated, np.random.default_rng(0))
    families = () if simulated else tuple(f"family {k // 4}" for k in range(40))
    return replace(matrix, families=families, simulated=simulated)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fpc_tasks, "run_chain", made_chain)


def test_the_clock_tells_compiling_from_running():
    def work(x):
        return (x @ x.T).sum()

    compiled, x = jax.jit(work), np.ones((7, 5))
    with compile_clock() as whole:
        with compile_clock() as first:
            compiled(x).block_until_ready()
        with compile_clock() as second:
            compiled(x).block_until_ready()
    assert 0 < first.compiling < first.seconds
    assert second.compiling == 0
    assert whole.compiling == pytest.approx(first.compiling)
    assert whole.seconds >= first.seconds + second.seconds


def test_a_suite_begins_with_what_its_abilities_take():
    of = np.repeat(["x", "y", "z"], 20).astype(object)
    assert [first_benchmarks(of, ["x", "y", "z"], k) for k in (1, 2, 3)] == [1, 1, 2]
    with pytest.raises(ResponseError, match="3 benchmarks with 60 items cannot make a suite of 5"):
        first_benchmarks(of, ["x", "y", "z"], 5)


def test_the_oldest_eights_of_benchmarks_link_a_new_one():
    def step(name: str, kind: str) -> BankStep:
        known = KnownItems((f"{name} 1", f"{name} 2"), np.ones((2, 1)), np.zeros(2),
                           np.zeros((2, 2, 2)))  # fmt: skip
        return BankStep(kind, BankItems(known, (name, name), np.array([1.0, np.nan])))

    names = [f"b{k:02}" for k in range(20)]
    items = [f"{name} {q}" for name in names for q in (1, 2)]
    responses = Responses.from_arrays(np.indices((3, 40)).sum(0) % 2, items=items)
    chain = Chain(responses, responses, np.repeat(names, 2), 1, "clusters", 1)
    new = np.array([38, 39])
    for n, linked in ((1, 1), (7, 7), (8, 8), (15, 8), (16, 16), (19, 16)):
        steps = [step(name, "add" if k else "create") for k, name in enumerate(names[:n])]
        found = chain.linked(ItemBank(1, tuple(steps)), new)
        assert found.items == (*(f"{name} 1" for name in names[:linked]), *items[38:])


def test_a_chain_is_the_bank_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    matrix = made_matrix()
    told = []

    def remember(earlier: KnownItems, own: BankItems, *responses: Responses, key) -> pd.DataFrame:
        told.append((earlier, own))
        return pd.DataFrame()

    monkeypatch.setattr(fpc_chain, "predict_benchmark", remember)
    names, all_items = matrix.names[:2], np.arange(24)
    answers = matrix.responses.select(np.arange(40), all_items)
    key, rule = jax.random.key(0), {"n_anchors": 4, "how": "discrimination"}
    of = np.asarray(matrix.benchmarks[:24], object)
    chain = Chain(answers, answers, of, **rule, n_abilities=1)
    (step,) = run_chain(chain, names, key=key, concurrent=True)
    assert (step.step, step.benchmark, step.n_earlier, step.n_anchors) == (1, names[1], 4, 4)
    assert (step.fixed.asked_subject, step.fixed.asked_reference) == (4, 12)
    assert (step.concurrent.asked_subject, step.concurrent.asked_reference) == (8, 16)
    folder, everyone = tmp_path / "bank", np.arange(40)
    first, second = (answers.select(everyone, one) for one in (all_items[:12], all_items[12:]))
    create_suite(folder, first, names[:1] * 12, key=key, n_abilities=1, **rule)
    bank = add_benchmark(folder, names[1], second, key=key, **rule)
    (earlier, own), (again, other) = told
    assert set(earlier.names) == set(bank.anchors(names[0]))
    place = [bank.items.names.index(name) for name in (*earlier.names, *own.known.names)]
    wanted = bank.items.select(np.array(place))
    for values in ("a", "d", "covariance"):
        found = np.concatenate([getattr(earlier, values), getattr(own.known, values)])
        np.testing.assert_allclose(found, getattr(wanted, values), rtol=1e-10, atol=1e-12)
    assert own.anchors(names[1]) == pytest.approx(bank.anchors(names[1]))
    assert set(again.names) == set(earlier.names)
    assert np.abs(again.d - earlier.d).max() > 1e-3
    assert other.known.names == own.known.names


def test_fillers_say_nothing(monkeypatch: pytest.MonkeyPatch):
    matrix = made_matrix()
    rng = np.random.default_rng(1)
    known = KnownItems(matrix.responses.items, 0.5 + rng.uniform(size=(48, 1)),
                       rng.normal(size=48), np.tile(0.02 * np.eye(2), (48, 1, 1)))  # fmt: skip
    weights = np.full(12, np.nan)
    weights[[0, 5, 9]] = 1 / 3
    own = BankItems(known.select(np.arange(36, 48)), matrix.benchmarks[36:], weights)
    everything = np.arange(48)
    parts = [matrix.responses.select(np.arange(k, 40, 2), everything) for k in (0, 1)]
    tables = []
    for room in (1, 16):
        monkeypatch.setattr(fpc_chain, "_ROOM", room)
        earlier = known.select(np.arange(0, 36, 6))
        tables.append(predict_benchmark(earlier, own, *parts, key=jax.random.key(0)))
    one, other = tables
    assert list(one.index) == list(parts[1].subjects)
    truth = shares(parts[1])[:, 36:].mean(1)
    np.testing.assert_allclose(one["truth"], truth)
    for exact in ("truth", "p_irt", "gp_irt", "anchor_mean"):
        np.testing.assert_allclose(one[exact], other[exact], rtol=1e-7)
    # Means of 100 draws; an accuracy's standard deviation given anchors is about .1 here.
    assert np.abs(one["accuracy"] - other["accuracy"]).max() < 5 * 0.1 * np.sqrt(2 / 100)
    assert (one["low"] <= one["accuracy"]).all()
    assert (one["accuracy"] <= one["high"]).all()


def test_predictions_are_measured_by_hand():
    columns = {"accuracy": [0.5, 0.6, 0.9], "low": [0.4, 0.55, 0.7], "high": [0.6, 0.7, 0.8]}
    same = {name: [0.9, 0.6, 0.5] for name in ("p_irt", "gp_irt", "anchor_mean")}
    found = measure_predictions(pd.DataFrame({"truth": [0.4, 0.5, 0.7], **columns, **same}))
    own = {"mae": 40 / 3, "bias": 40 / 3, "spearman": 1, "coverage": 2 / 3, "width": 45 / 3}
    assert found["accuracy"] == pytest.approx(own)
    assert found["p_irt"] == pytest.approx(
        {"mae": 80 / 3, "bias": 40 / 3, "spearman": -1, "coverage": np.nan, "width": np.nan},
        nan_ok=True,
    )


def test_random_samples_are_measured():
    rng = np.random.default_rng(0)
    right = (rng.uniform(size=(500, 60)) < rng.uniform(0.3, 0.9, (500, 1))).astype(float)
    everything = measure_random(right, 60, rng)
    assert everything["mae"] == pytest.approx(0, abs=1e-9)
    assert (everything["coverage"], everything["width"]) == (1, pytest.approx(0, abs=1e-4))
    found = measure_random(right, 20, rng)
    share = right.mean(1)
    # Mean of 20 of 60 items drawn without replacement; its error is nearly normal.
    sd = np.sqrt(share * (1 - share) / 20 * (60 - 20) / (60 - 1))
    expected = 100 * sd.mean() * np.sqrt(2 / np.pi)
    assert found["mae"] == pytest.approx(expected, rel=0.05)
    assert abs(found["bias"]) < 100 * norm.isf(5e-7) * sd.mean()
    assert found["coverage"] == pytest.approx(0.9, abs=0.03)


def test_subjects_are_divided_as_is_said():
    matrix = made_matrix(simulated=False)
    for split in ("random", "abler", "families"):
        reference, test = divided(matrix, split, np.random.default_rng(3))
        assert not set(reference) & set(test)
        assert len(reference) == 30
        assert len(test) == (8 if split == "families" else 10)
        again = divided(matrix, split, np.random.default_rng(3))
        np.testing.assert_array_equal(again[1], test)
    family = np.asarray(matrix.families)
    assert not set(family[reference]) & set(family[test])
    score = shares(matrix.responses).mean(1)
    reference, test = divided(matrix, "abler", np.random.default_rng(3))
    assert score[test].min() >= score[reference].max()


def test_every_benchmark_is_last_in_turn():
    matrix = made_matrix()
    orders = [chain_order(matrix, c, np.random.default_rng(c)) for c in range(8)]
    assert [order[-1] for order in orders] == [*matrix.names, *matrix.names]
    assert all(sorted(order) == list(matrix.names) for order in orders)
    assert orders[0] != orders[4]


def test_what_cannot_be_studied_is_refused():
    matrix = made_matrix()
    responses, groups = matrix.responses, dict(zip(matrix.responses.items, matrix.benchmarks,
                                                   strict=True))  # fmt: skip
    families = {name: str(k // 4) for k, name in enumerate(responses.subjects)}
    assert given_matrix(responses, groups, families).families[5] == "1"
    trials = np.ones((40, 48), int)
    trials[0, :3] = 0
    holes = Responses.from_arrays(shares(responses).astype(int) * trials, trials,
                                  items=responses.items)  # fmt: skip
    few = responses.select(np.arange(12), np.arange(48))
    one = dict.fromkeys(families, "all")
    for given, said in (
        ((holes, groups), "3 of the answers are missing"),
        ((responses, dict.fromkeys(groups, "x")), "at least 3 benchmarks, got 1"),
        ((few, groups), "a quarter of 12 subjects is too few"),
        ((responses, groups, dict(list(families.items())[1:])), "for subject 'subject 1'"),
        ((responses, groups, one), r"families \(1\) cannot be split"),
    ):
        with pytest.raises(ResponseError, match=said):
            given_matrix(*given)


def test_labels_are_read(tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_text("item,benchmark\na,x\nb,7\n")
    assert read_labels(path, "item", "benchmark") == {"a": "x", "b": "7"}
    for text, said in (
        ("item,kin\na,x\n", "must have the columns item and benchmark"),
        ("item,benchmark\na,x\na,y\n", "'a' twice"),
        ("item,benchmark\na,x\nb,\n", "no benchmark for item 'b'"),
    ):
        path.write_text(text)
        with pytest.raises(ResponseError, match=said):
            read_labels(path, "item", "benchmark")


def test_one_thing_is_varied_at_a_time():
    matrix, design = (
        made_matrix(simulated=False),
        FPCDesign(orders=3, references=(25, 30, 99), n_abilities=1),
    )
    conditions = conditions_of(design, matrix)
    assert len(set(conditions)) == len(conditions) == 4 + 8 + 1 + 8
    usual = [c for c in conditions if c.concurrent]
    assert [(c.n_anchors, c.chains, c.concurrent) for c in usual] == [
        (n, 12, 4) for n in (10, 25, 50, 100)
    ]
    assert [c.n_reference for c in conditions if c.n_reference] == [25]
    assert {c.split for c in conditions_of(FPC_SIMULATED, made_matrix())} == {"random", "abler"}
    tasks = tasks_of(design, matrix, conditions, PortableKey.of(jax.random.key(0)))
    chains = [task.places[0][1][1] for task in tasks]
    assert chains[:48] == [chain for chain in range(12) for _ in range(4)]
    orders = {tuple(t.work.args[3]) for t, chain in zip(tasks, chains, strict=True) if chain == 1}
    assert len(orders) == 1


def test_long_chains_are_measured_at_some_steps():
    suite = simulated_matrix(SimulatedSuite(57, 11, 4, 1), np.random.default_rng(0))
    key = PortableKey.of(jax.random.key(0))
    condition = conditions_of(TINY, suite)[0]
    task = chain_task(condition, (0, 3), suite, FPC_SIMULATED.measured, key)
    steps = list(dict.fromkeys(place[2] for _, place in task.places))
    assert steps == [1, 9, 17, 25, 32, 40, 48, 56]
    assert task.places[-1] == ("chains", (0, 3, 56, "random"))


@pytest.fixture
def wide_study(at_once) -> tuple[Study, FPCMatrix]:
    """Return a study of a given matrix, and that matrix."""
    matrix = made_matrix(simulated=False)
    groups = dict(zip(matrix.responses.items, matrix.benchmarks, strict=True))
    families = dict(zip(matrix.responses.subjects, matrix.families, strict=True))
    design = replace(TINY, anchors=(10, 100), orders=2)
    given = {"responses": matrix.responses, "groups": groups, "families": families}
    return fpc_study(design, key=jax.random.key(0), **given), matrix


def with_errors(wide: tuple[Study, FPCMatrix], **off: float) -> Study:
    """Return a study with the given errors of some methods."""
    study, matrix = wide
    rows = study.replications.assign(n_items=120.0)
    for method, mae in off.items():
        rows.loc[rows["method"] == method, "mae"] = mae
    return fpc_found(rows, matrix)


def test_the_claims_say_what_the_tables_say(wide_study):
    fine = with_errors(wide_study, random=3.0).claims.set_index("claim")
    assert fine.loc["Given answers, subjects", "here"] == 40
    assert fine.loc["Given answers, items", "here"] == 48
    assert fine.loc["Given answers, benchmarks that join one by one", "here"] == 4
    assert fine.loc["10 anchors, FPC, MAE"].tolist()[:2] == pytest.approx([1, 0])
    title = "10 anchors, FPC minus concurrent calibration, MAE over "
    concurrent = fine[fine.index.str.startswith(title)].iloc[0]
    assert concurrent.tolist()[:2] == pytest.approx([-1, 0])
    assert "10 anchors, FPC minus random sampling, MAE over 16 predictions" in fine.index
    lower = fine[fine.index.str.endswith("share of predictions at or below it")]["here"]
    assert lower.tolist() == [1.0] * 8
    aims = fine[fine.index.str.contains("of 120 items")]["verdict"]
    assert aims.tolist() == ["meets the aim of 2.5 points"] * 4
    changes = fine[fine.index.str.contains("change of FPC's MAE")]["verdict"]
    assert "above 0" not in changes.tolist()
    held = fine.loc[
        "10 anchors, subjects of other families, FPC, share of accuracies inside 90% intervals"
    ]
    assert held["here"] == 1
    assert fine.loc["10 anchors, subjects of other families, FPC, MAE", "here"] == pytest.approx(1)
    assert (
        fine.loc["10 anchors, subjects abler than the reference, random sampling, MAE", "here"] == 3
    )
    assert fine.index.str.contains(r"Spearman \(paper: MMLU").any()
    assert fine[fine.index.str.contains("paper: about")]["paper"].tolist() == [2, 3]
    poor = with_errors(wide_study, fixed=2.7, random=2.0, anchor_mean=4.0).claims.set_index("claim")
    behind = poor[poor.index.str.match("10 anchors, FPC minus .* predictions$")]["verdict"]
    assert behind.tolist().count("above 0") == 3
    above = poor[poor.index.str.match("Of 1 numbers of anchors up to 25, those")]["here"]
    assert sorted(above) == [0, 1, 1, 1]
    aims = poor[poor.index.str.contains("of 120 items")]["verdict"]
    assert aims.tolist() == ["misses the aim of 2.5 points"] * 4
    study = with_errors(wide_study)
    once = study.replications[study.replications["chain"] == 0]
    few = fpc_found(once, wide_study[1]).claims
    changes = few[few["claim"].str.contains("change of FPC's MAE")]
    assert changes["error"].isna().all()
    assert set(changes["verdict"]) == {"not told from 0"}


def test_printed_figures_are_known_methods():
    printed = read_printed("fpc_printed")
    assert set(printed["method"].dropna()) <= set(METHODS)
    table = printed[printed["quantity"] == "spearman"]
    assert len(table) == 21
    assert table["value"].between(0.68, 0.98).all()


def test_a_quick_study_beats_random_sampling(tmp_path: Path):
    design = replace(FPC_QUICK, anchors=(10,), rule_anchors=(), references=())
    study = fpc_study(design, key=jax.random.key(1), folder=tmp_path)
    rows = study.tables["methods"].set_index(["anchors", "method"])
    for anchors in design.anchors:
        fixed = rows.loc[(anchors, "fixed")]
        assert fixed["mae"] < 0.8 * rows.loc[(anchors, "random"), "mae"]
        # 2 predictions of 60 subjects: five standard errors, if errors were independent.
        assert abs(fixed["coverage"] - 0.9) < 5 * np.sqrt(0.09 / 120)
