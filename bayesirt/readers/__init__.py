"""Results files in, `Responses` out: one function for every format."""

from bayesirt.readers.recognise import read_responses

__all__ = ["read_responses"]
