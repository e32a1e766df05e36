"""Settings of JAX and flags of XLA, which it reads once, when JAX first computes something."""

import os
import sys
import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_WRONG = "0.10.2"
"""Version of jaxlib whose library for reductions is wrong on CPUs for sums of products over many
thousands of rows (https://github.com/jax-ml/jax/issues/39103)."""
_LIBRARY = "--xla_cpu_experimental_ynn_fusion_type"
_FOLDER, _LEAST = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
_LEAST_SECONDS = 0.1
"""Code that compiles faster is not kept: it may be that of other packages."""


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


def cache_folder() -> Path | None:
    """Return the package's cache folder; None if the user has chosen another one for JAX."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "bayesirt")
    chosen = os.environ.get(_FOLDER.upper())
    if chosen is None and (jax := sys.modules.get("jax")):
        chosen = getattr(jax.config, _FOLDER)
    return folder if chosen in (None, str(folder / "jax")) else None


@cache
def keep_compiled_code(least_seconds: float = _LEAST_SECONDS) -> None:
    """Have JAX keep compiled code, unless the user has chosen a folder or ours is not writable."""
    folder = cache_folder()
    if folder is None or not _is_writable(folder):
        return
    configure_jax({_FOLDER: str(folder / "jax"), _LEAST: least_seconds})


def configure_jax(settings: dict[str, bool | float | str]) -> None:
    """Configure JAX without importing it."""
    if jax := sys.modules.get("jax"):
        for name, value in settings.items():
            jax.config.update(name, value)
    else:
        os.environ.update({name.upper(): str(value) for name, value in settings.items()})


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
