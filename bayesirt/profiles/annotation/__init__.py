"""Annotation of items with the abilities they need, by an LLM and checked by people."""

from bayesirt.profiles.annotation.annotation import Annotation, Failure
from bayesirt.profiles.annotation.corrections import Corrections, read_corrections
from bayesirt.profiles.annotation.review_sheet import spot_check
from bayesirt.profiles.annotation.shipped import taxonomy
from bayesirt.profiles.annotation.stages import annotate

__all__ = [
    "Annotation",
    "Corrections",
    "Failure",
    "annotate",
    "read_corrections",
    "spot_check",
    "taxonomy",
]
