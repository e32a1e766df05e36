"""The 2PL's unconstrained sites: their prior density, blocks of items, and lines through them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.inference.block_steps import Chance, chance_for
from bayesirt.inference.blocked import Position
from bayesirt.inference.site_terms import SiteTerms, site_terms
from bayesirt.models import TWO_PL, Priors, ResponseModel

_ITEM_SITES = ("a", "b", "d", "c")


class AnswersPrior(ABC):
    """A model of answers without data, at unconstrained sites; its items have an a and a d.

    An item's own sites stand side by side in a row, and make the coefficients of its predictors.
    Equal ones, which must be hashable, share what is traced.
    """

    @property
    def further(self) -> tuple[str, ...]:
        """The items' parameters that are predictors beside a θ + d."""
        return ()

    @abstractmethod
    def model(self, sites: Position) -> Callable[[], Any]:
        """Return the NumPyro model without data, of as many subjects and items as sites have."""

    def terms(self, sites: Position) -> SiteTerms:
        """Return the log density of every element of every site, and what the model returns."""
        return _terms(self, sites)

    def own_of_subjects(self, _sites: Position) -> tuple[Float[Array, " subject"], ...]:
        """Return what the priors of single subjects depend on."""
        return ()

    def of_theta(self, sites: Position, theta: Array, *_own: Array) -> Float[Array, " subject"]:
        """Return the log prior density of each of any number of abilities, given their own."""
        return self.terms(sites | {"theta": theta}).each["theta"]

    def of_items(self, sites: Position, items: Array) -> Float[Array, " item"]:
        """Return the log prior density of each item, given the hyperparameters."""
        own = self.terms(sites | self.unpacked(sites, items)).each
        return sum((own[name] for name in item_sites(sites)), jnp.zeros(len(items)))

    def coefficients(self, sites: Position, items: Array) -> Float[Array, "item dim"]:
        """Return (a, d) of each item, and its predictors beside a θ + d."""
        values = self.terms(sites | self.unpacked(sites, items)).values
        return jnp.stack([values[name] for name in ("a", "d", *self.further)], -1)

    def packed(self, sites: Position) -> Float[Array, "item dim"]:
        """Return the items' sites side by side."""
        return jnp.stack([sites[name] for name in item_sites(sites)], -1)

    def unpacked(self, sites: Position, items: Float[Array, "item dim"]) -> Position:
        """Return the items' sites one by one."""
        return dict(zip(item_sites(sites), items.T, strict=True))

    def chance(self, key: Array, items: Float[Array, "item dim"]) -> Chance:
        """Draw the random numbers of one step of all items."""
        return chance_for(key, items)

    def centre(self, sites: Position, name: str) -> Array:
        """Return where the values of a site have their prior's centre."""
        return sites[f"mu_{name}"]

    def hyper_sites(self, sites: Position) -> list[str]:
        """Return the names of (μ, log σ) of slopes, where they have them, and of intercepts."""
        names = [f"{kind}_{x}" for x in hierarchical_sites(sites) for kind in ("mu", "sigma")]
        return [*names, "mu_b"] if leans(sites) else names


@dataclass(frozen=True)
class TwoPLPrior(AnswersPrior):
    """A model of one ability without data, at unconstrained sites.

    Attributes
    ----------
    priors : Priors
    of : ResponseModel
    """

    priors: Priors
    of: ResponseModel = TWO_PL

    @property
    def further(self) -> tuple[str, ...]:
        """The items' parameters that are predictors beside a θ + d."""
        return self.of.family.further

    def model(self, sites: Position) -> Callable[[], Any]:
        """Return the NumPyro model without data."""
        n_subjects, n_items = len(sites["theta"]), len(sites["b" if "b" in sites else "d"])
        return partial(self.of.parameters, n_subjects, n_items, self.priors)

    def centre(self, sites: Position, name: str) -> Array:
        """Return where the values of a site have their prior's centre."""
        if name != "d" or not leans(sites):
            return super().centre(sites, name)
        slope = sites["a"] if self.priors.slopes == "free" else jnp.exp(sites["a"])
        return sites["mu_d"] - sites["mu_b"] * slope


@partial(jax.jit, static_argnums=0)
def _terms(prior: AnswersPrior, sites: Position) -> SiteTerms:
    """Trace a model once, however many moves ask for it."""
    return site_terms(prior.model(sites), sites)


def shifted(prior: TwoPLPrior, sites: Position, t: Array) -> tuple[Position, Array]:
    """Return θ + t with everything moved that keeps η, and the log Jacobian.

    Notes
    -----
    d - a t keeps η, and μ_b + t the items' prior. Items of one slope, which have no μ_b, keep it
    with μ_d - t. Under fixed priors η = a (θ - b), and b + t keeps it. Abilities of clusters go
    along.
    """
    moved = sites | {name: sites[name] + t for name in _abilities(sites)}
    zero = jnp.zeros_like(t)
    if "b" in sites:
        return moved | {"b": sites["b"] + t}, zero
    a = prior.coefficients(sites, prior.packed(sites))[:, 0]
    moved["d"] = sites["d"] - a * t
    if leans(sites):
        return moved | {"mu_b": sites["mu_b"] + t}, zero
    return moved | {"mu_d": sites["mu_d"] - t}, zero


def scaled(prior: TwoPLPrior, sites: Position, t: Array) -> tuple[Position, Array]:
    """Return eᵗ θ with everything moved that keeps η, and the log Jacobian.

    Notes
    -----
    a e⁻ᵗ keeps η. What the items' prior says goes along: μ_b eᵗ, and μ_a - t on the log scale of
    positive slopes, μ_a e⁻ᵗ and σ_a e⁻ᵗ for free ones.
    """
    moved = sites | {name: jnp.exp(t) * sites[name] for name in _grown(sites)}
    grown, n_items = sum(sites[name].size for name in _grown(sites)), len(sites["a"])
    if prior.priors.slopes == "free":
        moved |= {name: jnp.exp(-t) * sites[name] for name in ("a", "mu_a")}
        return moved | {"sigma_a": sites["sigma_a"] - t}, (grown - n_items - 1) * t
    moved["a"] = sites["a"] - t
    if prior.priors.kind == "fixed":
        return moved | {"b": jnp.exp(t) * sites["b"]}, (grown + n_items) * t
    return moved | {"mu_a": sites["mu_a"] - t}, grown * t


def _abilities(sites: Position) -> list[str]:
    """Return the names of the sites on the scale of abilities."""
    return [name for name in ("theta", "gamma") if name in sites]


def _grown(sites: Position) -> list[str]:
    """Return the names of the sites that grow with abilities."""
    return [*_abilities(sites), *(["mu_b"] if leans(sites) else [])]


def carried(
    prior: AnswersPrior, sites: Position, hyper: Float[Array, " hyper"]
) -> tuple[Position, Array]:
    """Return other hyperparameters with the items carried along, and the log Jacobian.

    Each item stays as far from where its prior has its centre, in units of its σ.
    """
    moved = sites | dict(zip(prior.hyper_sites(sites), hyper, strict=True))
    log_jacobian = jnp.zeros((), hyper.dtype)
    for name in hierarchical_sites(sites):  # slopes before intercepts, which lean on them
        growth = moved[f"sigma_{name}"] - sites[f"sigma_{name}"]
        away = sites[name] - prior.centre(sites, name)
        moved[name] = prior.centre(moved, name) + jnp.exp(growth) * away
        log_jacobian += len(sites[name]) * growth
    return moved, log_jacobian


def leans(sites: Position) -> bool:
    """Return whether intercepts lean on slopes by μ_b."""
    return "mu_b" in sites and "d" in sites


def item_sites(sites: Position) -> list[str]:
    """Return the names of the sites that hold one number an item, in the order of blocks."""
    return [name for name in _ITEM_SITES if name in sites]


def hierarchical_sites(sites: Position) -> list[str]:
    """Return the names of the items' sites that have a μ and a σ of their own."""
    return [name for name in item_sites(sites) if f"mu_{name}" in sites]
