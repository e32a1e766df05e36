"""How much memory this machine still has."""

from pathlib import Path

import psutil


def host_bytes_free() -> float:
    """Return how many bytes of memory are free, for the machine or for the container it is."""
    return min(psutil.virtual_memory().available, _left_to_container())


def _left_to_container() -> float:
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = ((group / f"memory.{x}").read_text("ascii") for x in ("max", "current"))
        return int(limit) - int(used)
    except (OSError, ValueError):  # no container, or one without a limit
        return float("inf")


def in_gigabytes(size: float) -> str:
    """Return a number of bytes in words.

    >>> in_gigabytes(2_340_000_000)
    '2.3 GB'
    """
    return f"{size / 1e9:,.1f} GB"
