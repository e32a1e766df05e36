"""The 2PL's unconstrained sites: their prior density, blocks of items, and lines through them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.inference.block_steps import Chance, chance_for
from bayesirt.inference.blocked import Position
from bayesirt.inference.site_terms import SiteTerms, site_terms
from bayesirt.models import Priors, two_pl_parameters

_ITEM_SITES = ("a", "b", "d")


class AnswersPrior(ABC):
    """A model of answers without data, at unconstrained sites; its items have an a and a d.

    An item's own sites stand side by side in a row, and make the coefficients of its predictor.
    """

    @abstractmethod
    def terms(self, sites: Position) -> SiteTerms:
        """Return the log density of every element of every site."""

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
        """Return (a, d) of each item."""
        values = self.terms(sites | self.unpacked(sites, items)).values
        return jnp.stack([values["a"], values["d"]], -1)

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


@dataclass(frozen=True)
class TwoPLPrior(AnswersPrior):
    """The 2PL without data, at unconstrained sites.

    Attributes
    ----------
    priors : Priors
    """

    priors: Priors

    def terms(self, sites: Position) -> SiteTerms:
        """Return the log density of every element of every site; the model returns (θ, a, d)."""
        n_subjects, n_items = len(sites["theta"]), len(sites["b" if "b" in sites else "d"])
        return site_terms(lambda: two_pl_parameters(n_subjects, n_items, self.priors), sites)


def shifted(prior: TwoPLPrior, sites: Position, t: Array) -> tuple[Position, Array]:
    """Return θ + t with everything moved that keeps η, and the log Jacobian.

    Notes
    -----
    d - a t keeps η. μ_d - ā t with the mean slope ā goes along, so that the items' prior hardly
    resists. Under fixed priors η = a (θ - b), and b + t keeps it. Abilities of clusters go along.
    """
    moved = sites | {name: sites[name] + t for name in _abilities(sites)}
    zero = jnp.zeros_like(t)
    if "b" in sites:
        return moved | {"b": sites["b"] + t}, zero
    a, _ = prior.coefficients(sites, prior.packed(sites)).T
    return moved | {"d": sites["d"] - a * t, "mu_d": sites["mu_d"] - a.mean() * t}, zero


def scaled(prior: TwoPLPrior, sites: Position, t: Array) -> tuple[Position, Array]:
    """Return eᵗ θ with everything moved that keeps η, and the log Jacobian.

    Notes
    -----
    a e⁻ᵗ keeps η. The hyperparameters of a go along, so that the items' prior hardly resists:
    μ_a - t on the log scale of positive slopes; μ_a e⁻ᵗ and σ_a e⁻ᵗ for free ones.
    """
    moved = sites | {name: jnp.exp(t) * sites[name] for name in _abilities(sites)}
    grown, n_items = sum(len(sites[name]) for name in _abilities(sites)), len(sites["a"])
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


def carried(
    prior: AnswersPrior, sites: Position, hyper: Float[Array, " hyper"]
) -> tuple[Position, Array]:
    """Return other μ and log σ with the items carried along, and the log Jacobian."""
    moved = dict(sites)
    names = hierarchical_sites(sites)
    log_jacobian = jnp.zeros((), hyper.dtype)
    for name, (mu, log_sigma) in zip(names, hyper.reshape(-1, 2), strict=True):
        growth = log_sigma - sites[f"sigma_{name}"]
        centre = prior.centre(sites, name)
        moved[name] = centre + jnp.exp(growth) * (sites[name] - centre) + mu - sites[f"mu_{name}"]
        moved |= {f"mu_{name}": mu, f"sigma_{name}": log_sigma}
        log_jacobian += len(sites[name]) * growth
    return moved, log_jacobian


def item_sites(sites: Position) -> list[str]:
    """Return the names of the sites that hold one number an item, in the order of blocks."""
    return [name for name in _ITEM_SITES if name in sites]


def hierarchical_sites(sites: Position) -> list[str]:
    """Return the names of the items' sites that have a μ and a σ of their own."""
    return [name for name in item_sites(sites) if f"mu_{name}" in sites]


def hyper_of(sites: Position) -> Float[Array, " hyper"]:
    """Return (μ, log σ) of slopes, where they have them, and of intercepts."""
    names = hierarchical_sites(sites)
    return jnp.stack([sites[f"{kind}_{name}"] for name in names for kind in ("mu", "sigma")])
