"""The error that bad input raises."""


class ResponseError(ValueError):
    """Bad input; the message says in one sentence what is wrong, where, and what to do."""
