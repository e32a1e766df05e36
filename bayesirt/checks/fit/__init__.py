"""Does the model fit? Totals, items, subjects, pairs of items, and held-out predictions."""

from bayesirt.checks.fit.fit_check import FitCheck, check_fit
from bayesirt.checks.fit.item_pairs import LocalDependence, local_dependence

__all__ = ["FitCheck", "LocalDependence", "check_fit", "local_dependence"]
