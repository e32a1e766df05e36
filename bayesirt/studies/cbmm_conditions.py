"""What the cBMM study simulates: one factor at a time leaves a base (Qu et al., 2026, A.6)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from bayesirt.data.responses import Responses
from bayesirt.studies.measures import Floats, Mask
from bayesirt.studies.sparse_conditions import draw_mask, even_weights

FACTORS = {
    "base": "the base",
    "items": "items J",
    "subjects": "subjects N",
    "temperature": "log10 of the temperature",
    "mcar": "missing completely at random",
    "mar": "missing at random, by place",
    "mnar": "items without their wrong answers",
    "sparsity": "items with a = 0",
    "spread": "CV of a (not in the paper)",
}
_LEAST_A, _MOST_A = 0.5, 1.0
_MEAN_A = (_LEAST_A + _MOST_A) / 2
_BASE_SPREAD = (_MOST_A - _LEAST_A) / np.sqrt(12) / _MEAN_A
_D_SD = np.sqrt(0.5)  # The paper writes N(0, 0.5), and variances elsewhere in this place.
_MOST_TRIES = 1000
_MAR_SLOPE = 2.0
"""β, how much likelier a cell is to be missing at the last row and column than at the first."""

_FARTHEST = 50.0


@dataclass(frozen=True)
class Condition:
    """One design."""

    factor: str  # One of `FACTORS`.
    # Of the factor: J, N, log10 sigma, the missing share, the share of items that lose their wrong
    # answers, the share with a = 0, or the coefficient of variation of a.
    value: float
    n_subjects: int
    n_items: int

    @property
    def temperature(self) -> float:
        """σ in p = sigmoid(η/σ)."""
        return float(10**self.value) if self.factor == "temperature" else 1.0


class Suite(NamedTuple):
    """Responses whose parameters are known."""

    theta: Floats  # shape (subject,)
    a: Floats  # shape (item,)
    d: Floats  # shape (item,)
    temperature: float
    responses: Responses


def base_values(n_subjects: int, n_items: int) -> dict[str, float]:
    """Return where each factor stands in the base."""
    sizes = {"items": float(n_items), "subjects": float(n_subjects)}
    zeros = dict.fromkeys(("temperature", "mcar", "mar", "mnar", "sparsity"), 0.0)
    return sizes | zeros | {"spread": _BASE_SPREAD}


def draw_suite(condition: Condition, rng: np.random.Generator) -> Suite:
    """Draw parameters, responses and what is missing, as Qu et al. (2026) do in A.6."""
    for _ in range(_MOST_TRIES):
        theta = rng.normal(size=condition.n_subjects)
        a = _draw_slopes(condition, rng)
        d = _D_SD * rng.normal(size=condition.n_items)
        p = expit((theta[:, None] * a + d) / condition.temperature)
        right = rng.uniform(size=p.shape) < p
        seen = observed(condition, right, rng)
        if seen.any(0).all() and seen.any(1).all():
            responses = Responses.from_arrays((right & seen).astype(int), seen.astype(int))
            return Suite(theta, a, d, condition.temperature, responses)
    raise ValueError(f"every draw of {condition} leaves a subject or item without a response")


def conditions_of(
    size: tuple[int, int], sizes: tuple[int, ...], values: dict[str, tuple[float, ...]]
) -> Iterator[Condition]:
    """Yield the base, and every factor's other values."""
    n, j = size
    yield Condition("base", 0.0, n, j)
    yield from (Condition("items", k, n, k) for k in sizes if k != j)
    yield from (Condition("subjects", k, k, j) for k in sizes if k != n)
    base = base_values(n, j)
    for factor, own in values.items():
        yield from (Condition(factor, value, n, j) for value in own if value != base[factor])


def _draw_slopes(condition: Condition, rng: np.random.Generator) -> Floats:
    """Draw a: uniform; log-normal of the same mean where its spread is the factor."""
    n, value = condition.n_items, condition.value
    if condition.factor == "spread":
        variance = np.log1p(value**2)
        return _MEAN_A * np.exp(np.sqrt(variance) * rng.normal(size=n) - variance / 2)
    a = rng.uniform(_LEAST_A, _MOST_A, n)
    if condition.factor == "sparsity":
        a[rng.permutation(n)[: round(value * n)]] = 0
    return a


def missing_by_place(n_subjects: int, n_items: int, rate: float) -> Floats:
    """Return the probability of each cell to be missing at random, by its place (A.6.3)."""
    row, column = np.linspace(0, 1, n_subjects), np.linspace(0, 1, n_items)
    place = _MAR_SLOPE * (row[:, None] + column) / 2
    alpha = brentq(lambda x: expit(x + place).mean() - rate, -_FARTHEST, _FARTHEST, xtol=1e-13)
    return expit(alpha + place)


def observed(condition: Condition, right: Mask, rng: np.random.Generator) -> Mask:
    """Draw which cells are observed; under MNAR some items lose all wrong answers (A.6.3)."""
    (n, j), value = right.shape, condition.value
    if condition.factor == "mcar":
        return draw_mask(even_weights(n, j), round((1 - value) * n * j), rng)
    if condition.factor == "mar":
        return rng.uniform(size=(n, j)) >= missing_by_place(n, j, value)
    if condition.factor == "mnar":
        gated = rng.uniform(size=j) < value
        return np.logical_or(right, ~gated)
    return np.ones_like(right)
