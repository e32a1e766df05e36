"""The Q-matrix model's posterior by the No-U-Turn sampler: a second exact opinion.

It knows nothing of the model but its density, so it shares no step with the blocked moves, and
agrees with them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bayesirt.estimators.q_mirt import fit_q_mirt
from bayesirt.families import LOGIT
from bayesirt.inference.blocked import Position
from bayesirt.inference.chains import Progress
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.nuts import run_nuts
from bayesirt.inference.q_mirt_blocked import (
    q_mirt_attributes,
    q_mirt_posterior,
    q_mirt_start_of,
)
from bayesirt.inference.q_mirt_sites import Pattern, QMirtPrior
from bayesirt.inference.start_coordinates import StartCoordinates
from bayesirt.likelihood import DenseLayout
from bayesirt.models.q_mirt import Structure, default_structure
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.q_matrix import QMatrix
from bayesirt.responses import Responses


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class QMirtTarget:
    """The Q-matrix model's posterior, its abilities by their independent parts.

    Attributes
    ----------
    layout : DenseLayout
    coordinates : StartCoordinates
        In them ``theta`` stands for z, where θ = L z and L Lᵀ = Ω: correlations that the data
        leave open are then free to move.
    prior : QMirtPrior
    """

    layout: DenseLayout
    coordinates: StartCoordinates
    prior: QMirtPrior = field(metadata={"static": True})

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.coordinates.size

    def potential(self, flat: Array) -> Array:
        """Return the negative log density at flat coordinates, up to a constant."""
        sites, log_jacobian = self._sites(flat)
        terms = self.prior.terms(sites)
        slopes = self.prior.pattern.slopes(terms.values["a"])
        eta = terms.values["theta"] @ slopes.T + terms.values["d"]
        seen = LOGIT.terms(eta, self.layout.successes, self.layout.trials).log_likelihood
        return -(terms.total() + seen.sum() + log_jacobian)

    def to_draw(self, flat: Array) -> dict[str, Array]:
        """Return the model's sites and deterministics at flat coordinates."""
        return self.prior.terms(self._sites(flat)[0]).values

    def _sites(self, flat: Array) -> tuple[Position, Array]:
        sites, log_jacobian = self.coordinates.to_sites(flat, self.prior)
        root = jnp.linalg.cholesky(self.prior.correlation(sites))
        log_jacobian += len(sites["theta"]) * jnp.log(jnp.diag(root)).sum()
        return sites | {"theta": sites["theta"] @ root.T}, log_jacobian


def sample_q_mirt_nuts(
    responses: Responses,
    q: QMatrix,
    *,
    key: Array,
    structure: Structure | None = None,
    init: PointEstimate | None = None,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    target_accept: float = 0.95,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Posterior:
    """Draw from the Q-matrix model's posterior with NUTS.

    Parameters
    ----------
    responses : Responses
    q : QMatrix
        Rows of other items are left out.
    key : jax.random.key
        The same key gives the same draws on the same machine.
    structure : {"correlated", "general", "independent"}, optional
        How abilities go together; by default `default_structure`.
    init : PointEstimate, optional
        By default `fit_q_mirt`. Chains start around it, overdispersed by its standard errors.
    num_chains, num_warmup, num_samples, target_accept, progress, announce, checkpoint
        As `bayesirt.inference.nuts.sample_nuts` describes them.

    Returns
    -------
    Posterior
        As `bayesirt.inference.q_mirt_blocked.sample_q_mirt_blocked` gives it.

    Raises
    ------
    ResponseError
        If an item of the responses has no row, or the checkpoint is damaged or another's.
    """
    q = q.for_items(responses.items)
    structure = structure or default_structure(q.n_abilities)
    init = fit_q_mirt(responses, q, structure=structure) if init is None else init
    prior = QMirtPrior(Pattern.of(q.needs), structure)
    layout = DenseLayout(*map(jnp.asarray, responses.cells.matrices()))
    drawn = run_nuts(
        QMirtTarget(layout, _coordinates(prior, init), prior),
        key=key,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        target_accept=target_accept,
        progress=progress,
        announce=announce,
        checkpoint=checkpoint,
    )
    attributes = q_mirt_attributes("nuts", structure, drawn.complete, num_warmup, drawn.seconds)
    attributes["target_accept"] = target_accept
    return q_mirt_posterior(drawn.samples, drawn.statistics, responses, q, attributes)


def _coordinates(prior: QMirtPrior, init: PointEstimate) -> StartCoordinates:
    """Return coordinates around a fit, whose abilities are taken into their independent parts."""
    centre, width = q_mirt_start_of(init, prior.structure)
    root = np.linalg.cholesky(prior.correlation(jax.tree.map(jnp.asarray, dict(centre))))
    parts = np.linalg.solve(root, np.asarray(centre["theta"]).T).T
    return StartCoordinates.of((dict(centre) | {"theta": parts}, width), ("a", "d"))
