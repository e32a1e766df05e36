"""A response model at unconstrained sites, as blocked moves need it.

Everything is derived from the NumPyro model: densities site by site, centres and spreads of normal
priors, and derivatives by automatic differentiation. Its `lines` are the directions along which no
predictor changes. Models that need more than this have a subclass in a separate file.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.data.difficulty import Design
from bayesirt.data.responses import Responses
from bayesirt.inference.block_steps import Chance, chance_for
from bayesirt.inference.blocked import Move, Position
from bayesirt.inference.chain_starts import Start
from bayesirt.inference.checkpoint import Samples
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.inference.row_shards import place_rows
from bayesirt.inference.site_terms import SiteTerms, site_terms, transforms_at
from bayesirt.inference.start_coordinates import FromMoments, StartCoordinates
from bayesirt.inference.subject_moves import Normals
from bayesirt.likelihood.cell_sums import log_likelihood_of
from bayesirt.likelihood.loadings import Loadings
from bayesirt.likelihood.passes import Passes
from bayesirt.models import Line, ResponseModel
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior

_OF_ANSWERS = ("a", "b", "d")


@dataclass(frozen=True)
class TwoWay(ABC):
    """A response model without data, at unconstrained sites.

    The sites of each item form a row. Equal instances share traced and compiled code.
    """

    model: ResponseModel
    # Index of each subject's cluster, from 0 without gaps; empty if there are no clusters.
    clusters: tuple[int, ...] = ()
    # Covariates of the difficulty of items, and of the ability of subjects.
    design: Design = Design()  # noqa: RUF009
    skills: Design = Design()  # noqa: RUF009
    # Whether items have so many answers that they hardly depend on their population.
    many_answers: bool = False

    short_steps: ClassVar[bool] = False
    """Whether each item takes a short step with probability ¼."""

    @property
    def interweaves(self) -> bool:
        """Whether hyperparameters also move with the items' standardised values held fixed."""
        return self.model.priors.kind == "hierarchical"

    def text(self, sites: Position) -> Callable[..., Any]:
        """Return the NumPyro model without data, with the sites' numbers of subjects and items."""
        n_items = len(sites["b" if "b" in sites else "d"])
        designs = {k: x for k in ("design", "skills") if (x := getattr(self, k))}
        return partial(self.model.parameters, len(sites["theta"]), n_items, **designs)

    def terms(self, sites: Position) -> SiteTerms:
        """Evaluate the NumPyro model at unconstrained sites."""
        return _terms(self, sites)

    def theta(self, sites: Position) -> Float[Array, "subject ability"]:
        """Return the abilities as a matrix."""
        return sites["theta"].reshape(len(sites["theta"]), -1)

    def with_theta(self, sites: Position, theta: Float[Array, "subject ability"]) -> Position:
        """Return the sites with other abilities."""
        return sites | {"theta": theta.reshape(sites["theta"].shape)}

    def normals(self, sites: Position, data: Any) -> Normals:
        """Return each subject's distribution apart from answers, which is normal in every model."""
        prior = Normals.of(partial(self.of_theta, sites), self.theta(sites))
        evidence = self.beside(sites, data)
        return prior if evidence is None else jax.tree.map(jnp.add, prior, evidence)

    def beside(self, sites: Position, data: Any) -> Normals | None:  # noqa: ARG002
        """Return the likelihood of abilities from data other than answers, if there are any."""
        return None

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        """Index of each subject's cluster, shape (subject,)."""
        return np.asarray(self.clusters, np.int32)

    def whitened(self, sites: Position) -> Float[Array, "ability subject"]:
        """Return abilities transformed to independent standard normal ones."""
        return self.theta(sites).T

    def independent(self, sites: Position) -> Float[Array, "row ability"]:
        """Return independent rows of abilities with the population's covariance.

        If there are clusters, the rows are scaled γ and scaled differences of subjects from γ.
        """
        theta = self.theta(sites)
        if not self.clusters:
            return theta
        logits = sites["icc"], -sites["icc"]
        between, within = (jnp.exp(jax.nn.log_sigmoid(x) / 2) for x in logits)
        deviations = theta - sites["gamma"][self.codes]
        return jnp.concatenate([sites["gamma"] / between, deviations / within])

    def of_theta(self, sites: Position, theta: Array) -> Float[Array, " subject"]:
        """Return the log prior density of each subject's abilities."""
        return self.terms(self.with_theta(sites, theta)).each["theta"]

    def item_sites(self, sites: Position) -> list[str]:
        """Return the names of the item sites on which answers depend, in the order of rows."""
        return [name for name in (*_OF_ANSWERS, *self.model.family.further) if name in sites]

    def packed(self, sites: Position) -> Float[Array, "item dim"]:
        """Return the items' sites as a matrix."""
        return jnp.stack([sites[name] for name in self.item_sites(sites)], -1)

    def unpacked(self, sites: Position, items: Float[Array, "item dim"]) -> Position:
        """Return the items' separate sites."""
        return dict(zip(self.item_sites(sites), items.T, strict=True))

    def coefficients(self, sites: Position, items: Array) -> Float[Array, "item dim"]:
        """Return slope, intercept and further parameters of each item."""
        values = self.terms(sites | self.unpacked(sites, items)).values
        return jnp.stack([values[name] for name in ("a", "d", *self.model.family.further)], -1)

    def coefficients_of(self, sites: Position) -> Float[Array, "item dim"]:
        """Return the items' current coefficients."""
        return self.coefficients(sites, self.packed(sites))

    def of_items(self, sites: Position, items: Array) -> Float[Array, " item"]:
        """Return the log prior density of each item, given the hyperparameters."""
        terms = self.terms(sites | self.unpacked(sites, items)).each
        return sum((terms[name] for name in self.item_sites(sites)), jnp.zeros(len(items)))

    def standard_items(self, sites: Position, items: Array) -> Float[Array, "dim item"]:
        """Return each item's sites, standardised by their populations."""
        new_sites = sites | self.unpacked(sites, items)
        terms = self.terms(new_sites)
        return jnp.stack(
            [
                jnp.broadcast_to(
                    (new_sites[x] - terms.centres[x]) / terms.spreads[x], items[:, 0].shape
                )
                for x in self.item_sites(sites)
            ]
        )

    def pivots(self, passes: Passes, sites: Position) -> Float[Array, " item"] | None:  # noqa: ARG002
        """Return the ability at which each item's intercept is expressed while it moves, if any."""
        return None

    def chance(self, numbers: RandomNumbers, items: Float[Array, "item dim"]) -> Chance:
        """Draw the random numbers of one step of all items."""
        return chance_for(numbers, items)

    def populations(self, sites: Position) -> list[str]:
        """Return the names of the sites with a μ and a σ."""
        return [name for name in sites if f"mu_{name}" in sites and f"sigma_{name}" in sites]

    def means(self, sites: Position) -> list[str]:
        """Return the names of the hyperparameters that are jointly normal."""
        return [name for name in sites if name.startswith("mu_")]

    def spreads(self, sites: Position) -> list[str]:
        """Return the names of the sites with a σ."""
        return [name for name in sites if f"sigma_{name}" in sites]

    def hyper_sites(self, sites: Position) -> list[str]:
        """Return the names of (μ, log σ) that move with items' standardised values held fixed.

        μ_b is not included, because fewer moves would be accepted; it has exact draws.
        """
        names = [x for x in self.item_sites(sites) if x in self.populations(sites)]
        return [f"{kind}_{x}" for x in names for kind in ("mu", "sigma")]

    def centre(self, sites: Position, name: str) -> Array:
        """Return the prior centre of a site's values."""
        return self.terms(sites).centres[name]

    def along(self, line: Line, sites: Position, t: Array) -> tuple[Position, Array]:
        """Move by t along a line of the model; return the sites and the log Jacobian.

        A normal line shifts each site by an amount that depends on other sites only, so its
        Jacobian is 1. Other lines move each element by itself at a rate that is the same for all
        elements and values of a site, so the rate at their mean gives the Jacobian.
        """
        transforms = transforms_at(self.text(sites), sites)

        def moved(sites: Position) -> Position:
            values = {x: transforms[x](u) for x, u in sites.items()}
            return {x: transforms[x].inv(v) for x, v in line.move(values, t).items()}

        new_sites = moved(sites)
        if line.normal:
            return sites | new_sites, jnp.zeros((), t.dtype)
        at = {name: jnp.mean(value) for name, value in sites.items()}
        log_jacobian = jnp.zeros_like(t)
        for name in new_sites:
            rate = jax.grad(lambda u, x=name: moved(at | {x: u})[x])(at[name])
            log_jacobian += sites[name].size * jnp.log(jnp.abs(rate))
        return sites | new_sites, log_jacobian

    def data(self, responses: Responses, mesh: Mesh | None = None) -> Any:
        """Place responses on the device, or on the devices of a mesh."""
        return place_rows(responses, mesh)

    def passes(self, data: Any, sites: Position, dtype: DTypeLike) -> Passes:
        """Return passes over the answers."""
        return Passes(self.layout(data), self.model.family, self.loadings(sites), dtype)

    def loadings(self, sites: Position) -> Loadings:
        """Return which abilities each item needs."""
        return self.model.loadings(len(sites["b" if "b" in sites else "d"]))

    def layout(self, data: Any) -> Any:
        """Return the layout of the answers."""
        return data

    def log_likelihood(self, values: Position, data: Any) -> Float[Array, ""]:
        """Return the log likelihood of all responses at the model's values."""
        answers = log_likelihood_of(self.layout(data), self.model.family)
        further = (values[name] for name in self.model.family.further)
        return answers(values["theta"], values["a"], values["d"], *further)

    def after_subjects(
        self,
        numbers: RandomNumbers,  # noqa: ARG002
        sites: Position,
        data: Any,  # noqa: ARG002
    ) -> Position:
        """Redraw the sites that depend on abilities, after these have moved."""
        return sites

    @abstractmethod
    def start(self, point: PointEstimate, data: Any) -> Start:
        """Return centre and width of the chains' starts around a point estimate."""

    def coordinates(self, point: PointEstimate, data: Any) -> Any:
        """Return coordinates around a point estimate in which the posterior is roughly standard."""
        start = self.start(point, data)
        return FromMoments.of(StartCoordinates.of(start, self.model.usual), self.model.lines, start)

    def finished(self, samples: Samples, point: PointEstimate) -> tuple[Samples, dict[str, Any]]:  # noqa: ARG002
        """Return draws as they are stored, and the names along their dimensions."""
        return samples, {}

    def posterior(
        self,
        samples: Samples,
        statistics: Samples,
        responses: Responses,
        init: PointEstimate,
        attributes: Mapping[str, Any],
    ) -> Posterior:
        """Wrap an engine's draws, with the model's attributes and dimensions."""
        draws, names = self.finished(samples, init)
        model = self.model
        attrs = {"model": model.title, "meaning": model.meaning, "covers": model.covers}
        attrs |= {"link": model.family.name, **model.said, **attributes}
        dims = {**model.dims, **self.further_dims, "cluster_of": ["subject"]}
        return Posterior.from_samples(draws, statistics, responses, attrs, coords=names, dims=dims)

    @property
    def further_dims(self) -> Mapping[str, list[str]]:
        """Dimensions of sites that the model has only with covariates."""
        return {}

    def own_moves(self, data: Any, dtype: DTypeLike) -> tuple[list[Move], list[Move]]:  # noqa: ARG002
        """Return the model's additional moves, before and after those of blocks."""
        return [], []


def abilities_by(sites: Position, matrix: Float[Array, "ability ability"]) -> Position:
    """Return abilities of subjects and clusters, multiplied by a matrix from the left."""
    return {x: sites[x] @ matrix.T for x in ("theta", "gamma") if x in sites}


@partial(jax.jit, static_argnums=0)
def _terms(way: TwoWay, sites: Position) -> SiteTerms:
    """Evaluate a model; as a jitted function it is traced once for all moves."""
    return site_terms(way.text(sites), sites)
