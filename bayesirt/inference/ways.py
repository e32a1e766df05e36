"""The `TwoWay` class of each response model, which defines its moves."""

import numpy as np

from bayesirt.data.difficulty import design_of
from bayesirt.data.responses import Responses
from bayesirt.inference.cluster_moves import with_clusters
from bayesirt.inference.explained import explained
from bayesirt.inference.graded_moves import ByThresholds, OfScores
from bayesirt.inference.lart_moves import WithLengths
from bayesirt.inference.mirt_moves import Exploratory
from bayesirt.inference.one_ability import OneAbility
from bayesirt.inference.q_mirt_moves import ByQMatrix
from bayesirt.inference.two_way import TwoWay
from bayesirt.models import Continuous, Graded, LaRT, Mirt, Normal, QMirt, ResponseModel

_MANY_ANSWERS = 400
"""Answers per item from which hyperparameters mix well without moving the items along."""
_OWN: dict[type[ResponseModel], type[TwoWay]] = {
    Continuous: OfScores,
    Graded: ByThresholds,
    LaRT: WithLengths,
    Mirt: Exploratory,
    Normal: OfScores,
    QMirt: ByQMatrix,
}


def way_of(model: ResponseModel, responses: Responses | None = None) -> TwoWay:
    """Return a model at unconstrained sites, with clusters and covariates from the responses."""
    way_type = _OWN.get(type(model), OneAbility)
    if responses is None:
        return way_type(model)
    clusters = responses.clusters
    design = design_of(model.priors.difficulty, responses.item_metadata)
    table = responses.subject_metadata
    if clusters is not None:
        table = table.iloc[np.unique(clusters.codes, return_index=True)[1]]
    skills = design_of(model.priors.ability, table, "subject")
    if design or skills:
        way_type = explained(way_type)
    if clusters is not None:
        way_type = with_clusters(way_type)
    codes = () if clusters is None else clusters.codes
    many_answers = responses.n_observed >= _MANY_ANSWERS * responses.n_items
    return way_type(model, codes, design, skills, many_answers)
