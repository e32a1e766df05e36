"""The FPC study: Habba et al. (2026) done again, with intervals and unlike subjects.

Benchmarks join a suite one after another by fixed-parameter calibration; at each step subjects
that were held out are predicted from their answers to anchors.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Unpack

import pandas as pd
from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.studies.engine import Part, Running, Study, do_tasks
from bayesirt.studies.fpc_claims import NOTES, fpc_claims
from bayesirt.studies.fpc_figures import plot_along, plot_coverage, plot_references, plot_rules
from bayesirt.studies.fpc_matrix import FPCMatrix, given_matrix, simulated_matrix
from bayesirt.studies.fpc_tables import (
    cost_table,
    mean_table,
    paired_table,
    paper_table,
    trend_table,
    usual_rows,
    varied_table,
)
from bayesirt.studies.fpc_tasks import (
    COLUMNS,
    FPC_SIMULATED,
    METHODS,
    PLACE,
    FPCDesign,
    conditions_of,
    tasks_of,
)
from bayesirt.studies.labels import fingerprint
from bayesirt.studies.study_rows import with_conditions
from bayesirt.studies.tasks import PortableKey

_MATRIX_SEED = 43
_COLUMNS = {
    "anchors": "n_anchors", "rule": "how", "n_reference": "n_reference", "split": "split"
}  # fmt: skip


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
    logged = do_tasks(tasks, {"chains": Part(PLACE, COLUMNS)}, settings, running)["chains"]
    rows = with_conditions(logged, conditions, _COLUMNS, list(METHODS), replication="chain")
    rows["benchmark"] = [matrix.names[int(b)] for b in rows["benchmark"]]
    return fpc_found(rows, matrix)


def fpc_found(rows: pd.DataFrame, matrix: FPCMatrix) -> Study:
    """Return what the rows of a chain, step and method under a condition say."""
    usual = usual_rows(rows)
    tables = {
        "methods": mean_table(usual, ["anchors", "method"]),
        "benchmarks": mean_table(usual, ["anchors", "benchmark", "n_items", "method"]),
        "along_the_chain": mean_table(usual, ["anchors", "step", "method"]),
        "trends": trend_table(usual),
        "baselines": paired_table(usual),
        "costs": cost_table(usual),
        "rules": varied_table(rows, "rule"),
        "references": varied_table(rows, "n_reference"),
        "splits": varied_table(rows, "split"),
    }
    tables["paper"] = paper_table(tables["methods"])
    splits = pd.concat([tables["methods"].assign(split="random"), tables["splits"]])
    splits = splits.drop_duplicates(["anchors", "split", "method"])
    figures = {
        "along_the_chain": partial(plot_along, tables["along_the_chain"], tables["trends"]),
        "coverage": partial(plot_coverage, splits),
    }
    for name, plot in (("rules", plot_rules), ("references", plot_references)):
        if len(tables[name]):
            figures[name] = partial(plot, tables[name])
    n_chains = len(rows[[*_COLUMNS, "chain"]].drop_duplicates())
    return Study(
        f"FPC study of {n_chains} chains of {len(matrix.names)} benchmarks",
        rows,
        tables,
        fpc_claims(tables, matrix),
        NOTES,
        figures,
    )
