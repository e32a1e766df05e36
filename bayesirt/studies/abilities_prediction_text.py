"""What unseen items say of the abilities, in words: profiles, or which abilities are hard."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayesirt.studies.abilities_matrix import AbilityMatrix
from bayesirt.studies.abilities_prediction import MOST_DRAWN
from bayesirt.studies.abilities_predictors import PREDICTORS
from bayesirt.studies.abilities_tables import t_bound
from bayesirt.studies.abilities_text import printed
from bayesirt.studies.study_rows import read_printed

_PAPERS_SPLITS = 10
_MOST_PAIRS = 4
_SHOWN = {
    "learnt": "Q-mIRT", "learnt, average": "averaged over subjects", "neural": "NeuralCD",
    "neural, average": "averaged over subjects",
    "items": "all subjects' accuracy on items that share abilities", "own items": "the subject's",
}  # fmt: skip

NOTES = (
    "The subject's accuracy and an IRT model that knows nothing of items give all new items the "
    "same chance, so their AUC within a subject is .5 by construction. Beside random chances the "
    "paper compares with nothing else, and to beat these it is enough to know which kinds of items "
    "are hard for everybody.",
    "Chances of Q-mIRT integrate over abilities by their standard errors, as if independent of "
    "each other, and over the population of items. NeuralCD has neither. The paper states no "
    "number of epochs; here the network always sees about as many answers as 20 epochs of the "
    "paper's matrix give.",
    "Differences of AUC have 95% bounds between splits by Student's t, as if these were "
    "independent; they share subjects and most of their training items.",
    "The paper's abstract has .77 to .86 across benchmarks and its section 3.4 .77 to .81; its "
    "Table 5 has .77 to .86. Its section 3.3 correlates subjects within an ability, as is done "
    "here, its appendix D.4 abilities within a subject.",
)


def on_prediction(table: pd.DataFrame, prediction: pd.DataFrame) -> Iterator[str]:
    """Yield how well each predictor does at unseen items, and why."""
    first = table.iloc[0]
    means = [printed("within", "mean AUC", x) for x in ("MMLU-MATH", "MMLU-Pro-MATH", "MATH500")]
    yield (
        f"Unseen items, {first['splits']:.0f} random splits into 90% and 10% of the items "
        f"({first['new_items']:.0f} new ones a split): mean AUC within a subject, ± standard "
        f"deviation over subjects; log score of all answers."
    )
    for row in table.itertuples():
        score = "" if np.isnan(row.log_score) else f"; {row.log_score:.3f}"
        words = row.predictor
        if words.startswith("the same"):
            words = f"{PREDICTORS[row.method.split(',')[0]]}{words.removeprefix('the same')}"
        yield f"  {words}: {row.auc:.3f} ± {row.auc_sd:.3f}{score}"
    own = float(table.set_index("method").loc["neural", "auc"])
    spread, of_splits = (
        printed("within", what, "MMLU-MATH")
        for what in ("sd of AUC over subjects", "mean sd of AUC over splits")
    )
    yield (
        f"NeuralCD has {own:.2f} here, {min(means):.2f} to {max(means):.2f} in the paper. There "
        f"its standard deviation over 41 subjects is {spread:.3f} (MMLU-MATH, Table 4), and ten "
        f"splits with a standard deviation of {of_splits:.3f} leave "
        f"{of_splits / np.sqrt(_PAPERS_SPLITS):.3f} to chance: the weakest and the ablest models "
        f"are all predicted alike."
    )
    yield from _on_profiles(table, prediction)
    yield from _on_truth(table)


def _on_profiles(table: pd.DataFrame, prediction: pd.DataFrame) -> Iterator[str]:
    auc = table.set_index("method")["auc"]
    for name in ("learnt", "neural"):
        gain, bound = paired_gain(prediction, name, f"{name}, average")
        yield (
            f"Profiles or hard abilities? {PREDICTORS[name]}: AUC {auc[name]:.3f}. Averaged over "
            f"subjects, so that chances tell only which abilities are hard in general, it is "
            f"{auc[f'{name}, average']:.3f}{_share_left(auc, name)}; the subject's own profile "
            f"adds {gain:.3f} ± {bound:.3f}, {_judged(gain, bound)}."
        )
    neural, learnt = (paired_gain(prediction, name, "items") for name in ("neural", "learnt"))
    own, its_bound = paired_gain(prediction, "learnt", "both")
    yield (
        f"Without any model, the subject's accuracy on items that share abilities has an AUC of "
        f"{auc['own items']:.3f}, and its mean with that of all subjects {auc['both']:.3f}: Q-mIRT "
        f"is {_beside_it(own, its_bound)}."
    )
    yield (
        f"All subjects' accuracy on items that share abilities, which knows nothing of the "
        f"subject, has an AUC of {auc['items']:.3f}: NeuralCD is {_beside_it(*neural)}, "
        f"Q-mIRT {_beside_it(*learnt)}."
    )


def _on_truth(table: pd.DataFrame) -> Iterator[str]:
    auc = table.set_index("method")["auc"]
    if "true chances" in auc.index:
        yield (
            f"From the rows of the Q-matrix no method can be expected to reach more here than "
            f"{auc['true abilities']:.3f}, the AUC by the true abilities and the true population "
            f"of items; knowing each item, too, gives {auc['true chances']:.3f}."
        )


def on_agreement(agreement: pd.DataFrame, matrix: AbilityMatrix) -> Iterator[str]:
    """Yield whether the full posterior says the same as the point estimate."""
    if agreement.empty:
        if matrix.responses.n_observed > MOST_DRAWN:
            yield f"No full posterior was drawn: there are more than {MOST_DRAWN:,} responses."
        return
    row = agreement.iloc[0]
    yield (
        f"The full posterior on one split (predict_items): its chances correlate by "
        f"{row['correlation']:.3f} with those of the point estimate and differ by "
        f"{row['mean_difference']:.3f} on average; AUC {row['auc_posterior']:.3f} and "
        f"{row['auc_point']:.3f}, log score {row['log_score_posterior']:.3f} and "
        f"{row['log_score_point']:.3f}; {row['r_hat_above']:.0%} of the R-hats are above 1.01."
    )


def on_across(across: pd.DataFrame) -> Iterator[str]:
    """Yield how well answers to another benchmark are predicted."""
    empty = []
    for (source, target), own in across.groupby(["source", "target"], sort=False):
        rows = own.set_index("method")
        n_new, n_items = rows["new_items"].iloc[0], rows["items"].iloc[0]
        if not n_new:
            empty.append(f"from {source} to {target}")
            continue
        said = ", ".join(f"{words} {rows.loc[name, 'auc']:.3f}" for name, words in _SHOWN.items())
        yield f"From {source} to {target} ({n_new:.0f} of {n_items:.0f} items), AUC: {said}."
    if empty:
        more = f" and {len(empty) - _MOST_PAIRS} more" if len(empty) > _MOST_PAIRS else ""
        yield (
            f"Across benchmarks nothing can be predicted {', '.join(empty[:_MOST_PAIRS])}{more}: "
            f"no item of the second needs an ability that items of the first need."
        )
    if across["new_items"].sum():
        rows = read_printed("abilities_printed").query("table == 'across'")
        means = rows.loc[rows["quantity"] == "mean AUC", "value"]
        yield f"The paper's NeuralCD has {means.min():.2f} to {means.max():.2f} across benchmarks."


def paired_gain(prediction: pd.DataFrame, one: str, other: str) -> tuple[float, float]:
    """Return by how much one predictor's AUC is above another's, and its bound."""
    by_split = prediction.pivot(index="split", columns="method", values="auc")
    difference = (by_split[one] - by_split[other]).dropna()
    n = len(difference)
    return float(difference.mean()), float(difference.std() / np.sqrt(n)) * t_bound(n)


def _share_left(auc: "pd.Series[float]", name: str) -> str:
    above, average = auc[name] - 0.5, auc[f"{name}, average"] - 0.5
    if above <= 0:
        return ""
    share = "all" if average >= above else f"{max(average, 0.0) / above:.0%}"
    return f", {share} of what is above a coin's"


def _judged(gain: float, bound: float) -> str:
    if abs(gain) > bound:
        return "which is more than chance" if gain > 0 else "which is worse than no profile"
    return "which is not told from nothing"


def _beside_it(gain: float, bound: float) -> str:
    if abs(gain) > bound:
        return f"{abs(gain):.3f} ± {bound:.3f} {'above' if gain > 0 else 'below'} it"
    return f"not told from it ({gain:+.3f} ± {bound:.3f})"
