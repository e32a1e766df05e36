"""Response families, and the sums over cells that every estimator and engine is made of."""
