"""The one error that bad input raises."""


class ResponseError(ValueError):
    """Bad input: one sentence that says what is wrong, where, and what to do."""
