"""Posterior engines: responses and a model in, a `Posterior` out."""
