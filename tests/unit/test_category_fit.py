"""Frequencies of each grade: by hand, where the model holds, and where it does not."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made_posterior import posterior_of
from scipy.stats import norm

from bayesirt import Continuous, Graded, Posterior, Responses, Scale
from bayesirt.checks.fit.categories import categories_in_words, category_fit, misfitting
from bayesirt.data.scales import PARTS
from bayesirt.likelihood.families import family_named
from bayesirt.models import ResponseModel

N, J = 150, 20
KINDS: dict[str, tuple[ResponseModel, Scale]] = {
    "graded": (Graded(n=3), Scale("graded", ("1", "2", "3", "4"))),
    "continuous": (Continuous(), Scale("continuous", full=10.0)),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def known(kind: str, change: np.ndarray | None = None, *, n_draws: int = 20) -> Posterior:
    """Return draws of the truth with its answers; `change` replaces answers to the first item."""
    model, scale = KINDS[kind]
    rng = np.random.default_rng(3)
    truth = {"theta": rng.normal(size=N), "a": np.exp(0.3 * rng.normal(size=J))}
    truth["d"] = 0.5 * rng.normal(size=J)
    truth |= {name: np.exp(0.5 + 0.3 * rng.normal(size=J)) for name in model.family.further}
    trials = scale.steps * (rng.uniform(size=(N, J)) < 0.9)
    eta = jnp.asarray(truth["theta"][:, None] * truth["a"] + truth["d"])
    law = model.family.given([truth[name] for name in model.family.further])
    y = np.array(law.draw(jax.random.key(1), eta, jnp.asarray(trials))).astype(int)
    if change is not None:
        y[:, 0] = np.where(trials[:, 0] > 0, change, 0)
    responses = replace(Responses.from_arrays(y, trials), scale=scale)
    samples = {name: np.broadcast_to(x, (1, n_draws, len(x))) for name, x in truth.items()}
    dims = {**model.dims, "theta": ["subject"]}
    return Posterior.from_samples(samples, {}, responses, {"link": model.family.name}, dims=dims)


@each_kind
def test_shares_and_p_are_those_of_sums_over_subjects(kind):
    posterior = known(kind)
    table = category_fit(posterior)
    y, seen = posterior.successes[:, 3], posterior.trials[:, 3] > 0
    theta, a, d, *further = (
        posterior.draws(name)[0] for name in ("theta", "a", "d", *posterior.further)
    )
    law = family_named(posterior.link).given([x[3] for x in further]).law
    reached = [1.0, *(np.asarray(p) for _, p in law.levels(jnp.asarray(theta * a[3] + d[3]))), 0.0]
    own = table[table["item"] == "item 4"].reset_index(drop=True)
    grade = y if kind == "graded" else np.where(y == PARTS, 2, np.where(y > 0, 1, 0))
    assert own["grade"].tolist() == {
        "graded": ["1", "2", "3", "4"], "continuous": ["0", "inside", "10"]
    }[kind]  # fmt: skip
    for k, row in own.iterrows():
        p = (reached[k] - reached[k + 1])[seen]
        assert row["observed"] == pytest.approx((grade[seen] == k).mean())
        assert row["expected"] == pytest.approx(p.mean(), rel=1e-4)
        z = ((grade[seen] == k).sum() - p.sum()) / np.sqrt((p * (1 - p)).sum())
        assert row["p"] == pytest.approx(2 * norm.sf(abs(z)), abs=0.06)


@each_kind
def test_answers_that_follow_the_model_fit(kind):
    posterior = known(kind)
    table = category_fit(posterior)
    assert not table["misfits"].any()
    assert 0.35 < table["p"].mean() < 0.65
    assert categories_in_words(table, posterior.answers) == ""
    assert misfitting(table).empty


def test_scores_of_a_normal_model_have_no_grades():
    """0 and the full score have no probability of their own."""
    assert category_fit(known("continuous").with_attrs(link="normal")) is None


@each_kind
def test_an_item_that_keeps_to_the_ends_misfits(kind):
    steps = KINDS[kind][1].steps
    posterior = known(kind, steps * (np.arange(N) % 2))
    table = category_fit(posterior)
    listed = misfitting(table)
    assert listed["item"].iloc[0] == "item 1"
    assert listed["item"].nunique() <= 2  # q allows one false alarm
    assert listed["p"].is_monotonic_increasing
    said = categories_in_words(table, posterior.answers)
    assert ("20 items grades" if kind == "graded" else "20 items scores of 0 or 10") in said
    assert "item 1: " in said


def test_too_few_answers_are_not_tested_and_other_kinds_not_checked():
    posterior = known("graded")
    few = Posterior(posterior.tree.isel(subject=slice(0, 3), missing_dims="ignore"))
    table = category_fit(few)
    assert table["p"].isna().any()
    assert not table["misfits"].any()
    assert category_fit(posterior_of(np.tri(6, 5))) is None
    assert categories_in_words(None, None) == ""
