"""A picklable engine that draws without compiling a sampler."""

import jax
import numpy as np

from bayesirt import PointEstimate, Posterior, Responses, RunOptions
from bayesirt.estimators.registry import fit_point
from bayesirt.inference.engines import EngineName, plan_engine
from bayesirt.models import ResponseModel


def draw_at_once(responses: Responses, key: jax.Array) -> Posterior:
    """Draw around simple estimates of subjects and items, which reproduce the true ranks."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    successes, trials = responses.cells.matrices()
    shares = [
        np.log((successes.sum(axis) + 1) / ((trials - successes).sum(axis) + 1)) for axis in (1, 0)
    ]
    size = (2, 500)
    samples = {
        "theta": shares[0] + rng.normal(size=(*size, responses.n_subjects)),
        "a": np.exp(0.3 * rng.normal(size=(*size, responses.n_items))),
        "d": shares[1] + rng.normal(size=(*size, responses.n_items)),
    }
    return Posterior.from_samples(samples, {}, responses, {})


def draw_near(
    responses: Responses,
    *,
    key: jax.Array,
    model: ResponseModel,
    engine: EngineName = "auto",
    init: PointEstimate | None = None,
    options: RunOptions | None = None,
) -> Posterior:
    """Replace `sample_posterior` for the 2PL by normal draws around a point estimate."""
    options = options or RunOptions()
    method, _ = plan_engine(engine, responses, model=model, options=options)
    point = fit_point(responses, model=model) if init is None else init
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    shape = (options.num_chains, options.num_samples)

    def near(name: str) -> np.ndarray:
        return point[name] + point[f"{name}_se"] * rng.normal(size=(*shape, len(point[name])))

    a = np.maximum(point["a"], 0.01) * np.exp(0.3 * rng.normal(size=(*shape, responses.n_items)))
    samples = {"theta": near("theta"), "a": a, "d": near("d")}
    samples |= {"b": -samples["d"] / a}
    centres = {"mu_a": 0.0, "sigma_a": 0.5, "mu_d": 0.0, "mu_b": 0.0, "sigma_d": 1.0}
    for name, centre in centres.items():
        samples[name] = centre + 0.05 * rng.normal(size=shape)
    if responses.clusters is not None:
        codes, n_clusters = np.array(responses.clusters.codes), len(responses.clusters.names)
        samples["gamma"] = np.stack(
            [samples["theta"][..., codes == k].mean(-1) for k in range(n_clusters)], -1
        )
        samples["icc"] = rng.beta(30, 30, shape)
    statistics = {"lp": rng.normal(size=shape), "acceptance_theta": np.full(shape, 0.9)}
    said = {"model": model.title, "link": model.family.name, **model.said}
    said |= {"engine": method, "priors": model.priors.describe(), "complete": 1}
    if method == "laplace":
        said |= {"approximate": 1, "few": 0, "converged": 1, "information": "observed"}
    return Posterior.from_samples(samples, statistics, responses, said)
