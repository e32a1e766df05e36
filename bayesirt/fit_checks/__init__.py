"""Does the model fit? Totals, items, subjects, pairs of items, and held-out predictions."""

from bayesirt.fit_checks.fit_check import FitCheck, check_fit
from bayesirt.fit_checks.item_pairs import LocalDependence, local_dependence

__all__ = ["FitCheck", "LocalDependence", "check_fit", "local_dependence"]
