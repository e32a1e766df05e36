"""Where LaRT's estimators start: singular vectors of the answers and of the log lengths."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.sparse import csr_array

from bayesirt.data.cells import SparseCells
from bayesirt.data.responses import Responses
from bayesirt.estimators.lart_steps import LaRTData, LaRTItems, best_lengths
from bayesirt.estimators.spectral import fit_spectral, leading_components
from bayesirt.likelihood.latencies import Latencies
from bayesirt.models.lart import Link

_MOST_CORRELATION = 0.95


def spectral_lart(
    responses: Responses, data: LaRTData, link: Link
) -> tuple[LaRTItems, Float[Array, " subject"]]:
    """Estimate LaRT from the leading singular vectors, without iterations.

    Xu et al. (2026), Algorithm 2, with the sign of φ turned, as equation 2 has it. Speeds are the
    leading left singular vector of the centred log lengths, a missing one in place of its item's
    mean; φ, ω and λ are then a regression over the lengths that were seen.
    """
    answers = fit_spectral(responses, slopes="free", link=link)
    theta, a, d = (jnp.asarray(answers[name]) for name in ("theta", "a", "d"))
    if data.latencies is None:
        zero = jnp.zeros_like(a)
        return LaRTItems(a, d, zero, zero, zero + 1, jnp.zeros((), a.dtype)), theta
    left = leading_components(_length_matrix(responses, data.latencies), 1).left[:, 0]
    tau = jnp.asarray(np.sqrt(len(left)) * left)
    lengths = best_lengths(data.latencies, data.latencies.moments(tau, tau**2))
    sign = jnp.where(lengths[0].sum() >= 0, 1, -1)
    rho = jnp.clip(sign * jnp.mean(theta * tau), -_MOST_CORRELATION, _MOST_CORRELATION)
    return LaRTItems(a, d, sign * lengths[0], lengths[1], lengths[2], rho), theta


def _length_matrix(responses: Responses, latencies: Latencies) -> np.ndarray | csr_array:
    """Return centred log lengths, shape (subject, item), in the layout of the cells."""
    x = np.asarray(latencies.x, np.float64)
    if not isinstance(responses.cells, SparseCells):
        return x
    listed = responses.cells.listed()
    return csr_array((x, (listed.subject, listed.item)), shape=responses.cells.shape)
