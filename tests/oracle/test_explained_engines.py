"""Groups of items, and what explains difficulties and abilities, all at once: engines agree."""

from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest
from agreement import largest_z, with_log_slopes

from bayesirt import Priors, Responses, RunOptions, sample_posterior
from bayesirt.models import TwoPL
from bayesirt.ranking.ability_sources import ability_sources
from bayesirt.ranking.difficulty_sources import difficulty_sources
from bayesirt.ranking.effective_items import effective_items

EXPLAINED = Priors(
    difficulty="log(minutes) + (1|judge) + (1|question)",
    ability="(1|llm) + (1|scaffold)",
    groups="stem",
)


@pytest.mark.slow
@pytest.mark.statistical
def test_what_is_planted_is_recovered_by_both_engines():
    """Six LLMs in four scaffolds; three judges of 16 questions about four texts.

    Means and spreads of 161 quantities at 5 standard errors: a false alarm in 5,000.
    """
    rng = np.random.default_rng(3)
    llm, scaffold = rng.normal(0, 0.8, 6), rng.normal(0, 0.5, 4)
    i, j = np.divmod(np.arange(24), 4)
    theta = llm[i] + scaffold[j] + rng.normal(0, 0.3, 24)
    severity, minutes, long = np.array([-1.0, 0.1, 0.9]), 0.8, np.tile([-1.2, -0.2, 0.4, 1.0], 4)
    q, k = np.divmod(np.arange(48), 3)
    d = 0.3 - minutes * long[q] - rng.normal(size=16)[q] - severity[k] + rng.normal(0, 0.3, 48)
    beyond, a = rng.normal(0, 0.7, (24, 4))[:, q // 4], np.exp(0.3 * rng.normal(size=48))
    right = rng.logistic(size=(24, 48)) < (theta[:, None] + beyond) * a + d
    answers = Responses.from_arrays(right.astype(int))
    items = {"judge": k.astype(str), "question": q.astype(str), "stem": (q // 4).astype(str)}
    items = pd.DataFrame(items | {"minutes": np.exp(long[q])}, list(answers.items))
    subjects = pd.DataFrame({"llm": i, "scaffold": j}, list(answers.subjects)).astype(str)
    answers = replace(answers, item_metadata=items, subject_metadata=subjects)
    tables = []
    for engine, draws in (("nuts", 1000), ("blocked", 1000)):
        found = sample_posterior(
            answers,
            key=jax.random.key(1),
            engine=engine,
            model=TwoPL(EXPLAINED),
            options=RunOptions(num_chains=2, num_warmup=400, num_samples=draws),
        )
        table = with_log_slopes(found.reported).summary
        tables.append(table.drop(index="b", level="parameter"))
        assert (found.subjects, found.items) == (list(answers.subjects), list(answers.items))
        assert (found.successes == right).all()
        assert found.clusters is None
        assert found.item_groups.tolist() == (q // 4).tolist()
        assert found.tree["constant_data"]["llm_skill_of"].to_numpy().tolist() == [*i.astype(str)]
        assert np.corrcoef(found.theta.mean(0), theta)[0, 1] > 0.8
        assert 0 < effective_items(found).share < 1
        sources, away = difficulty_sources(found), severity - severity.mean()
        effects = sources.of_factor("judge").set_index("level").sort_index()
        assert np.corrcoef(effects["effect"], away)[0, 1] > 0.95
        assert ((effects["low"] < away) & (away < effects["high"])).all()
        assert sources.slopes.iloc[0]["low"] < minutes < sources.slopes.iloc[0]["high"]
        effects = ability_sources(found).of_factor("llm").set_index("level").sort_index()
        truth = (llm - llm.mean()) / theta.std()
        assert effects["n_subjects"].tolist() == [4] * 6
        assert np.corrcoef(effects["effect"], truth)[0, 1] > 0.9
        assert ((effects["low"] < truth) & (truth < effects["high"])).mean() > 0.6
    assert max(table["r_hat"].max() for table in tables) < 1.1
    assert {"sigma_group", "sigma_theta"} <= {*tables[0].index.get_level_values("parameter")}
    assert max(largest_z(*tables)) < 5
