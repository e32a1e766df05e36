"""Does the model fit? Totals, items, subjects, pairs of items, and held-out predictions."""
