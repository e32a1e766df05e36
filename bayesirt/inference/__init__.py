"""Posterior engines: responses and a model in, a `Posterior` out."""

from bayesirt.inference.engines import choose_engine, sample_posterior
from bayesirt.inference.mirt_engines import sample_mirt
from bayesirt.inference.q_mirt_engines import sample_q_mirt

__all__ = ["choose_engine", "sample_mirt", "sample_posterior", "sample_q_mirt"]
