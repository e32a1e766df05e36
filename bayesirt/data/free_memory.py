"""Free memory of this machine."""

from pathlib import Path

import psutil

_GROUP = Path("/sys/fs/cgroup")


def host_bytes_free() -> float:
    """Return the number of free bytes of memory, within the container's limit if there is one."""
    return min(psutil.virtual_memory().available, _left_to_container())


def _left_to_container() -> float:
    try:
        names = ("max", "current", "stat")
        limit, used, parts = ((_GROUP / f"memory.{x}").read_text("ascii") for x in names)
        # Cached files count as used but can be evicted.
        idle = next(x for x in parts.splitlines() if x.startswith("inactive_file "))
        return int(limit) - int(used) + int(idle.split()[1])
    except (OSError, ValueError, StopIteration):  # no container, or one without a limit
        return float("inf")


def in_gigabytes(size: float) -> str:
    """Return a number of bytes in words.

    >>> in_gigabytes(2_340_000_000)
    '2.3 GB'
    """
    return f"{size / 1e9:,.1f} GB"
