"""Posteriors made from given draws, without sampling."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesirt.data.responses import Responses
from bayesirt.posterior import Posterior


def posterior_of(
    answers: Responses | ArrayLike,
    *,
    attrs: Mapping[str, Any] | None = None,
    statistics: Mapping[str, np.ndarray] | None = None,
    **sites: Any,
) -> Posterior:
    """Return draws of shape (draw, ...) or (chain, draw, ...); one without draws is what all are.

    Of abilities and difficulties that are not given all are 0, and of slopes 1.
    """
    responses = answers if isinstance(answers, Responses) else Responses.from_arrays(answers)
    sizes = {"theta": responses.n_subjects, **dict.fromkeys("adb", responses.n_items)}
    given = {"theta": 0.0, "a": 1.0, "d": 0.0} | {k: np.asarray(x) for k, x in sites.items()}
    leads = [np.shape(x)[:-1] for k, x in given.items() if k in sizes and np.ndim(x) > 1]
    shape = np.broadcast_shapes(*leads or [(4,)], (1, 1))
    samples = {
        name: np.broadcast_to(x, (*shape, sizes[name])).astype(float) if name in sizes else x
        for name, x in given.items()
    }
    return Posterior.from_samples(samples, dict(statistics or {}), responses, dict(attrs or {}))


def of_four_chains(
    theta: np.ndarray,
    a: np.ndarray,
    d: np.ndarray,
    successes: ArrayLike,
    trials: ArrayLike,
    link: str = "logit",
    **further: np.ndarray,
) -> Posterior:
    """Return draws of shape (draw, ...) as those of four chains."""
    sites = {"theta": theta, "a": a, "d": d, "b": -d / a, **further}
    by_chain = {name: x.reshape(4, -1, x.shape[1]) for name, x in sites.items()}
    attrs = {"model": "2PL", "engine": "made", "link": link}
    return posterior_of(Responses.from_arrays(successes, trials), attrs=attrs, **by_chain)


def of_two_abilities() -> Posterior:
    """Return a posterior that checks of one ability refuse."""
    slopes = np.zeros((1, 2, 3, 2))
    sites = {"theta": slopes, "a": slopes, "d": slopes[..., 0]}
    dims = {"theta": ["subject", "ability"], "a": ["item", "ability"], "d": ["item"]}
    return Posterior.from_samples(sites, {}, Responses.from_arrays(np.eye(3)), {}, dims=dims)
