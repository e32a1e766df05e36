"""Checks of model fit, of point estimates and of items."""
