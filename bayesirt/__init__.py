"""Rank language models with honest uncertainty.

The pipeline is: file → `Responses` → `PointEstimate` → `Posterior` → `Ranking` → report.
Names are imported on first use, so that importing the package is fast.

Examples
--------
>>> import bayesirt
>>> responses = bayesirt.read_responses(bayesirt.example_path())
>>> responses.n_subjects >= 2
True
"""

from importlib import import_module
from typing import Any

from bayesirt.jax_settings import avoid_wrong_sums, keep_compiled_code

__version__ = "0.1.0"

_HOME = {
    "AbilityProfiles": "bayesirt.profiles.ability_profiles",
    "AbilitySources": "bayesirt.ranking.ability_sources",
    "Annotation": "bayesirt.profiles.annotation",
    "Answers": "bayesirt.inference.ability_belief",
    "BankReview": "bayesirt.bank.review",
    "CalibrationStudy": "bayesirt.studies",
    "Continuous": "bayesirt.models",
    "DifficultySources": "bayesirt.ranking.difficulty_sources",
    "EffectiveItems": "bayesirt.ranking.effective_items",
    "Gate": "bayesirt.ranking.gate_result",
    "Graded": "bayesirt.models",
    "Horizons": "bayesirt.ranking.horizon",
    "KnownItems": "bayesirt.estimators.fixed_items",
    "LaRT": "bayesirt.models",
    "Mirt": "bayesirt.models",
    "Normal": "bayesirt.models",
    "PointEstimate": "bayesirt.point_estimate",
    "Posterior": "bayesirt.posterior",
    "Priors": "bayesirt.models.priors",
    "QMatrix": "bayesirt.data.q_matrix",
    "QMirt": "bayesirt.models",
    "Ranking": "bayesirt.ranking.subject_ranking",
    "Repeats": "bayesirt.models",
    "ResponseError": "bayesirt.errors",
    "Responses": "bayesirt.data.responses",
    "RunOptions": "bayesirt.inference.options",
    "Scale": "bayesirt.data.scales",
    "Settings": "bayesirt.ranking.settings",
    "ThreePL": "bayesirt.models",
    "TwoPL": "bayesirt.models",
    "ability_so_far": "bayesirt.bank.adaptive",
    "ability_sources": "bayesirt.ranking.ability_sources",
    "add_benchmark": "bayesirt.bank.growing_suite",
    "annotate": "bayesirt.profiles.annotation",
    "answers_of": "bayesirt.bank.new_answers",
    "calibrate_items": "bayesirt.estimators.fpc",
    "calibration_study": "bayesirt.studies",
    "check_fit": "bayesirt.checks.fit.fit_check",
    "choose_anchors": "bayesirt.estimators.anchors",
    "choose_dimension": "bayesirt.estimators.dimension",
    "choose_engine": "bayesirt.inference.engines",
    "cite": "bayesirt.report.citation",
    "compare_estimates": "bayesirt.checks.point_comparison",
    "compare_models": "bayesirt.checks.predictive_gain",
    "compare_wrong_lengths": "bayesirt.checks.wrong_lengths",
    "create_suite": "bayesirt.bank.growing_suite",
    "difficulty_sources": "bayesirt.ranking.difficulty_sources",
    "effective_items": "bayesirt.ranking.effective_items",
    "example_path": "bayesirt.data.example",
    "fit_cbmm": "bayesirt.estimators.cbmm",
    "fit_joint_map": "bayesirt.estimators.joint_map",
    "fit_lart": "bayesirt.estimators.lart_em",
    "fit_marginal": "bayesirt.estimators.marginal",
    "fit_mirt": "bayesirt.estimators.mirt",
    "fit_neural_cd": "bayesirt.estimators.neural_cd",
    "fit_point": "bayesirt.estimators.registry",
    "fit_q_mirt": "bayesirt.estimators.q_mirt",
    "fit_saem": "bayesirt.estimators.saem",
    "fit_spectral": "bayesirt.estimators.spectral",
    "gate": "bayesirt.ranking.gate",
    "horizons": "bayesirt.ranking.horizon",
    "keep_items": "bayesirt.ranking.kept_items",
    "local_dependence": "bayesirt.checks.fit.item_pairs",
    "open_run": "bayesirt.report.run_files",
    "plot_run": "bayesirt.report.pictures",
    "predict_items": "bayesirt.profiles.item_prediction",
    "profile_abilities": "bayesirt.profiles.ability_profiles",
    "rank": "bayesirt.ranking.rank",
    "rank_clusters": "bayesirt.ranking.cluster_ranking",
    "rank_next_items": "bayesirt.bank.adaptive",
    "rank_subjects": "bayesirt.ranking.subject_ranking",
    "read_answers": "bayesirt.bank.new_answers",
    "read_bank": "bayesirt.bank.folder",
    "read_corrections": "bayesirt.profiles.annotation",
    "read_q_matrix": "bayesirt.data.readers",
    "read_responses": "bayesirt.data.readers",
    "repeated_runs": "bayesirt.ranking.repeated_runs",
    "review_bank": "bayesirt.bank.review",
    "review_items": "bayesirt.checks.item_review",
    "sample_mirt": "bayesirt.inference.engines",
    "sample_posterior": "bayesirt.inference.engines",
    "sample_q_mirt": "bayesirt.inference.engines",
    "save_run": "bayesirt.report.run_files",
    "score_answers": "bayesirt.bank.scoring",
    "separate": "bayesirt.ranking.separation",
    "separate_clusters": "bayesirt.ranking.cluster_separation",
    "simulate_q_mirt": "bayesirt.profiles.simulation",
    "simulate_responses": "bayesirt.simulate",
    "spot_check": "bayesirt.profiles.annotation",
    "suggest_anchors": "bayesirt.bank.next_anchors",
    "taxonomy": "bayesirt.profiles.annotation",
}

avoid_wrong_sums()

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bayesirt' has no attribute {name!r}")
    keep_compiled_code()
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
