"""How a ranking was made: each method in a sentence, with its citation."""

from bayesirt.posterior import Posterior
from bayesirt.ranking.finished_run import Run

_POINTS = {
    "cbmm": "Constrained block majorization-minimization, here with Newton steps (Qu, Heng, Zeng "
    "and Liu, 2026).",
    "mml": "Marginal maximum likelihood by EM (Bock and Aitkin, 1981).",  # earlier versions
    "joint_map": "The joint maximum of the posterior density (Mislevy, 1986).",
    "spectral": "Singular vectors of the answers (Zhang, Chen and Li, 2020).",
    "em": "EM with the speeds in closed form (Xu, Liu, Wang and Gu, 2026, use SAEM), accelerated "
    "by SQUAREM (Varadhan and Roland, 2008).",
    "saem": "Stochastic approximation of EM (Xu, Liu, Wang and Gu, 2026; Delyon, Lavielle and "
    "Moulines, 1999).",
}
_ENGINES = {
    "nuts": "NUTS (Hoffman and Gelman, 2014), by NumPyro (Phan, Pradhan and Jankowiak, 2019).",
    "blocked": "Metropolis updates of all subjects at once, then of all items, by Newton proposals "
    "(Gamerman, 1997; Qi and Minka, 2002).",
    "laplace": "A joint normal approximation of all parameters at the most probable values "
    "(Tierney and Kadane, 1986); exact methods would take too long.",
}


def methods_of(run: Run) -> list[tuple[str, str]]:
    """Describe each method that a ranking used, with citations."""
    diagnostics = run.record.diagnostics
    methods = [
        ("Model", _model(run)),
        ("Point estimate", _point(run)),
        ("Posterior", _ENGINES[diagnostics["engine"]] + _checks(run)),
        (
            "Ranks",
            "Tiers and rank sets hold for all subjects at once (after Mogstad, Romano, Shaikh and "
            "Wilhelm, 2024).",
        ),
        (
            "Averages",
            "A rule based on sparsity and the difficulty gap (Kang, 2026).",
        ),
        (
            "Items",
            "The share of items listed wrongly is bounded by posterior probabilities (Müller, "
            "Parmigiani and Rice, 2007) or by Benjamini and Hochberg (1995); mis-keyed items are "
            "found by the corrected item-total correlation (Lord and Novick, 1968).",
        ),
    ]
    if run.fit is not None:
        methods.append(("Fit", _FIT))
    if run.wrong is not None or "prediction" in diagnostics:
        methods.append(("Prediction", "PSIS-LOO (Vehtari, Gelman and Gabry, 2017)."))
    return methods


_FIT = (
    "Held-out log scores with errors clustered by subjects and items (Cameron, Gelbach and Miller, "
    "2011); posterior predictive checks of items, subjects and totals (Sinharay, Johnson and "
    "Stern, 2006), persons by standardised log likelihoods (Drasgow, Levine and Williams, 1985), "
    "pairs by Q3 (Yen, 1984); calibration by isotonic regression (Dimitriadis, Gneiting and "
    "Jordan, 2021)."
)


def _point(run: Run) -> str:
    name = run.record.diagnostics["point_estimator"]
    if name == "em" and not run.posterior.has_speeds:
        return "EM with abilities integrated out (Bock and Aitkin, 1981; Liu, Rubin and Wu, 1998)."
    return _POINTS[name]


def _meaning(posterior: Posterior) -> str:
    attrs = posterior.tree.attrs
    earlier = f"Answers depend on the subject's ability according to the {attrs['model']}"
    meaning = str(attrs.get("meaning", earlier))
    return meaning.replace("logistic", "probit") if posterior.link == "probit" else meaning


def _model(run: Run) -> str:
    sentences = [
        f"{_meaning(run.posterior)}; abilities, difficulties and "
        f"discriminations are estimated jointly, so a subject that met only easy items gains no "
        f"advantage. {run.posterior.scale_in_words}"
    ]
    if "scale" in run.ranking.summary:
        sentences.append("The scale is a straight line through its anchors.")
    if run.clusters is not None:
        sentences.append(
            "Abilities within a cluster are normal about the cluster's ability, which is normal "
            "too: a random effect whose share of the variance is estimated with the rest."
        )
    priors = run.record.settings.priors
    if priors.difficulty:
        sentences.append(
            f"Difficulty is explained by {priors.difficulty}, with random effects of levels "
            f"(De Boeck and Wilson, 2004)."
        )
    if priors.ability:
        sentences.append(
            f"Ability is explained by {priors.ability}, with additive random effects of "
            f"levels (De Boeck and Wilson, 2004)."
        )
    if priors.groups:
        sentences.append(
            f"Answers to questions of one group, by {priors.groups}, share a group-specific "
            f"ability (testlets; Wainer, Bradlow and Wang, 2007)."
        )
    return " ".join(sentences)


def _checks(run: Run) -> str:
    if run.posterior.approximate:
        return ""
    return (
        " Draws are checked by R-hat and effective sample sizes (Vehtari, Gelman, Simpson, "
        "Carpenter and Bürkner, 2021)."
    )
