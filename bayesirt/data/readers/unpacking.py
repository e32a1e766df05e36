"""How much a compressed file may unpack to: no results are packed a hundredfold, but bombs are."""

ALWAYS = 1 << 24
"""Bytes that every file may unpack to."""
TIMES = 100


def most_unpacked(packed: int) -> int:
    """Return how many bytes a file may unpack to.

    >>> most_unpacked(1000) - most_unpacked(0)
    100000
    """
    return ALWAYS + TIMES * packed
