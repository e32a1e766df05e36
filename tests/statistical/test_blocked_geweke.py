"""Getting it right (Geweke 2004): sweeps leave the joint distribution of parameters and data.

Parameters are drawn from the prior and data given them; then the parameters are swept given the
data. They are still draws from the prior if every density, Jacobian and Metropolis ratio is
right. Geweke compares one long chain with the prior. Here many short chains start from exact
draws, so that pairs are independent, differences have a simple standard error, and ten sweeps let
small errors grow.
"""

import jax
import numpy as np
import pytest
from geweke import PAIRS, answered, assert_no_drift, prior_sites, quantities, swept

from bayesirt import Priors
from bayesirt.inference.cluster_moves import with_clusters
from bayesirt.inference.one_ability import OneAbility
from bayesirt.models import Repeats, ThreePL, TwoPL

pytestmark = pytest.mark.statistical

CLUSTERS = (0, 1, 0, 0)


@pytest.mark.parametrize(
    ("model", "clusters"),
    [
        (TwoPL(), ()),
        (TwoPL(Priors(slopes="rasch")), ()),
        (TwoPL(Priors(kind="fixed")), ()),
        (ThreePL(), ()),
        (Repeats(), ()),
        (ThreePL(Priors(slopes="free", guessing=0.25)), CLUSTERS),
    ],
    ids=lambda x: x.describe() if isinstance(x, TwoPL) else str(x),
)
def test_parameters_stay_draws_from_the_prior(model, clusters):
    """At most 80 quantities at 6 standard errors: a correct sampler fails once in 7 million."""
    before = prior_sites(model, clusters, np.random.default_rng(7))
    assert len(before["theta"]) == PAIRS
    way = with_clusters(OneAbility)(model, clusters) if clusters else OneAbility(model)

    def data_of(key, sites):
        theta, a, d, *further = way.terms(sites).returned
        floor = further[0] if isinstance(model, ThreePL) else 0.0
        p = floor + (1 - floor) * jax.nn.sigmoid(theta[:, None] * a + d)
        if isinstance(model, Repeats):
            p = jax.random.beta(jax.random.fold_in(key, 2), p * further[0], (1 - p) * further[0])
        return answered(key, p)

    after, accepted = swept(way, data_of, before)
    change = quantities(after) - quantities(before)
    assert change.shape[1] <= 80
    assert_no_drift(change, f"{model.describe()} {accepted}")
