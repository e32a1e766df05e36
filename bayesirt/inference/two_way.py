"""A response model at its unconstrained sites: all that blocked moves ask of it.

Everything comes from the model's NumPyro text: densities site by site, centres and spreads of
normal priors, derivatives by automatic differentiation, and from its lines what no predictor sees.
A model whose abilities or items need more than that has a subclass in a file of its own.
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

    An item's own sites stand side by side in a row. Equal ones share what is traced and compiled.
    """

    model: ResponseModel
    # Position of each subject's cluster, counted from 0 without a gap, where they come in any.
    clusters: tuple[int, ...] = ()
    # What explains the difficulty of items, and the ability of subjects.
    design: Design = Design()  # noqa: RUF009
    skills: Design = Design()  # noqa: RUF009

    short_steps: ClassVar[bool] = False
    """Whether one in four items takes a short step, by chance."""

    @property
    def interweaves(self) -> bool:
        """Whether hyperparameters also move with the items' standardised values held."""
        return self.model.priors.kind == "hierarchical"

    def text(self, sites: Position) -> Callable[..., Any]:
        """Return the NumPyro text without data, of as many subjects and items as sites have."""
        n_items = len(sites["b" if "b" in sites else "d"])
        known = {k: x for k in ("design", "skills") if (x := getattr(self, k))}
        return partial(self.model.parameters, len(sites["theta"]), n_items, **known)

    def terms(self, sites: Position) -> SiteTerms:
        """Return the log density of every element of every site, and what the text returns."""
        return _terms(self, sites)

    def theta(self, sites: Position) -> Float[Array, "subject ability"]:
        """Return abilities as a matrix."""
        return sites["theta"].reshape(len(sites["theta"]), -1)

    def with_theta(self, sites: Position, theta: Float[Array, "subject ability"]) -> Position:
        """Return other abilities in their place."""
        return sites | {"theta": theta.reshape(sites["theta"].shape)}

    def normals(self, sites: Position, data: Any) -> Normals:
        """Return what each subject's abilities are, but for answers: normal, in every model."""
        prior = Normals.of(partial(self.of_theta, sites), self.theta(sites))
        beside = self.beside(sites, data)
        return prior if beside is None else jax.tree.map(jnp.add, prior, beside)

    def beside(self, sites: Position, data: Any) -> Normals | None:  # noqa: ARG002
        """Return what data beside the answers say of each subject's abilities, if anything."""
        return None

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        """Position of each subject's cluster, shape (subject,)."""
        return np.asarray(self.clusters, np.int32)

    def whitened(self, sites: Position) -> Float[Array, "ability subject"]:
        """Return abilities as parts that are standard in the population, each by itself."""
        return self.theta(sites).T

    def independent(self, sites: Position) -> Float[Array, "row ability"]:
        """Return abilities in rows with the population's covariance, each by itself.

        Where subjects come in clusters, these are rows, and so is where subjects are about them.
        """
        theta = self.theta(sites)
        if not self.clusters:
            return theta
        logits = sites["icc"], -sites["icc"]
        between, within = (jnp.exp(jax.nn.log_sigmoid(x) / 2) for x in logits)
        away = theta - sites["gamma"][self.codes]
        return jnp.concatenate([sites["gamma"] / between, away / within])

    def of_theta(self, sites: Position, theta: Array) -> Float[Array, " subject"]:
        """Return the log prior density of each subject's abilities."""
        return self.terms(self.with_theta(sites, theta)).each["theta"]

    def item_sites(self, sites: Position) -> list[str]:
        """Return the names of the items' sites that answers depend on, in the order of rows."""
        return [name for name in (*_OF_ANSWERS, *self.model.family.further) if name in sites]

    def packed(self, sites: Position) -> Float[Array, "item dim"]:
        """Return the items' sites side by side."""
        return jnp.stack([sites[name] for name in self.item_sites(sites)], -1)

    def unpacked(self, sites: Position, items: Float[Array, "item dim"]) -> Position:
        """Return the items' sites one by one."""
        return dict(zip(self.item_sites(sites), items.T, strict=True))

    def coefficients(self, sites: Position, items: Array) -> Float[Array, "item dim"]:
        """Return slopes and intercept of each item, and its further predictors."""
        values = self.terms(sites | self.unpacked(sites, items)).values
        return jnp.stack([values[name] for name in ("a", "d", *self.model.family.further)], -1)

    def coefficients_of(self, sites: Position) -> Float[Array, "item dim"]:
        """Return the coefficients of the items as they are."""
        return self.coefficients(sites, self.packed(sites))

    def of_items(self, sites: Position, items: Array) -> Float[Array, " item"]:
        """Return the log prior density of each item, given the hyperparameters."""
        own = self.terms(sites | self.unpacked(sites, items)).each
        return sum((own[name] for name in self.item_sites(sites)), jnp.zeros(len(items)))

    def standard_items(self, sites: Position, items: Array) -> Float[Array, "dim item"]:
        """Return how far each of an item's sites is from its centre, in its spread."""
        there = sites | self.unpacked(sites, items)
        terms = self.terms(there)
        return jnp.stack(
            [
                jnp.broadcast_to(
                    (there[x] - terms.centres[x]) / terms.spreads[x], items[:, 0].shape
                )
                for x in self.item_sites(sites)
            ]
        )

    def pivots(self, passes: Passes, sites: Position) -> Float[Array, " item"] | None:  # noqa: ARG002
        """Return the ability at which each item's intercept is taken while it moves, if any."""
        return None

    def chance(self, key: Array, items: Float[Array, "item dim"]) -> Chance:
        """Draw the random numbers of one step of all items."""
        return chance_for(key, items)

    def populations(self, sites: Position) -> list[str]:
        """Return the names of the sites that have a centre and a spread of their own."""
        return [name for name in sites if f"mu_{name}" in sites and f"sigma_{name}" in sites]

    def means(self, sites: Position) -> list[str]:
        """Return the names of the hyperparameters that are drawn as a normal vector."""
        return [name for name in sites if name.startswith("mu_")]

    def spreads(self, sites: Position) -> list[str]:
        """Return the names of the sites whose log σ moves given them."""
        return [name for name in sites if f"sigma_{name}" in sites]

    def hyper_sites(self, sites: Position) -> list[str]:
        """Return the names of (μ, log σ), which move with the items' standardised values held.

        How intercepts lean on slopes is left to exact draws: with it, fewer moves are accepted.
        """
        names = [x for x in self.item_sites(sites) if x in self.populations(sites)]
        return [f"{kind}_{x}" for x in names for kind in ("mu", "sigma")]

    def centre(self, sites: Position, name: str) -> Array:
        """Return where the values of a site have their prior's centre."""
        return self.terms(sites).centres[name]

    def along(self, line: Line, sites: Position, t: Array) -> tuple[Position, Array]:
        """Return the place t along a line of the model, and the log Jacobian.

        A normal line shifts sites, each by what others say: its Jacobian is 1. Another one moves
        each element by itself, at a rate that is the same for all elements of a site and all
        values: that of their means tells the Jacobian.
        """
        transforms = transforms_at(self.text(sites), sites)

        def moved(sites: Position) -> Position:
            values = {x: transforms[x](u) for x, u in sites.items()}
            return {x: transforms[x].inv(v) for x, v in line.move(values, t).items()}

        there = moved(sites)
        if line.normal:
            return sites | there, jnp.zeros((), t.dtype)
        at = {name: jnp.mean(value) for name, value in sites.items()}
        log_jacobian = jnp.zeros_like(t)
        for name in there:
            rate = jax.grad(lambda u, x=name: moved(at | {x: u})[x])(at[name])
            log_jacobian += sites[name].size * jnp.log(jnp.abs(rate))
        return sites | there, log_jacobian

    def data(self, responses: Responses, mesh: Mesh | None = None) -> Any:
        """Put responses on the device, or on those of a mesh."""
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

    def after_subjects(self, key: Array, sites: Position, data: Any) -> Position:  # noqa: ARG002
        """Return the sites with what depends on abilities drawn again, where they have moved."""
        return sites

    @abstractmethod
    def start(self, point: PointEstimate, data: Any) -> Start:
        """Return where chains start about a point estimate, and how far apart."""

    def coordinates(self, point: PointEstimate, data: Any) -> Any:
        """Return coordinates around a point estimate in which the posterior is about standard."""
        start = self.start(point, data)
        return FromMoments.of(StartCoordinates.of(start, self.model.usual), self.model.lines, start)

    def finished(self, samples: Samples, point: PointEstimate) -> tuple[Samples, dict[str, Any]]:  # noqa: ARG002
        """Return draws as they are kept, and the names along their dimensions."""
        return samples, {}

    def posterior(
        self,
        samples: Samples,
        statistics: Samples,
        responses: Responses,
        init: PointEstimate,
        attributes: Mapping[str, Any],
    ) -> Posterior:
        """Return an engine's draws with what the model says of itself."""
        draws, names = self.finished(samples, init)
        model = self.model
        said = {"model": model.title, "link": model.family.name, **model.said, **attributes}
        dims = {**model.dims, **self.further_dims, "cluster_of": ["subject"]}
        return Posterior.from_samples(draws, statistics, responses, said, coords=names, dims=dims)

    @property
    def further_dims(self) -> Mapping[str, list[str]]:
        """Return the dimensions of sites that the model has only with what is known of items."""
        return {}

    def own_moves(self, data: Any, dtype: DTypeLike) -> tuple[list[Move], list[Move]]:  # noqa: ARG002
        """Return the model's own moves, before those of blocks and after them."""
        return [], []


def abilities_by(sites: Position, matrix: Float[Array, "ability ability"]) -> Position:
    """Return abilities, and those of clusters, multiplied by a matrix from the left."""
    return {x: sites[x] @ matrix.T for x in ("theta", "gamma") if x in sites}


@partial(jax.jit, static_argnums=0)
def _terms(way: TwoWay, sites: Position) -> SiteTerms:
    """Trace a model once, however many moves ask for it."""
    return site_terms(way.text(sites), sites)
