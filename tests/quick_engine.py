"""An engine that other processes can be sent, and that draws without compiling a sampler."""

import jax
import numpy as np

from bayesirt import Posterior, Responses


def draw_at_once(responses: Responses, key: jax.Array) -> Posterior:
    """Draw around what answers say of subjects and items, which makes ranks of the truth."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    successes, trials = responses.cells.matrices()
    shares = [
        np.log((successes.sum(axis) + 1) / ((trials - successes).sum(axis) + 1)) for axis in (1, 0)
    ]
    size = (2, 500)
    samples = {
        "theta": shares[0] + rng.normal(size=(*size, responses.n_subjects)),
        "a": np.exp(0.3 * rng.normal(size=(*size, responses.n_items))),
        "d": shares[1] + rng.normal(size=(*size, responses.n_items)),
    }
    return Posterior.from_samples(samples, {}, responses, {})
