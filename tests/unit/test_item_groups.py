"""Items in groups: subjects split by group and joined again, and the information of such items."""

from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest
from agreement import assert_engines_agree, drawn_by_both

from bayesirt import Posterior, Priors, Responses, RunOptions
from bayesirt.checks.fit.item_pairs import local_dependence
from bayesirt.data.clusters import Clusters
from bayesirt.data.facets import groups_of
from bayesirt.errors import ResponseError
from bayesirt.inference.engines import sample_posterior
from bayesirt.inference.item_groups import by_group
from bayesirt.models import TwoPL
from bayesirt.ranking.ability_sources import ability_sources
from bayesirt.ranking.effective_items import effective_items


def grouped(
    n_subjects: int, n_groups: int, size: int, sd: float, seed: int = 0, spread: float = 1.0
):
    """Return abilities, and answers to groups of items with a subject effect for each group."""
    rng, group = np.random.default_rng(seed), np.repeat(np.arange(n_groups), size)
    theta, luck = rng.normal(size=n_subjects), sd * rng.normal(size=(n_subjects, n_groups))
    a, d = np.exp(0.3 * spread * rng.normal(size=len(group))), spread * rng.normal(size=len(group))
    right = rng.logistic(size=(n_subjects, len(group))) < a * (theta[:, None] + luck[:, group]) + d
    answers = Responses.from_arrays(right.astype(int))
    told = pd.DataFrame({"stem": [f"s{g}" for g in group]}, index=list(answers.items))
    return theta, replace(answers, item_metadata=told)


def test_each_subject_becomes_one_for_each_group_it_met():
    trials = np.array([[1, 1, 0, 0], [2, 0, 1, 1]])
    answers = Responses.from_arrays(np.minimum(trials, 1), trials)
    told = pd.DataFrame({"stem": ["s", "s", "t", ""]}, index=list(answers.items))
    cut = by_group(replace(answers, item_metadata=told), "stem")
    successes, counts = cut.cells.matrices()
    assert counts.tolist() == [[1, 1, 0, 0], [2, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert successes.tolist() == np.minimum(counts, 1).tolist()
    assert cut.clusters.of_each == ["subject 1", "subject 2", "subject 2", "subject 2"]


@pytest.mark.parametrize(
    ("column", "said"),
    [("nobody", "no column 'nobody'"), ("one", "all items"), ("own", "no two items")],
)
def test_columns_that_group_nothing_are_refused(column, said):
    answers = Responses.from_arrays(np.tri(4, 3))
    told = pd.DataFrame({"one": "x", "own": list("abc")}, index=list(answers.items))
    with pytest.raises(ResponseError, match=said):
        groups_of(replace(answers, item_metadata=told), column)


def known_groups(sigma: float, groups: list[str]) -> Posterior:
    shape, n = (2, 50), len(groups)
    rng = np.random.default_rng(1)
    samples = {
        "theta": rng.normal(size=(*shape, 8)), "a": np.exp(0.2 * rng.normal(size=(*shape, n))),
        "d": rng.normal(size=(*shape, n)), "sigma_group": np.full(shape, sigma),
    }  # fmt: skip
    answers = Responses.from_arrays(np.indices((8, n)).sum(0) % 2)
    said = {"groups": "stem", "link": "logit"}
    found = Posterior.from_samples(samples, {}, answers, said)
    return found.with_constants({"group_of": ("item", np.array(groups))})


def test_items_in_groups_tell_as_much_as_fewer():
    groups = [f"s{k // 4}" for k in range(12)]
    nothing = effective_items(known_groups(1e-6, groups))
    assert nothing.effective == pytest.approx(12, rel=1e-6)
    alone = effective_items(known_groups(0.7, [f"s{k}" for k in range(12)]))
    assert alone.effective == pytest.approx(12, rel=1e-9)
    posterior = known_groups(0.7, groups)
    found = effective_items(posterior)
    ratios = []
    for theta, a, d in zip(*(posterior.draws(x) for x in ("theta", "a", "d")), strict=True):
        p = 1 / (1 + np.exp(-(theta[:, None] * a + d)))
        told = a**2 * p * (1 - p)
        of_groups = told.reshape(8, 3, 4).sum(2)
        one, other = ((x / (1 + 0.49 * x)).sum(1) for x in (of_groups, told))
        ratios.append(np.mean(one / other))
    assert found.effective == pytest.approx(12 * np.mean(ratios), rel=1e-5)
    assert found.effective < 11
    assert found.share == pytest.approx(0.49)
    assert "12 questions in 3 groups by stem" in replace(found, sound=True).to_text()


@pytest.mark.parametrize("known", [False, True])
def test_the_check_names_the_column_that_dependent_pairs_share(known):
    """Pairs within a group are dependent; if the groups are known, such pairs are left out."""
    theta, answers = grouped(150, 6, 3, 1.6, spread=0)
    noise = np.random.default_rng(2)
    a, d = np.ones(answers.n_items), np.zeros(answers.n_items)
    samples = {
        name: x + 0.01 * noise.normal(size=(2, 20, len(x)))
        for name, x in {"theta": theta, "a": a, "d": d}.items()
    }
    posterior = Posterior.from_samples(samples, {}, answers, {})
    if known:
        stems = answers.item_metadata["stem"].to_numpy(str)
        posterior = posterior.with_constants({"group_of": ("item", stems)})
    found = local_dependence(posterior)
    one, other = (answers.item_metadata.loc[found.pairs[x], "stem"] for x in ("item_1", "item_2"))
    assert (one.to_numpy() == other.to_numpy()).any() != known
    assert ("rank with --group stem" in found.to_text()) != known


@pytest.mark.slow
def test_subjects_have_a_general_ability_that_factors_explain_and_one_for_each_group():
    theta, answers = grouped(12, 4, 3, 1.0)
    told = pd.DataFrame({"llm": list("aabbccddeeff"), "date": range(12)}, list(answers.subjects))
    answers = replace(answers, subject_metadata=told)
    options = RunOptions(num_warmup=30, num_samples=20, num_chains=2)
    model = TwoPL(Priors(groups="stem", ability="date + (1|llm)"))
    found = sample_posterior(
        answers, key=jax.random.key(0), model=model, engine="blocked", options=options
    )
    assert found["theta"].shape == (2, 20, 12)
    assert all((found[f"sigma_{x}"] > 0).all() for x in ("group", "theta", "skill_llm"))
    assert found.clusters is None
    assert found.item_groups.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert (found.subjects, found.items) == (list(answers.subjects), list(answers.items))
    assert (found.successes == answers.cells.matrices()[0]).all()
    assert np.corrcoef(found.theta.mean(0), theta)[0, 1] > 0.5
    told = ability_sources(found)
    assert set(told.effects["level"]) == set("abcdef")
    assert told.effects["n_subjects"].to_list() == [2] * 6
    assert found.tree["constant_data"]["llm_skill_of"].to_numpy().tolist() == list("aabbccddeeff")
    assert 0 < effective_items(found).share < 1


def test_clusters_with_groups_are_refused_with_the_way_out():
    _, answers = grouped(12, 4, 3, 1.0)
    answers = replace(answers, clusters=Clusters.of(list("aabbccddeeff")))
    with pytest.raises(ResponseError, match="with --subject-factors in place of --cluster"):
        groups_of(answers, "stem")


@pytest.mark.statistical
@pytest.mark.slow
def test_nuts_agrees_on_abilities_in_general_and_in_groups():
    _, answers = grouped(20, 6, 4, 1.0)
    options = RunOptions(num_warmup=500, num_samples=2_000, num_chains=2)
    draws = drawn_by_both(answers, model=TwoPL(Priors(groups="stem")), options=options)
    assert_engines_agree(draws, ("theta", "d", "sigma_group"), 0.35, 0.3)


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_hold_with_groups_and_are_too_narrow_without():
    """Coverage of 90% intervals of all differences in six sets of 40 x 100, groups of 5, sd .8."""
    held = {"": [], "stem": []}
    first, second = np.triu_indices(40, 1)
    for seed in range(6):
        theta, answers = grouped(40, 20, 5, 0.8, seed)
        truth = (theta[first] - theta[second]) / theta.std()
        for column, shares in held.items():
            options = RunOptions(num_warmup=150, num_samples=250, num_chains=2, thinning=2)
            posterior = sample_posterior(
                answers, key=jax.random.key(seed), model=TwoPL(Priors(groups=column)),
                engine="blocked", options=options,
            )  # fmt: skip
            draws = posterior.reported.theta
            low, high = np.quantile(draws[:, first] - draws[:, second], [0.05, 0.95], axis=0)
            shares.append(np.mean((low <= truth) & (truth <= high)))
    print({column or "none": np.round(shares, 3) for column, shares in held.items()})
    assert np.mean(held["stem"]) > 0.87
    assert np.mean(held[""]) < 0.87
