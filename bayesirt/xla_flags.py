"""Flags of XLA, which it reads once, when JAX computes something for the first time."""

import os
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

_WRONG = "0.10.2"
"""Version of jaxlib whose library for reductions is wrong on CPUs for sums of products over many
thousands of rows (https://github.com/jax-ml/jax/issues/39103)."""
_LIBRARY = "--xla_cpu_experimental_ynn_fusion_type"


def add_flag(flag: str) -> None:
    """Add a flag to those in the environment."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()


def avoid_wrong_sums() -> None:
    """Do without the library whose sums are wrong; warn if it is too late for that."""
    if not _is_installed(_WRONG) or _LIBRARY in os.environ.get("XLA_FLAGS", ""):
        return
    add_flag(f"{_LIBRARY}=")
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge and bridge.backends_are_initialized():
        warnings.warn(
            f"jaxlib {_WRONG} computes some large sums wrongly on CPUs; import bayesirt before JAX "
            "computes anything, or install another version of jax",
            stacklevel=3,
        )


def _is_installed(version: str) -> bool:
    """Whether this is the version of jaxlib; `importlib.metadata` would take 30 ms to import."""
    spec = find_spec("jaxlib")
    folder = Path(spec.origin).parents[1] if spec and spec.origin else Path()
    return (folder / f"jaxlib-{version}.dist-info").exists()
