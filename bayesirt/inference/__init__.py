"""Posterior engines: responses and a model in, a `Posterior` out."""

from bayesirt.inference.engines import sample_posterior

__all__ = ["sample_posterior"]
