"""What the LaRT study says of a given matrix, in words."""

from collections.abc import Iterator

import pandas as pd

from bayesirt.studies.lart_matrix import MatrixLook
from bayesirt.studies.lart_prediction import PREDICTIONS
from bayesirt.studies.study_rows import read_printed

_LABELS = {"irt": "probit IRT", "lart": "LaRT"}
_MEASURES = {"absolute_error": "mean absolute error", "log_score": "log score"}
_MATRIX_NOTES = (
    "Table 1 is of AMC23, AIME24 and AIME25 together (128 x 100), divided once. The paper does "
    "not say whether lengths of the items left out were looked at; both ways are shown. Here "
    "every subject is held out once a repetition, its ability estimated from four folds of items "
    "whose parameters come from other subjects. The absolute error rewards predictions that are "
    "too sure; the log score does not.",
    "Validity: a variance of 0 is had by giving everyone the same ability, and LaRT's sets agree "
    "for being of the same speed, too. So ranks, and accuracy on all other items, are shown beside "
    "it. The paper does not print its divisor; ours is the number of sets.",
    "'Scaled Euclidean distance' is not defined in the paper; ours is the root mean square. Each "
    "model is held against its own estimate from all data, as in the paper, which is no truth. "
    "For either model, subject efficiency takes the hundred items of most information by LaRT.",
    "Item efficiency chooses items by equation 10, each from what the subject answered before; "
    "items are as fitted to all subjects, those tested among them.",
)


def matrix_in_words(
    look: MatrixLook,
    prediction: pd.DataFrame,
    validity: pd.DataFrame,
    subjects: pd.DataFrame,
    items: pd.DataFrame,
    criterion: pd.DataFrame,
) -> list[str]:
    """Return what was found on the matrix, one sentence or a few a line."""
    return [
        *_on_fits(look),
        *_on_rho(look),
        *_on_prediction(prediction),
        *_on_validity(validity),
        *_on_items(items),
        *_on_subjects(subjects),
        *_on_criterion(criterion),
        *(f"Note: {note}" for note in _MATRIX_NOTES),
    ]


def _on_fits(look: MatrixLook) -> Iterator[str]:
    n, j = look.size
    fits = look.fits.set_index("method")
    times = ", ".join(
        f"{_LABELS[str(name)]} {row['seconds']:.2f} s" for name, row in fits.iterrows()
    )
    yield (
        f"Matrix: {n} x {j}, {look.n_groups} base subjects; fits took {times} (with compilation)."
    )
    lart, irt = fits.loc["lart"], fits.loc["irt"]
    yield (
        f"Mean width of the 90% intervals of θ: probit IRT {irt['width_finite']:.3f}, LaRT "
        f"{lart['width_finite']:.3f} ({lart['width_asymptotic']:.3f} by equation 10)."
    )
    for name, row in fits[~fits["converged"].astype(bool)].iterrows():
        yield f"{_LABELS[str(name)]} did not converge in {row['iterations']} iterations."


def _on_rho(look: MatrixLook) -> Iterator[str]:
    parts = [
        f"{row.rho:+.2f} ({row.low:+.2f} to {row.high:+.2f}, {row.interval})"
        for row in look.rho.itertuples()
    ]
    said = f"Correlation ρ of ability and speed, 90% interval: {'; '.join(parts)}."
    if look.rho["high"].max() < 0:
        said += " The abler take longer, as the paper says of its benchmarks."
    elif look.rho["low"].min() > 0:
        said += " The abler are quicker, where the paper's take longer."
    if {"rows", "base subjects"} <= set(look.rho["interval"]):
        said += " Rows of one base subject are alike, so the interval by base subjects is the one."
    yield said


def _on_prediction(prediction: pd.DataFrame) -> Iterator[str]:
    for (split, measure), own in prediction.groupby(["split", "measure"], sort=False):
        table = own.set_index("method")
        parts = [
            f"{label} {table.loc[name, 'value']:.4f}"
            + ("" if name == "irt" else f" ({_gain(table.loc[name])})")
            for name, label in PREDICTIONS.items()
        ]
        yield f"Answers left out, split {split}, {_MEASURES[str(measure)]}: {'; '.join(parts)}."
    printed = read_printed("lart_printed")
    own = printed[(printed["table"] == "prediction") & (printed["place"] == "average")]
    values = own.set_index("method")["value"]
    yield f"The paper's Table 1 averages {values['irt']:g} for IRT and {values['lart']:g} for LaRT."
    both = prediction.pivot_table(
        index=["method", "measure"], columns="split", values="value", sort=False
    )
    if both.shape[1] > 1:
        change = both["by base subject"] - both["by row"]
        yield (
            f"Dividing by base subject in place of rows changes IRT's absolute error by "
            f"{change['irt', 'absolute_error']:+.4f} and its log score by "
            f"{change['irt', 'log_score']:+.4f}, LaRT's by "
            f"{change['lart', 'absolute_error']:+.4f} and {change['lart', 'log_score']:+.4f}: what "
            f"items owe to the twin of a row that is held out, and the chance of other folds."
        )


def _gain(row: pd.Series) -> str:
    interval = f"{row['gain']:+.5f} on IRT, 90%: {row['low']:+.5f} to {row['high']:+.5f}"
    if row["low"] > 0:
        return f"gains {interval}"
    if row["high"] < 0:
        return f"LOSES {interval}"
    return f"no sure gain, {interval}"


def _on_validity(validity: pd.DataFrame) -> Iterator[str]:
    table = validity.set_index("method")
    parts = [
        f"{label} {table.loc[name, 'variance_sum']:.3f} ({table.loc[name, 'within_share']:.1%} of "
        f"the variance of all abilities; Spearman of two sets {table.loc[name, 'rho_sets']:.4f}, "
        f"of a set and the accuracy on all other items {table.loc[name, 'rho_rest']:.4f})"
        for name, label in _LABELS.items()
    ]
    own = read_printed("lart_printed")
    printed = own[own["table"] == "validity"].set_index("method")["value"]
    yield (
        f"Validity, variance of an ability over five disjoint sets, summed over subjects: "
        f"{'; '.join(parts)}. The paper, on MATH500: {printed['irt']:g} and {printed['lart']:g}."
    )
    steadier = table.loc["lart", "variance_sum"] < table.loc["irt", "variance_sum"]
    closer = table.loc["lart", "rho_rest"] > table.loc["irt", "rho_rest"]
    yield (
        f"So LaRT's abilities vary {'less' if steadier else 'MORE'} between sets than IRT's, and "
        f"rank subjects {'more' if closer else 'LESS'} as the accuracy on other items does."
    )


def _on_items(items: pd.DataFrame) -> Iterator[str]:
    wide = items.pivot(index="n_items", columns="method", values=["distance", "rho"])
    shown = [n for n in wide.index if n in (10, 20, 50, 100, 200)]
    parts = [
        f"{n:.0f} items {wide.loc[n, ('distance', 'lart')]:.3f} against "
        f"{wide.loc[n, ('distance', 'irt')]:.3f} (Spearman {wide.loc[n, ('rho', 'lart')]:.3f} "
        f"against {wide.loc[n, ('rho', 'irt')]:.3f})"
        for n in shown
    ]
    wins = (wide["distance"]["lart"] < wide["distance"]["irt"]).mean()
    yield (
        f"Item efficiency, distance of abilities from those by all items, LaRT against IRT: "
        f"{'; '.join(parts)}. LaRT is the closer at {wins:.0%} of the numbers of items looked at "
        f"(the paper: at most of them)."
    )


def _on_subjects(subjects: pd.DataFrame) -> Iterator[str]:
    own = read_printed("lart_printed")
    own = own[own["table"] == "subject_efficiency"]
    printed = {(r.place, r.method, r.quantity[-1]): r.value for r in own.itertuples()}
    for name in ("a", "d"):
        wide = subjects.pivot(index="n_subjects", columns="method")
        parts = []
        for n in wide.index:
            key = f"{n:.0f}"
            paper = ""
            if (key, "irt", name) in printed:
                paper = f" [paper {printed[key, 'lart', name]:g} / {printed[key, 'irt', name]:g}]"
            parts.append(
                f"{key}: {wide.loc[n, (f'distance_{name}', 'lart')]:.3f} / "
                f"{wide.loc[n, (f'distance_{name}', 'irt')]:.3f} (median "
                f"{wide.loc[n, (f'typical_{name}', 'lart')]:.3f} / "
                f"{wide.loc[n, (f'typical_{name}', 'irt')]:.3f}){paper}"
            )
        yield (
            f"Subject efficiency, distance of {name} from that by all subjects, LaRT / IRT, by "
            f"number of subjects: {'; '.join(parts)}."
        )


def _on_criterion(criterion: pd.DataFrame) -> Iterator[str]:
    if not len(criterion):
        return
    for coefficient, own in criterion.groupby("coefficient", sort=False):
        table = own.set_index("method")
        parts = [
            f"{name} {row['value']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
            for name, row in table.iterrows()
        ]
        gain = table.loc["lart less irt"]
        if gain["low"] > 0:
            verdict = "Lengths bring abilities closer to it."
        elif gain["high"] < 0:
            verdict = "Lengths take abilities FARTHER from it."
        else:
            verdict = "Lengths make no sure difference."
        yield (
            f"Criterion, {coefficient} over {own['subjects'].iloc[0]} subjects: "
            f"{', '.join(parts)}. {verdict}"
        )
