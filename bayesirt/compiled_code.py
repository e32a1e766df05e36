"""JAX keeps compiled code in the user's cache folder, so that later processes start quickly."""

import os
import sys
from functools import cache
from pathlib import Path

_FOLDER, _LEAST = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
_LEAST_SECONDS = 0.1
"""Code that compiles faster is not kept: it may be that of other packages."""


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
