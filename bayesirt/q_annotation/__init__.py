"""Which abilities each item needs, asked of an LLM and checked by people."""

from bayesirt.q_annotation.annotation import Annotation, Failure
from bayesirt.q_annotation.corrections import Corrections, read_corrections
from bayesirt.q_annotation.review_sheet import spot_check
from bayesirt.q_annotation.shipped import taxonomy
from bayesirt.q_annotation.stages import annotate

__all__ = [
    "Annotation",
    "Corrections",
    "Failure",
    "annotate",
    "read_corrections",
    "spot_check",
    "taxonomy",
]
