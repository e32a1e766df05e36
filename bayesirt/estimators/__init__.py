"""Fast point estimators, one per file: `fit_x(responses, *, ...) → PointEstimate`."""
