"""Response families, and the sums over cells that every estimator and engine is made of."""

import jax

if jax.config.values["jax_default_matmul_precision"] is None:
    # By default GPUs round factors of 32 bits to three digits.
    jax.config.update("jax_default_matmul_precision", "highest")
