"""Groups of dependent items (testlets), such as questions about one text.

A subject has an ability ψ in each group of items, normally distributed about its general ability.
This is the cluster model with each subject split into one subject per group, which form a cluster;
engines need nothing else. In Wainer, Bradlow and Wang (2007), too, ψ - θ has the items' slopes.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.cells import store_cells
from bayesirt.data.clusters import Clusters
from bayesirt.data.facets import groups_of
from bayesirt.data.responses import Responses
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior

GROUP_OF = "group_of"
_MORE_THAN_WIDE = 2.0


def by_group(responses: Responses, column: str) -> Responses:
    """Split each subject into one subject per group of items; these form a cluster."""
    groups, listed = groups_of(responses, column), responses.cells.listed()
    of_item, n_groups = np.array(groups.codes), len(groups.names)
    cut = listed.subject.astype(np.int64) * n_groups + of_item[listed.item]
    rows, row = np.unique(cut, return_inverse=True)
    order = np.lexsort((listed.item, row))
    subject, group = np.divmod(rows, n_groups)
    cells = store_cells((len(rows), responses.n_items), *(
        x[order] for x in (row, listed.item, listed.successes, listed.trials)
    ))  # fmt: skip
    names = tuple(f"subject {i + 1} in group {g + 1}" for i, g in zip(subject, group, strict=True))
    return replace(
        responses,
        subjects=names,
        cells=cells,
        latency=None if responses.latency is None else responses.latency[order],
        clusters=Clusters.of([responses.subjects[i] for i in subject]),
        costs=None,
        subject_metadata=responses.subject_metadata.iloc[subject].set_axis(list(names)),
    )


def started_by_group(point: PointEstimate, cut: Responses) -> PointEstimate:
    """Return a point estimate for subjects split by group, with larger standard errors."""
    assert cut.clusters is not None
    names = list(map(str, point.parameters["subject"].values))
    positions = pd.Index(names, dtype=object).get_indexer(cut.clusters.of_each)
    rows = point.parameters.isel(subject=positions).assign_coords(subject=list(cut.subjects))
    rows["theta_se"] = _MORE_THAN_WIDE * rows["theta_se"]
    return replace(point, parameters=rows)


def joined(cut: Posterior, responses: Responses, column: str) -> Posterior:
    """Return draws for whole subjects from those of subjects split by group.

    `theta` is the general ability, `sigma_group` the spread of group abilities about it, and
    `sigma_theta` the spread of general abilities about their covariates' prediction.
    """
    assert cut.clusters is not None
    dataset = cut.dataset
    positions = pd.Index(cut.clusters.names, dtype=object).get_indexer(list(responses.subjects))
    samples: dict[str, NDArray[np.float64]] = {
        str(name): x.to_numpy() for name, x in dataset.items() if name not in ("theta", "gamma")
    }
    samples["theta"] = cut["gamma"][..., positions]
    if "icc" in samples:
        samples["sigma_group"] = np.sqrt(1 - samples.pop("icc"))
    else:
        samples["sigma_group"] = samples["sigma_theta"]
        samples["sigma_theta"] = samples.pop("sigma_gamma")
    dims = {str(name): [str(d) for d in x.dims[2:]] for name, x in dataset.items()}
    attributes: dict[str, Any] = {str(k): x for k, x in cut.tree.attrs.items()} | {"groups": column}
    further = {d for site_dims in dims.values() for d in site_dims} - {"subject", "item", "cluster"}
    posterior = Posterior.from_samples(
        samples,
        {str(name): x.to_numpy() for name, x in cut.tree["sample_stats"].to_dataset().items()},
        responses,
        attributes,
        coords={name: dataset[name].values for name in further},
        dims={**dims, "theta": ["subject"]},
    )
    of_each = np.array(groups_of(responses, column).of_each, object)
    facts: dict[str, tuple[Any, Any]] = {GROUP_OF: ("item", of_each.astype(str))}
    for name, x in cut.tree["constant_data"].to_dataset().items():
        if x.dims[:1] == ("item",):
            facts[str(name)] = (x.dims, x.to_numpy())
        elif x.dims[:1] == ("cluster",):
            facts[str(name)] = (("subject", *x.dims[1:]), x.to_numpy()[positions])
    return posterior.with_constants(facts)
