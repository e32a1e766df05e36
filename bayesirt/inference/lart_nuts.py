"""LaRT's posterior by the No-U-Turn sampler, on its plain sites: a second exact opinion.

It knows nothing of the model but its density, so it shares no step with the blocked moves, and
agrees with them. On more than a few thousand responses these are much faster.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
from jax import Array

from bayesirt.estimators.lart_em import fit_lart
from bayesirt.families import FAMILIES
from bayesirt.inference.chains import Progress
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.lart_blocked import lart_attributes, lart_start_of
from bayesirt.inference.lart_sites import HIERARCHICAL, LaRTPrior, lengths_of
from bayesirt.inference.nuts import run_nuts
from bayesirt.inference.start_coordinates import StartCoordinates
from bayesirt.latencies import Latencies, latencies_of
from bayesirt.likelihood import layout_of, log_likelihood_of
from bayesirt.models.lart import Link
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.responses import Responses


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class LaRTTarget:
    """LaRT's posterior on its unconstrained sites, counted from a start in its widths.

    Attributes
    ----------
    latencies : Latencies
    coordinates : StartCoordinates
    link : {"probit", "logit"}
    """

    latencies: Latencies
    coordinates: StartCoordinates
    link: Link = field(metadata={"static": True})

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.coordinates.size

    def potential(self, flat: Array) -> Array:
        """Return the negative log density at flat coordinates, up to a constant."""
        sites, log_jacobian = self.coordinates.to_sites(flat, LaRTPrior())
        terms = LaRTPrior().terms(sites)
        values = terms.values
        answers = log_likelihood_of(self.latencies.layout, FAMILIES[self.link])
        latencies = self.latencies.without_wrong(values.get("delta"))
        moments = latencies.moments(values["tau"], values["tau"] ** 2)
        lengths = latencies.log_likelihood(*lengths_of(values), moments)
        seen = answers(values["theta"], values["a"], values["d"]) + lengths.sum()
        return -(terms.total() + seen + log_jacobian)

    def to_draw(self, flat: Array) -> dict[str, Array]:
        """Return the model's sites and deterministics at flat coordinates."""
        return LaRTPrior().terms(self.coordinates.to_sites(flat, LaRTPrior())[0]).values


def sample_lart_nuts(
    responses: Responses,
    *,
    key: Array,
    init: PointEstimate | None = None,
    link: Link = "probit",
    wrong_lengths: bool = False,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    target_accept: float = 0.95,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Posterior:
    """Draw from LaRT's posterior with NUTS.

    Parameters
    ----------
    responses : Responses
        With lengths.
    key : jax.random.key
        The same key gives the same draws on the same machine.
    init : PointEstimate, optional
        By default `fit_lart`. Chains start around it, overdispersed by its standard errors.
    link : {"probit", "logit"}
    wrong_lengths : bool
        Give wrong answers a length of their own.
    num_chains, num_warmup, num_samples, target_accept, progress, announce, checkpoint
        As `bayesirt.inference.nuts.sample_nuts` describes them.

    Returns
    -------
    Posterior
        After Ctrl-C with the draws so far; its attribute ``complete`` is then 0.

    Raises
    ------
    ResponseError
        If there are no lengths, they do not differ, or the checkpoint is damaged or another's.
    """
    latencies = latencies_of(responses, layout_of(responses), wrong_lengths=wrong_lengths)
    init = fit_lart(responses, link=link) if init is None else init
    coordinates = StartCoordinates.of(lart_start_of(init, latencies), HIERARCHICAL)
    drawn = run_nuts(
        LaRTTarget(latencies, coordinates, link),
        key=key,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        target_accept=target_accept,
        progress=progress,
        announce=announce,
        checkpoint=checkpoint,
    )
    attributes = lart_attributes("nuts", link, drawn.complete, num_warmup, drawn.seconds)
    attributes |= {"target_accept": target_accept, "wrong_lengths": int(wrong_lengths)}
    return Posterior.from_samples(drawn.samples, drawn.statistics, responses, attributes)
