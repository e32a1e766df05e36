"""LaRT's posterior by the No-U-Turn sampler, on its plain sites: a second exact opinion.

It knows nothing of the model but its density, so it shares no step with the blocked moves, and
agrees with them. On more than a few thousand responses these are much faster.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from bayesirt.estimators.lart_em import fit_lart
from bayesirt.families import FAMILIES
from bayesirt.inference.blocked import Position
from bayesirt.inference.chains import Progress
from bayesirt.inference.checkpoint import Checkpoint
from bayesirt.inference.lart_blocked import lart_attributes, lart_start_of
from bayesirt.inference.lart_sites import HIERARCHICAL, LaRTPrior, lengths_of
from bayesirt.inference.nuts import run_nuts
from bayesirt.latencies import Latencies, latencies_of
from bayesirt.likelihood import layout_of, log_likelihood_of
from bayesirt.models.coordinates import Known, around_expected
from bayesirt.models.lart import Link
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.responses import Responses


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class LaRTTarget:
    """LaRT's posterior on its unconstrained sites, counted from a start in its widths.

    An item's value is counted from where its own responses and its population together put it,
    in units of what both leave open: that is round whether the population is tight or wide.

    Attributes
    ----------
    latencies : Latencies
    centre, width : dict of float arrays
        Of all sites that are not items'.
    known : dict of Known
        The items' estimates, unconstrained, and their errors.
    link : {"probit", "logit"}
    """

    latencies: Latencies
    centre: Position
    width: Position
    known: dict[str, Known]
    link: Link = field(metadata={"static": True})

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return ravel_pytree(self._start)[0].size

    def potential(self, flat: Array) -> Array:
        """Return the negative log density at flat coordinates, up to a constant."""
        sites, log_jacobian = self._sites(flat)
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
        return LaRTPrior().terms(self._sites(flat)[0]).values

    @property
    def _start(self) -> Position:
        return self.centre | {name: jnp.zeros_like(x.value) for name, x in self.known.items()}

    def _sites(self, flat: Array) -> tuple[Position, Array]:
        """Return the unconstrained sites, and the log Jacobian of the items'."""
        moved = ravel_pytree(self._start)[1](flat)
        sites = {k: self.centre[k] + self.width[k] * moved[k] for k in self.centre}
        log_jacobian = jnp.zeros(())
        for name, known in self.known.items():
            population = sites[f"mu_{name}"], sites[f"sigma_{name}"]
            sites[name], log_scale = around_expected(moved[name], *population, known)
            log_jacobian += log_scale.sum()
        return sites, log_jacobian


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
    centre, width = (jax.tree.map(jnp.asarray, x) for x in lart_start_of(init, latencies))
    names = [name for name in HIERARCHICAL if name in centre]
    known = {name: Known(centre.pop(name), width.pop(name)) for name in names}
    drawn = run_nuts(
        LaRTTarget(latencies, centre, width, known, link),
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
