"""The FPC study: Habba et al. (2026) done again, with intervals and unlike subjects.

Benchmarks join a suite one after another by fixed-parameter calibration; at each step subjects
that were held out are predicted from their answers to anchors.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Unpack

import pandas as pd
from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.studies.engine import Part, Running, Study, do_tasks
from bayesirt.studies.fpc_tables import fpc_found
from bayesirt.studies.fpc_tasks import (
    COLUMNS,
    FPC_SIMULATED,
    METHODS,
    PLACE,
    FPCDesign,
    conditions_of,
    given_matrix,
    simulated_matrix,
    tasks_of,
)
from bayesirt.studies.labels import fingerprint
from bayesirt.studies.tasks import PortableKey

_MATRIX_SEED = 43
_VARIED = {"n_anchors": "anchors", "how": "rule", "n_reference": "n_reference", "split": "split"}


def fpc_study(
    design: FPCDesign | None = None,
    *,
    key: Array,
    responses: Responses | None = None,
    groups: Mapping[str, str] | None = None,
    families: Mapping[str, str] | None = None,
    **running: Unpack[Running],
) -> Study:
    """Do Habba et al. (2026), section 4, again: predict held-out subjects as a suite grows.

    The suite is simulated, or given by complete responses, the benchmark of each item (`groups`)
    and perhaps the family of each subject, to hold whole families out.
    """
    portable = PortableKey.of(key)
    if responses is None:
        for given, option in ((groups, "--groups"), (families, "--families")):
            if given is not None:
                raise ResponseError(f"{option} needs the responses, too; give --responses")
        design = design or FPC_SIMULATED
        matrix = simulated_matrix(design.simulated, portable.rng(_MATRIX_SEED))
    elif groups is None:
        raise ResponseError("a chain needs the benchmark of each item; give --groups")
    else:
        design, matrix = design or FPCDesign(), given_matrix(responses, groups, families)
    settings: dict[str, Any] = {**asdict(design), "key": portable}
    if not matrix.simulated:
        settings |= {"responses": fingerprint(matrix.responses)}
        settings |= {"benchmarks": matrix.benchmarks, "families": matrix.families}
    conditions = conditions_of(design, matrix)
    tasks = tasks_of(design, matrix, conditions, portable)
    varied = pd.DataFrame(conditions)[[*_VARIED]].rename(columns=_VARIED)
    parts = {"chains": Part(PLACE, COLUMNS, [*METHODS], varied)}
    rows = do_tasks(tasks, parts, settings, running)["chains"]
    rows["benchmark"] = [matrix.names[int(b)] for b in rows["benchmark"]]
    return fpc_found(rows, matrix)
