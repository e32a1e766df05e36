"""Posterior engines: responses and a model in, a `Posterior` out."""

from bayesirt.inference.engines import choose_engine, sample_posterior

__all__ = ["choose_engine", "sample_posterior"]
