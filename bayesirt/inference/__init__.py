"""Posterior engines: responses and a model in, a `Posterior` out."""

from bayesirt.inference.engines import (
    choose_engine,
    sample_mirt,
    sample_posterior,
    sample_q_mirt,
)
from bayesirt.inference.options import RunOptions

__all__ = ["RunOptions", "choose_engine", "sample_mirt", "sample_posterior", "sample_q_mirt"]
