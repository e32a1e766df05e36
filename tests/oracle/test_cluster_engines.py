"""Models of lengths and of several abilities, with clustered subjects: two engines agree.

LaRT includes lengths of wrong answers. Geweke's tests and the tests of densities cover engines
without clusters and without these lengths.
"""

from dataclasses import replace

import jax
import numpy as np
import pytest
from agreement import largest_z
from xarray import DataTree

from bayesirt import Posterior, Responses, RunOptions, sample_posterior
from bayesirt.data.clusters import Clusters
from bayesirt.data.q_matrix import QMatrix
from bayesirt.models import LaRT, Mirt, QMirt, ResponseModel

N, J = 30, 14
Q = QMatrix.from_arrays([[int(j % 3 != 1), int(j % 3 != 0)] for j in range(J)])
MODELS = {"lart": LaRT(wrong_lengths=True), "mirt": Mirt(2), "q_mirt": QMirt.of(Q, "correlated")}


def in_clusters() -> Responses:
    """Return 30 subjects in clusters of three, which explain .7 of the variance of abilities."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(N // 3), 3)
    theta = np.sqrt(0.7) * rng.normal(size=(N // 3, 2))[codes]
    theta = theta + np.sqrt(0.3) * rng.normal(size=(N, 2))
    eta = theta @ (Q.needs * rng.lognormal(0.2, 0.2, (J, 1))).T + rng.normal(size=J)
    correct = (rng.uniform(size=(N, J)) < 1 / (1 + np.exp(-eta))).astype(int)
    phi, residual = np.exp(rng.normal(0, [[0.5], [0.3]], (2, J)))
    delta, omega = rng.normal([[0.4], [4]], [[0.7], [1]], (2, J))
    tau = rng.normal(size=N) - 0.6 * theta[:, 0]
    x = omega - phi * tau[:, None] + delta * (1 - correct) + residual * rng.normal(size=(N, J))
    clusters = Clusters.of([f"llm{c}" for c in codes])
    return replace(Responses.from_arrays(correct), latency=np.exp(x).ravel(), clusters=clusters)


def with_log_slopes(posterior: Posterior) -> Posterior:
    tree = posterior.tree.copy()
    tree["posterior"] = DataTree(posterior.dataset.assign(a=np.log(posterior.dataset["a"])))
    return Posterior(tree)


@pytest.mark.statistical
@pytest.mark.parametrize("name", MODELS)
def test_nuts_and_blocked_agree(name: str):
    """Means and spreads of 125 to 180 quantities at 5 standard errors: one false alarm in 3,000.

    Spreads of Λ are left out, because its tails are too heavy for a standard deviation. The
    Q-matrix model's slopes have such tails too, and are compared as logarithms.
    """
    model: ResponseModel = MODELS[name]
    responses = in_clusters()
    if name != "lart":
        responses = replace(responses, latency=None)
    posteriors = [
        sample_posterior(
            responses,
            key=jax.random.key(1),
            engine=engine,
            model=model,
            options=RunOptions(num_chains=2, num_warmup=600, num_samples=draws),
        )
        for engine, draws in (("nuts", 1500), ("blocked", 3000))
    ]
    for engine, posterior in zip(("nuts", "blocked"), posteriors, strict=True):
        attrs = posterior.tree.attrs
        assert (attrs["model"], attrs["engine"]) == (model.title, engine)
        assert posterior.link == model.family.name
        assert all(np.isfinite(values).all() for values in posterior.dataset.values())
        assert posterior.dataset["gamma"].dims[2] == "cluster"
    if name == "q_mirt":
        posteriors = [with_log_slopes(x) for x in posteriors]
    one, other = (x.summary.drop(index="b", level="parameter", errors="ignore") for x in posteriors)
    assert largest_z(one, other)[0] < 5
    assert {"icc", "gamma"} <= set(one.index.get_level_values("parameter"))
    assert one["r_hat"].max() < 1.05
    assert other["r_hat"].max() < 1.02
    light = [t.drop(index="precision_a", level="parameter", errors="ignore") for t in (one, other)]
    assert largest_z(*light)[1] < 5
