"""LaRT's point estimate with names and standard errors, from items and subjects' posteriors."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesirt.data.responses import Responses
from bayesirt.estimators.ability_quadrature import AbilityPosteriors, ExpectedItemSums
from bayesirt.estimators.iteration import Iterations
from bayesirt.estimators.lart_steps import (
    ANSWER_PRECISION,
    LaRTData,
    LaRTItems,
    expected_speeds,
)
from bayesirt.estimators.parameter_table import parameter_table
from bayesirt.estimators.standard_errors import pair_errors
from bayesirt.likelihood.latencies import Latencies
from bayesirt.point_estimate import PointEstimate


def lart_estimate(
    responses: Responses,
    data: LaRTData,
    items: LaRTItems,
    posteriors: AbilityPosteriors,
    sums: ExpectedItemSums,
    run: Iterations,
    settings: Mapping[str, Any],
) -> PointEstimate:
    """Return the point estimate from items and the subjects' posteriors given them."""
    (aa, ad), (_, dd) = np.asarray(sums.information, np.float64)
    *errors, centre = pair_errors(aa + ANSWER_PRECISION, ad, dd + ANSWER_PRECISION)
    parameters = parameter_table(
        responses,
        (posteriors.mean, items.a, items.d),
        (np.sqrt(posteriors.variance), *errors),
        centre,
    )
    if data.latencies is not None:
        parameters = parameters.assign(_of_lengths(data.latencies, items, posteriors))
    return PointEstimate(
        parameters,
        float(posteriors.log_likelihood.sum()),
        *run[:3],
        run.trace,
        {
            "theta_scale": "population",
            "lengths": "left out" if data.latencies is None else "taken",
            **settings,
        },
    )


def _of_lengths(
    latencies: Latencies, items: LaRTItems, posteriors: AbilityPosteriors
) -> dict[str, tuple[Any, ...]]:
    """Return speeds, the items' length parameters and ρ, each with its error."""
    tau, tau_tau, subjects = expected_speeds(latencies, items, posteriors)
    moments = latencies.moments(tau, tau_tau)
    n = jnp.maximum(moments.n, 1)
    mean = moments.tau / n
    spread = jnp.maximum(moments.tau_tau - n * mean**2, jnp.finfo(n.dtype).tiny)
    values = {
        "tau": ("subject", tau, jnp.sqrt(tau_tau - tau**2)),
        "phi": ("item", items.phi, jnp.sqrt(items.lam / spread)),
        "omega": ("item", items.omega, jnp.sqrt(items.lam * (1 / n + mean**2 / spread))),
        "lam": ("item", items.lam, items.lam * jnp.sqrt(2 / n)),
        "rho": ((), items.rho, (1 - items.rho**2) / jnp.sqrt(subjects.n)),
    }
    columns: dict[str, tuple[Any, ...]] = {}
    for name, (dims, value, error) in values.items():
        columns[name] = (dims, np.asarray(value, np.float64))
        columns[f"{name}_se"] = (dims, np.asarray(error, np.float64))
    return columns
