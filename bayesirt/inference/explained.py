"""Moves for covariates of difficulty and ability: slopes of numbers and effects of levels.

Given items and subjects, slopes, effects and the items' centres are jointly normal and drawn at
once. The item factor with most levels is integrated out and drawn last: given the rest, its levels
are independent, so that no matrix of their size is needed.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.data.difficulty import Factor
from bayesirt.data.responses import Responses
from bayesirt.inference.block_steps import normal_draw, quadratic_draw
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.chain_starts import Start
from bayesirt.inference.checkpoint import Samples
from bayesirt.inference.one_ability import OneAbility
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior

_WIDTH_OF_EFFECTS = 0.3


@dataclass(frozen=True)
class Explained(OneAbility):
    """A model of one ability with covariates of items or subjects: see `explained`."""

    @property
    def largest(self) -> Factor | None:
        """The factor with most levels."""
        return max(self.design.factors, key=lambda x: len(x.levels.names), default=None)

    def means(self, sites: Position) -> list[str]:  # noqa: ARG002
        """Return an empty list: means are drawn together with slopes and effects."""
        return []

    def explaining(self, sites: Position) -> list[str]:
        """Return the names of centres, slopes and effects that are drawn jointly."""
        largest = self.largest
        effects = [x.site for x in self.design.factors if x != largest]
        effects += [x.skill for x in self.skills.factors]
        slopes = [name for name in ("beta", "beta_theta") if name in sites]
        return [*super().means(sites), *slopes, *effects]

    def own_moves(self, data: Any, dtype: DTypeLike) -> tuple[list[Move], list[Move]]:
        """Return the moves of the model, and that of slopes and effects."""
        before, after = super().own_moves(data, dtype)
        return before, [*after, partial(draw_explained, self)]

    def start(self, point: PointEstimate, data: Any) -> Start:
        """Return centre and width of the chains' starts, with slopes and effects around zero."""
        centre, width = super().start(point, data)
        shapes = {x.site: (len(x.levels.names),) for x in self.design.factors}
        shapes |= {x.skill: (len(x.levels.names),) for x in self.skills.factors}
        spreads = {f"sigma_{site}": np.array(np.log(0.5)) for site in shapes}
        if self.skills:
            spreads["sigma_theta"] = np.array(0.0)
        for slopes, design in (("beta", self.design), ("beta_theta", self.skills)):
            if design.covariates:
                shapes[slopes] = (len(design.covariates),)
        centre |= {site: np.zeros(shape) for site, shape in shapes.items()} | spreads
        width |= {site: np.full(shape, _WIDTH_OF_EFFECTS) for site, shape in shapes.items()}
        width |= {site: np.array(0.5) for site in spreads}
        return centre, width

    @property
    def further_dims(self) -> dict[str, list[str]]:
        """Return the dimensions of slopes and effects."""
        of_effects = {x.site: [_dim(x)] for x in self.design.factors}
        of_skills = {x.skill: [f"{x.plain}_skill"] for x in self.skills.factors}
        slopes = {"beta": ["covariate"], "beta_theta": ["subject_covariate"]}
        return {**slopes, **of_effects, **of_skills}

    def finished(self, samples: Samples, point: PointEstimate) -> tuple[Samples, dict[str, Any]]:
        """Return draws and the names of covariates and levels."""
        samples, names = super().finished(samples, point)
        levels = {_dim(x): list(x.levels.names) for x in self.design.factors}
        levels |= {f"{x.plain}_skill": list(x.levels.names) for x in self.skills.factors}
        designs = {"covariate": self.design, "subject_covariate": self.skills}
        slopes = {dim: [x.name for x in design.covariates] for dim, design in designs.items()}
        return samples, {**names, **levels, **slopes}

    def posterior(
        self,
        samples: Samples,
        statistics: Samples,
        responses: Responses,
        init: PointEstimate,
        attributes: Mapping[str, Any],
    ) -> Posterior:
        """Return draws with the covariates of items and subjects."""
        result = super().posterior(samples, statistics, responses, init, attributes)
        of_items: dict[str, tuple[Any, Any]] = {
            f"{_dim(x)}_of": ("item", np.array(x.levels.of_each, str)) for x in self.design.factors
        }
        if self.design.covariates:
            of_items["covariates"] = (("item", "covariate"), self.design.z)
        able = "cluster" if self.clusters else "subject"
        of_subjects: dict[str, tuple[Any, Any]] = {
            f"{x.plain}_skill_of": (able, np.array(x.levels.of_each, str))
            for x in self.skills.factors
        }
        if self.skills.covariates:
            of_subjects["subject_covariates"] = ((able, "subject_covariate"), self.skills.z)
        result = result.with_constants(of_items | of_subjects)
        if self.design:
            names = {x.site: x.name for x in self.design.factors}
            spreads = {x.name: x.spread for x in self.design.covariates}
            result = result.with_attrs(factors=json.dumps(names), covariates=json.dumps(spreads))
        if self.skills:
            names = {x.skill: x.name for x in self.skills.factors}
            spreads = {x.name: x.spread for x in self.skills.covariates}
            attrs = {"skills": json.dumps(names), "subject_covariates": json.dumps(spreads)}
            result = result.with_attrs(**attrs)
        return result


@cache
def explained(own: type[OneAbility]) -> type[Explained]:
    """Return the class for a model with covariates of items or subjects."""
    if own is OneAbility:
        return Explained
    return type(f"Explained{own.__name__}", (Explained, own), {})


def draw_explained(
    way: Explained, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Draw centres, slopes and effects given the items: a Gibbs step, as all are jointly normal."""
    origin, unravel = ravel_pytree({name: sites[name] for name in way.explaining(sites)})
    log_density = _without_largest(way, sites)

    def at(step: Array) -> Array:
        return log_density(sites | unravel(origin + step))

    sites = sites | unravel(origin + quadratic_draw(numbers, at, origin))
    if way.largest is None:
        return sites, {}
    site, codes = way.largest.site, np.array(way.largest.levels.codes)

    def of_levels(effect: Array) -> Array:
        each = way.terms(sites | {site: effect}).each
        return each[site] + jax.ops.segment_sum(each["d"], codes, len(effect))

    return sites | {site: normal_draw(numbers, of_levels, sites[site])}, {}


def _without_largest(way: Explained, sites: Position) -> Callable[[Position], Float[Array, ""]]:
    """Return the log density with the effects of the factor with most levels integrated out.

    The intercepts of the items of one level then have variance σ² + τ² and covariance τ².
    """
    if way.largest is None:
        return lambda sites: way.terms(sites).total()
    site, codes = way.largest.site, np.array(way.largest.levels.codes)
    n = np.bincount(codes)
    variance, shared = (jnp.exp(2 * sites[f"sigma_{x}"]) for x in ("d", site))
    gain = shared / (variance * (variance + n * shared))

    def log_density(sites: Position) -> Array:
        terms = way.terms(sites | {site: jnp.zeros(len(n))})
        residuals = jax.ops.segment_sum(sites["d"] - terms.centres["d"], codes, len(n))
        return terms.total() + 0.5 * (gain * residuals**2).sum()

    return log_density


def _dim(factor: Factor) -> str:
    return f"{factor.plain}_level"
