"""The two-parameter logistic model (2PL).

    successes_ij ~ Binomial(trials_ij, sigmoid(a_j θ_i + d_j))
    θ_i ~ N(0, 1),  log a_j ~ N(μ_a, σ_a),  d_j ~ N(μ_d - μ_b a_j, σ_d),  b_j = -d_j / a_j

A cell with no trials was not observed and says nothing. No response sees θ + c with d - a c, or
s θ with a / s. The items' prior does not see them either, since μ_b moves along: the level and the
unit of abilities are those of θ ~ N(0, 1), however many items there are.

Where subjects come in clusters, such as
several runs or prompts of one LLM, those of cluster c lie about an ability γ_c, and κ (`icc`, the
intraclass correlation) is the share of the abilities' variance that lies between clusters:

    κ ~ U(0, 1),  γ_c ~ N(0, √κ),  θ_i ~ N(γ_c, √(1 - κ))
"""

import jax.numpy as jnp
import numpyro
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int
from numpyro import deterministic, plate, sample
from numpyro.distributions import Binomial, HalfNormal, LogNormal, Normal, Uniform

from bayesirt.models.priors import Priors

DIMS = {"theta": ["subject"], "gamma": ["cluster"], "a": ["item"], "d": ["item"], "b": ["item"]}

Parameters = tuple[Float[Array, " subject"], Float[Array, " item"], Float[Array, " item"]]


def two_pl_model(
    trials: Int[Array, "subject item"],
    successes: Int[Array, "subject item"] | None = None,
    *,
    priors: Priors | None = None,
    clusters: Int[ArrayLike, " subject"] | None = None,
    n_clusters: int = 0,
) -> None:
    """Define the 2PL; without successes it draws them, for prior and posterior prediction.

    Parameters
    ----------
    trials : int array, shape (subject, item)
        0 where the item was not run.
    successes : int array, shape (subject, item), optional
    priors : Priors, optional
    clusters : int array, shape (subject,), optional
        Position of each subject's cluster.
    n_clusters : int
    """
    n_subjects, n_items = trials.shape
    theta, a, d = two_pl_parameters(
        n_subjects, n_items, priors or Priors(), clusters=clusters, n_clusters=n_clusters
    )
    eta = theta[:, None] * a + d
    observed = Binomial(trials, logits=eta).mask(trials > 0)
    sample("successes", observed, obs=successes)


def two_pl_parameters(
    n_subjects: int,
    n_items: int,
    priors: Priors,
    *,
    clusters: Int[ArrayLike, " subject"] | None = None,
    n_clusters: int = 0,
) -> Parameters:
    """Draw abilities, discriminations and intercepts from their priors: the 2PL without data.

    Parameters
    ----------
    n_subjects, n_items : int
    priors : Priors
    clusters : int array, shape (subject,), optional
        Position of each subject's cluster.
    n_clusters : int

    Returns
    -------
    theta : float array, shape (subject,)
        Ability, in standard deviations of the assumed population.
    a, d : float array, shape (item,)
        Discrimination and intercept.
    """
    if clusters is None:
        with plate("subject", n_subjects):
            theta = sample("theta", Normal(0, 1))
    else:
        icc = sample("icc", Uniform(0, 1))
        with plate("cluster", n_clusters):
            gamma = sample("gamma", Normal(0, jnp.sqrt(icc)))
        with plate("subject", n_subjects):
            theta = sample("theta", Normal(gamma[clusters], jnp.sqrt(1 - icc)))
    if priors.kind == "fixed":
        a, d = _fixed_items(n_items)
    else:
        a, d = hierarchical_items(n_items, priors)
    return theta, a, d


def hierarchical_items(
    n_items: int, priors: Priors, *, leaning: bool = True
) -> tuple[Array, Array]:
    """Draw discriminations and intercepts of items that learn their own centre and spread.

    Parameters
    ----------
    n_items : int
    priors : Priors
        Of the hierarchical kind.
    leaning : bool
        Let intercepts lean on slopes by μ_b, so that the prior of items leaves the level of
        abilities to that of subjects. Items of equal slopes do so without.

    Returns
    -------
    a, d : float array, shape (item,)
    """
    if priors.slopes != "rasch":
        mu_a = sample("mu_a", Normal(0, 0.5))
        sigma_a = sample("sigma_a", HalfNormal(0.5))
    leaning = leaning and priors.slopes != "rasch"
    mu_d = sample("mu_d", Normal(0, 2))
    mu_b = sample("mu_b", Normal(0, 2)) if leaning else 0.0
    sigma_d = sample("sigma_d", HalfNormal(2))
    with plate("item", n_items):
        if priors.slopes == "positive":
            a = sample("a", LogNormal(mu_a, sigma_a))
        elif priors.slopes == "free":
            a = sample("a", Normal(mu_a, sigma_a))
        else:
            a = deterministic("a", jnp.ones(n_items))
        d = sample("d", Normal(mu_d - mu_b * a, sigma_d))
        deterministic("b", -d / a)
    if priors.slopes == "free":
        numpyro.factor("orientation", jnp.where(a.sum() > 0, 0.0, -jnp.inf))
    return a, d


def _fixed_items(n_items: int) -> tuple[Array, Array]:
    with plate("item", n_items):
        a = sample("a", LogNormal(0, 0.5))
        b = sample("b", Normal(0, 2))
        d = deterministic("d", -a * b)
    return a, d
