"""Rank language models with honest uncertainty.

The road is one line: file → `Responses` → `PointEstimate` → `Posterior` → `Ranking` → report.
Names are loaded when they are first used, so that importing the package costs nothing.

Examples
--------
>>> import bayesirt
>>> responses = bayesirt.read_responses(bayesirt.example_path())
>>> responses.n_subjects >= 2
True
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "AbilityProfiles": "bayesirt.ability_profiles",
    "Annotation": "bayesirt.q_annotation",
    "Answers": "bayesirt.ability_belief",
    "BankReview": "bayesirt.bank.review",
    "CalibrationStudy": "bayesirt.studies",
    "KnownItems": "bayesirt.estimators.fixed_items",
    "LaRT": "bayesirt.models",
    "Mirt": "bayesirt.models",
    "PointEstimate": "bayesirt.point_estimate",
    "Posterior": "bayesirt.posterior",
    "Priors": "bayesirt.models.priors",
    "QMatrix": "bayesirt.q_matrix",
    "QMirt": "bayesirt.models",
    "Ranking": "bayesirt.ranking",
    "ResponseError": "bayesirt.errors",
    "RunOptions": "bayesirt.inference",
    "Responses": "bayesirt.responses",
    "ThreePL": "bayesirt.models",
    "TwoPL": "bayesirt.models",
    "ability_so_far": "bayesirt.adaptive",
    "add_benchmark": "bayesirt.bank.growing_suite",
    "annotate": "bayesirt.q_annotation",
    "answers_of": "bayesirt.new_answers",
    "calibrate_items": "bayesirt.estimators.fpc",
    "calibration_study": "bayesirt.studies",
    "check_fit": "bayesirt.fit_checks",
    "choose_anchors": "bayesirt.estimators.anchors",
    "choose_dimension": "bayesirt.estimators.dimension",
    "choose_engine": "bayesirt.inference",
    "compare_estimates": "bayesirt.comparison",
    "compare_models": "bayesirt.prediction_gain",
    "compare_wrong_lengths": "bayesirt.wrong_lengths",
    "create_suite": "bayesirt.bank.growing_suite",
    "example_path": "bayesirt.example",
    "fit_cbmm": "bayesirt.estimators.cbmm",
    "fit_joint_map": "bayesirt.estimators.joint_map",
    "fit_lart": "bayesirt.estimators.lart_em",
    "fit_mirt": "bayesirt.estimators.mirt",
    "fit_mml": "bayesirt.estimators.mml",
    "fit_neural_cd": "bayesirt.estimators.neural_cd",
    "fit_point": "bayesirt.estimators.choice",
    "fit_q_mirt": "bayesirt.estimators.q_mirt",
    "fit_saem": "bayesirt.estimators.saem",
    "fit_spectral": "bayesirt.estimators.spectral",
    "lart_model": "bayesirt.models.lart",
    "local_dependence": "bayesirt.fit_checks",
    "mirt_model": "bayesirt.models.mirt",
    "predict_items": "bayesirt.prediction",
    "profile_abilities": "bayesirt.ability_profiles",
    "q_mirt_model": "bayesirt.models.q_mirt",
    "rank_clusters": "bayesirt.cluster_ranking",
    "rank_next_items": "bayesirt.adaptive",
    "rank_subjects": "bayesirt.ranking",
    "read_answers": "bayesirt.new_answers",
    "read_bank": "bayesirt.bank.folder",
    "read_corrections": "bayesirt.q_annotation",
    "read_q_matrix": "bayesirt.readers",
    "read_responses": "bayesirt.readers",
    "review_bank": "bayesirt.bank.review",
    "review_items": "bayesirt.item_review",
    "sample_mirt": "bayesirt.inference",
    "sample_posterior": "bayesirt.inference",
    "sample_q_mirt": "bayesirt.inference",
    "score_answers": "bayesirt.bank.scoring",
    "separate": "bayesirt.separation",
    "separate_clusters": "bayesirt.cluster_separation",
    "simulate_q_mirt": "bayesirt.q_simulation",
    "simulate_responses": "bayesirt.simulate",
    "spot_check": "bayesirt.q_annotation",
    "suggest_anchors": "bayesirt.bank.next_anchors",
    "taxonomy": "bayesirt.q_annotation",
    "three_pl_model": "bayesirt.models.three_pl",
    "two_pl_model": "bayesirt.models.two_pl",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bayesirt' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
