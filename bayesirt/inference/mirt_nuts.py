"""MIRT's posterior by the No-U-Turn sampler: a second exact opinion.

It knows nothing of the model but its density, so it shares no step with the blocked moves, and
agrees with them. Its chains may turn the axes as they like; draws are rotated back afterwards.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jaxtyping import Array

from bayesirt.estimators.mirt import fit_mirt
from bayesirt.families import LOGIT
from bayesirt.inference.chains import Progress
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.mirt_blocked import mirt_attributes, mirt_posterior, mirt_start_of
from bayesirt.inference.mirt_sites import MirtPrior
from bayesirt.inference.nuts import run_nuts
from bayesirt.inference.start_coordinates import StartCoordinates
from bayesirt.likelihood import DenseLayout
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.responses import Responses


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class MirtTarget:
    """MIRT's posterior as a sampler sees it.

    Attributes
    ----------
    layout : DenseLayout
    coordinates : StartCoordinates
    prior : MirtPrior
    """

    layout: DenseLayout
    coordinates: StartCoordinates
    prior: MirtPrior = field(metadata={"static": True})

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.coordinates.size

    def potential(self, flat: Array) -> Array:
        """Return the negative log density at flat coordinates, up to a constant."""
        sites, log_jacobian = self.coordinates.to_sites(flat, self.prior)
        terms = self.prior.terms(sites)
        theta, a, d = terms.returned
        seen = LOGIT.terms(theta @ a.T + d, self.layout.successes, self.layout.trials)
        return -(terms.total() + seen.log_likelihood.sum() + log_jacobian)

    def to_draw(self, flat: Array) -> dict[str, Array]:
        """Return the model's sites at flat coordinates."""
        return self.prior.terms(self.coordinates.to_sites(flat, self.prior)[0]).values


def sample_mirt_nuts(
    responses: Responses,
    *,
    n_abilities: int,
    key: Array,
    init: PointEstimate | None = None,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    target_accept: float = 0.9,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Posterior:
    """Draw from MIRT's posterior with NUTS.

    Parameters
    ----------
    responses : Responses
    n_abilities : int
        K.
    key : jax.random.key
        The same key gives the same draws on the same machine.
    init : PointEstimate, optional
        By default `fit_mirt`. Chains start around it, overdispersed by its standard errors, and its
        axes are those of the draws.
    num_chains, num_warmup, num_samples, target_accept, progress, announce, checkpoint
        As `bayesirt.inference.nuts.sample_nuts` describes them.

    Returns
    -------
    Posterior
        As `bayesirt.inference.mirt_blocked.sample_mirt_blocked` gives it.

    Raises
    ------
    ResponseError
        If there are not more items than abilities, or the checkpoint is damaged or another's.
    """
    init = fit_mirt(responses, n_abilities=n_abilities) if init is None else init
    layout = DenseLayout(*map(jnp.asarray, responses.cells.matrices()))
    coordinates = StartCoordinates.of(mirt_start_of(init), ("d",))
    drawn = run_nuts(
        MirtTarget(layout, coordinates, MirtPrior()),
        key=key,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        target_accept=target_accept,
        progress=progress,
        announce=announce,
        checkpoint=checkpoint,
    )
    attributes = mirt_attributes("nuts", n_abilities, drawn.complete, num_warmup, drawn.seconds)
    attributes["target_accept"] = target_accept
    return mirt_posterior(drawn.samples, drawn.statistics, responses, init, attributes)
