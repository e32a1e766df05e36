"""The difference of two subjects, estimated through an item bank."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.suite.draws import roots_of
from bayesirt.data.responses import Responses
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.subject_scores import score_subjects
from bayesirt.likelihood.families import LOGIT
from bayesirt.names import counted
from bayesirt.ranking.calibrated_difference import CalibratedDifference, known_questions

_N_DRAWS = 2000
_CELLS_AT_ONCE = 1 << 21


def through_bank(
    bank: ItemBank, *, seed: int = 0
) -> Callable[[Responses, str, str], CalibratedDifference]:
    """Return a ``history`` for `bayesirt.gate`.

    Scores are expected scores, given the abilities, in a new attempt at the questions that either
    of the two answered. Errors of the items are drawn, the same for both.
    """

    def difference(responses: Responses, baseline: str, candidate: str) -> CalibratedDifference:
        chosen = known_questions(responses, set(bank.items.names), baseline, candidate)
        abilities, rng = score_subjects(chosen, bank.items), np.random.default_rng(seed)
        at = [abilities.subjects.index(name) for name in (baseline, candidate)]
        roots = np.linalg.cholesky(abilities.covariance[at])
        noise = rng.normal(size=(_N_DRAWS, 2, abilities.theta.shape[1]))
        theta = abilities.theta[at] + np.einsum("pkl,spl->spk", roots, noise)
        values = np.sort(_expected(bank.items, set(chosen.items), theta, rng))
        source = counted(len(bank.benchmark_names), "benchmark") + " of the bank"
        weights = np.full(len(values), 1 / len(values))
        return CalibratedDifference(values, weights, chosen.n_items, source)

    return difference


def _expected(
    items: KnownItems,
    names: set[str],
    theta: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the expected score of the second minus that of the first, for draws of abilities."""
    is_named = np.array([name in names for name in items.names])
    a, d = items.a[is_named], items.d[is_named]
    roots = roots_of(items.covariance[is_named])
    differences = []
    for part in np.array_split(theta, -(-len(theta) * len(d) // _CELLS_AT_ONCE)):
        noise = rng.normal(size=(len(part), *roots.shape[:2]))
        errors = np.einsum("jkl,sjl->sjk", roots, noise)
        eta = np.einsum("spk,sjk->spj", part, a + errors[..., :-1])
        eta += (d + errors[..., -1])[:, None]
        scores = np.asarray(LOGIT.probability(eta)).mean(-1)
        differences.append(scores[:, 1] - scores[:, 0])
    return np.concatenate(differences)
