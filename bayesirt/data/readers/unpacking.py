"""Limit on unpacked sizes: real results compress less than a hundredfold, unlike zip bombs."""

ALWAYS = 1 << 24
"""Bytes that any file may unpack to."""
TIMES = 100


def most_unpacked(packed: int) -> int:
    """Return the number of bytes that a file may unpack to.

    >>> most_unpacked(1000) - most_unpacked(0)
    100000
    """
    return ALWAYS + TIMES * packed
