"""The log density of a NumPyro model site by site, for moves of single blocks."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro import handlers, validation_enabled
from numpyro.distributions import (
    Distribution,
    ExpandedDistribution,
    Normal,
    TransformedDistribution,
    biject_to,
)
from numpyro.distributions.transforms import Transform


class SiteTerms(NamedTuple):
    """A model evaluated at given unconstrained sites."""

    # Log density of every element of each latent site, including the log Jacobian of its
    # transform.
    each: dict[str, Array]
    common: Float[Array, ""]  # Sum of all factors, which belong to no single element.
    values: dict[str, Array]  # The constrained latent sites and the deterministic ones.
    # Location and scale of each latent site whose unconstrained prior is normal.
    centres: dict[str, Array]
    spreads: dict[str, Array]
    returned: Any  # What the model returns.

    def total(self) -> Float[Array, ""]:
        """Return the log density of all sites together."""
        alike: dict[tuple[int, ...], Array] = {}  # arrays of equal shape share one reduction
        for term in self.each.values():
            alike[term.shape] = alike.get(term.shape, 0.0) + term
        return sum((term.sum() for term in alike.values()), self.common)


def site_terms(model: Callable[[], Any], sites: Mapping[str, Array]) -> SiteTerms:
    """Evaluate a model at unconstrained values of all its latent sites."""
    each: dict[str, Array] = {}
    common, values, normals = jnp.zeros(()), {}, {}
    with validation_enabled(is_validate=False):  # transforms always map into the support
        trace, returned = _trace_at(model, sites)
        for name, site in trace.items():
            if site["type"] == "deterministic":
                values[name] = site["value"]
            if site["type"] != "sample":
                continue
            log_prob = site["fn"].log_prob(site["value"])
            if site["is_observed"]:
                common += log_prob.sum()
            else:
                transform, values[name] = biject_to(site["fn"].support), site["value"]
                each[name] = transform.log_abs_det_jacobian(sites[name], values[name]) + log_prob
                normals[name] = _normal_of(site["fn"])
    centres = {name: jnp.asarray(x.loc) for name, x in normals.items() if x is not None}
    spreads = {name: jnp.asarray(x.scale) for name, x in normals.items() if x is not None}
    return SiteTerms(each, common, values, centres, spreads, returned)


def transforms_at(model: Callable[[], Any], sites: Mapping[str, Array]) -> dict[str, Transform]:
    """Return the constraining transform of each latent site of a model."""
    with validation_enabled(is_validate=False):
        trace, _ = _trace_at(model, sites)
    return {name: biject_to(trace[name]["fn"].support) for name in sites if name in trace}


def _trace_at(
    model: Callable[[], Any], sites: Mapping[str, Array]
) -> tuple[dict[str, dict[str, Any]], Any]:
    """Return a model's trace and return value at unconstrained values."""

    def constrain(site: dict[str, Any]) -> Array | None:
        latent = site["type"] == "sample" and not site["is_observed"] and site["name"] in sites
        return biject_to(site["fn"].support)(sites[site["name"]]) if latent else None

    with handlers.trace() as trace, handlers.substitute(substitute_fn=constrain):
        return trace, model()


def _normal_of(prior: Distribution) -> Normal | None:
    """Return the normal base distribution of a prior, if it has one."""
    while isinstance(prior, ExpandedDistribution | TransformedDistribution):
        prior = prior.base_dist
    return prior if isinstance(prior, Normal) else None
