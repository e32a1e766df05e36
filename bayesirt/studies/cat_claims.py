"""Claims of the adaptive-testing study."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayesirt.posterior import LEVEL
from bayesirt.studies.cat_banks import BANKS
from bayesirt.studies.cat_tests import ADAPTIVE, METHOD_NAMES
from bayesirt.studies.claims import Claim

NOTES = (
    "The same items for all are those that are best before any answer: a short form chosen with "
    "care.",
    "Subjects of one bank share its calibration, which the standard errors leave out.",
)
_CLEAR = 3.0


def cat_claims(lengths: pd.DataFrame, stops: pd.DataFrame) -> Iterator[Claim]:
    """Yield the error halfway, what other tests need for an adaptive one's width, and coverage."""
    for model, title in BANKS.items():
        own = lengths[lengths["model"] == model]
        if not len(own):
            continue
        n = int(own["answers"].max()) // 2
        half = own[own["answers"] == n].set_index("method")
        for method, row in half.iterrows():
            name = METHOD_NAMES[str(method)]
            yield Claim(f"{title}, RMSE of ability after {n} answers, {name}", *row[_ERROR])
        width = half.loc[list(ADAPTIVE), "width"].min()
        for method in ("fixed", "random"):
            needed = own[(own["method"] == method) & (own["width"] <= width)]["answers"].min()
            text = f"{title}, answers to reach the adaptive tests' mean width of {width:.2f}"
            verdict = "not reached" if np.isnan(needed) else ""
            yield Claim(f"{text}, {METHOD_NAMES[method]}", needed, verdict=verdict)
        for row in stops[(stops["model"] == model) & (stops["share"] > 0)].itertuples():
            text = f"{title}, answers of the median subject until the interval is below"
            verdict = f"reached by {row.share:.0%}, of whose intervals {row.coverage:.0%} hold"
            name = METHOD_NAMES[row.method]
            yield Claim(f"{text} {row.stop_width:g}, {name}", row.answers, verdict=verdict)
        begun = own[(own["answers"] > 0) & own["method"].isin(ADAPTIVE)]
        mean, error = begun["coverage"].mean(), begun["coverage_se"].mean()
        holds = "holds" if abs(mean - LEVEL) <= _CLEAR * error else "does not hold"
        text = f"{title}, mean coverage of {LEVEL:.0%} intervals in adaptive tests"
        yield Claim(text, mean, error, verdict=holds)


_ERROR = ["rmse", "rmse_se"]
