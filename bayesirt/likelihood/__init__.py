"""Response families, and the sums over cells from which all estimators and engines are built."""

import jax

if jax.config.values["jax_default_matmul_precision"] is None:
    # By default, GPUs round 32-bit factors to three digits.
    jax.config.update("jax_default_matmul_precision", "highest")
