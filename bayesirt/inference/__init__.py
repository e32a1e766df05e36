"""Posterior engines, which take responses and a model and return a `Posterior`."""
