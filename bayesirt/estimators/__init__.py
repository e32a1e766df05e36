"""Fast point estimators, one file each: `fit_x(responses, *, ...) → PointEstimate`."""
