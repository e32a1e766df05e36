"""The package's engines, set up for the many small runs of a study."""

from collections.abc import Sequence
from functools import partial

from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.inference.laplace import sample_laplace
from bayesirt.inference.nuts import sample_nuts
from bayesirt.inference.options import RunOptions
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import Priors, TwoPL
from bayesirt.posterior import Posterior
from bayesirt.studies.replication import Engine


def study_engines(names: Sequence[str], priors: Priors | None = None) -> dict[str, Engine]:
    """Return engines by name, as `calibration_study` takes them.

    They can be sent to other processes.
    """
    return {name: partial(_ENGINES[name], priors or Priors()) for name in names}


def _nuts(priors: Priors, responses: Responses, key: Array) -> Posterior:
    return sample_nuts(
        responses, key=key, model=TwoPL(priors), options=RunOptions(num_chains=2, num_warmup=500)
    )


def _blocked(priors: Priors, responses: Responses, key: Array) -> Posterior:
    return sample_blocked(
        responses, key=key, model=TwoPL(priors), options=RunOptions(num_warmup=300, thinning=2)
    )


def _laplace(priors: Priors, responses: Responses, key: Array) -> Posterior:
    return sample_laplace(
        responses, key=key, model=TwoPL(priors), options=RunOptions(num_samples=500)
    )


_ENGINES = {"nuts": _nuts, "blocked": _blocked, "laplace": _laplace}
