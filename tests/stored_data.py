"""Long tables of counts that tests write to files and read back."""

import numpy as np
import pandas as pd

from bayesirt.data.cells import CellList
from bayesirt.data.responses import Responses

ROLES = {"subject": "model", "item": "item", "score": "successes", "trials": "trials"}


def counts(seed: int = 0) -> pd.DataFrame:
    """Return 0 to 3 trials of 31 subjects and 20 items, shuffled, with some cells missing."""
    rng = np.random.default_rng(seed)
    subject, item = np.nonzero(rng.uniform(size=(31, 20)) < 0.8)
    trials = rng.integers(0, 4, len(subject))
    right = 1 / (1 + np.exp(-(subject / 10 - 1.5) - (item / 8 - 1)))
    frame = pd.DataFrame(
        {
            "model": [f"m{k}" for k in subject],
            "item": item,
            "successes": rng.binomial(trials, right),
            "trials": trials,
        }
    )
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


def listed(responses: Responses) -> CellList:
    parts = [np.stack(part) for part in responses.cells.parts()]
    rows = np.concatenate(parts, axis=1)
    return CellList(*rows[:, np.lexsort((rows[1], rows[0]))])
