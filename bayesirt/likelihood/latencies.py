"""Log response lengths of the observed cells, and the sums over them that LaRT needs.

Log lengths are normal given speed, so a few sums are sufficient statistics, and passes over the
cells compute only products.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.likelihood.cell_sums import DenseLayout, Layout

_ALIKE = 1e-9
"""Log lengths that differ by less than this are equal except for rounding."""


class Beyond(NamedTuple):
    """Normal distribution of speeds minus ρ times the abilities."""

    mean: Array
    variance: Array

    @classmethod
    def of(cls, rho: Float[Array, "..."]) -> "Beyond":
        """Return the distribution for subjects without clusters."""
        return cls(jnp.zeros(()), 1 - rho**2)


class SpeedEvidence(NamedTuple):
    """Likelihood of each subject's speed given the lengths: a normal density, up to a constant."""

    precision: Float[Array, " subject"]  # P = Σ_j φ²/λ; 0 if no length was observed.
    pull: Float[Array, " subject"]  # P τ̂ = -Σ_j φ (x - ω)/λ.

    def ability(self, rho: Float[Array, ""]) -> tuple[Array, Array]:
        """Return mean and variance of each ability, given the lengths alone."""
        pull, precision = self.of_ability(rho, Beyond.of(rho))
        return pull / (1 + precision), 1 / (1 + precision)

    def of_ability(self, rho: Float[Array, ""], beyond: "Beyond") -> tuple[Array, Array]:
        """Return pull and precision of the likelihood of each ability, with speed integrated out.

        With v the variance of a speed given its ability, the precision is ρ² / (v + 1/P), in a form
        that is also valid for P = 0 (Xu et al., 2026, Lemma 1, corrected).
        """
        factor = 1 + self.precision * beyond.variance
        pull = rho * (self.pull - self.precision * beyond.mean) / factor
        return pull, rho**2 * self.precision / factor

    def speed(
        self, rho: Float[Array, ""], theta: Array, beyond: "Beyond | None" = None
    ) -> tuple[Array, Array]:
        """Return mean and variance of each speed, given the lengths and the ability."""
        beyond = beyond or Beyond.of(rho)
        factor = 1 + self.precision * beyond.variance
        mean = rho * theta + beyond.mean + beyond.variance * self.pull
        return mean / factor, beyond.variance / factor

    def log_marginal(self) -> Float[Array, " subject"]:
        """Return log ∫ exp(pull τ - P τ²/2) N(τ; 0, 1) dτ."""
        total = 1 + self.precision
        return self.pull**2 / (2 * total) - jnp.log(total) / 2


class LengthMoments(NamedTuple):
    """Sums over the observed lengths of each item; x is relative to the item's mean."""

    # Number of lengths, Σ x and Σ x².
    n: Float[Array, " item"]
    x: Float[Array, " item"]
    xx: Float[Array, " item"]
    # Σ τ, Σ τ² and Σ τ x.
    tau: Float[Array, " item"]
    tau_tau: Float[Array, " item"]
    tau_x: Float[Array, " item"]

    def residual_squares(
        self, phi: Float[Array, " item"], level: Float[Array, " item"]
    ) -> Float[Array, " item"]:
        """Return Σ (x - level + φ τ)² of each item."""
        about_level = self.xx - 2 * level * self.x + level**2 * self.n
        return about_level + 2 * phi * (self.tau_x - level * self.tau) + phi**2 * self.tau_tau


class WrongAnswers(NamedTuple):
    """Proportion of wrong trials of each cell with a length, and sums over these cells."""

    share: Float[Array, "..."]  # Proportion w of wrong trials; 0 if no length was observed.
    # Σ w, Σ w² and Σ w x.
    w: Float[Array, " item"]
    ww: Float[Array, " item"]
    wx: Float[Array, " item"]


class Latencies(NamedTuple):
    """Log lengths of the responses; a length may be missing although its response is not."""

    layout: Any  # Layout of the responses.
    seen: Float[Array, "..."]  # 1 if the length was observed, else 0.
    x: Float[Array, "..."]  # Log length, relative to its item's mean; 0 if none was observed.
    centre: Float[Array, " item"]  # The items' mean log lengths; 0 if none was observed.
    # Σ seen, Σ x and Σ x².
    n: Float[Array, " item"]
    total: Float[Array, " item"]
    squares: Float[Array, " item"]
    wrong: WrongAnswers | None = None  # If wrong answers have different lengths.

    def without_wrong(self, delta: Float[Array, " item"] | None) -> "Latencies":
        """Return the lengths with the effect δ of wrong answers removed."""
        if self.wrong is None or delta is None:
            return self
        share, w, ww, wx = self.wrong
        return self._replace(
            x=self.x - share * self.layout.of_items(delta),
            total=self.total - delta * w,
            squares=self.squares - 2 * delta * wx + delta**2 * ww,
            wrong=None,
        )

    def placed(
        self, layout: Any, of_cells: Callable[[Array], Array], of_items: Callable[[Array], Array]
    ) -> "Latencies":
        """Return the lengths placed elsewhere, by functions for arrays of cells and of items."""
        wrong = self.wrong
        if wrong is not None:
            wrong = WrongAnswers(of_cells(wrong.share), *map(of_items, wrong[1:]))
        cells = of_cells(self.seen), of_cells(self.x)
        return Latencies._make((layout, *cells, *map(of_items, self[3:7]), wrong))

    def speed_evidence(
        self,
        phi: Float[Array, " item"],
        omega: Float[Array, " item"],
        lam: Float[Array, " item"],
    ) -> SpeedEvidence:
        """Return the likelihood of each speed given the lengths."""
        weight = phi / lam
        at_level = self.layout.over_items(self.seen, weight * (omega - self.centre))
        return SpeedEvidence(
            self.layout.over_items(self.seen, weight * phi),
            at_level - self.layout.over_items(self.x, weight),
        )

    def log_likelihood(
        self,
        phi: Float[Array, " item"],
        omega: Float[Array, " item"],
        lam: Float[Array, " item"],
        moments: LengthMoments,
    ) -> Float[Array, " item"]:
        """Return Σ_i log N(x; ω - φ τ, λ) of each item, at the speeds of the moments."""
        squares = moments.residual_squares(phi, omega - self.centre)
        return -(self.n * jnp.log(2 * jnp.pi * lam) + squares / lam) / 2

    def moments(
        self, tau: Float[Array, " subject"], tau_tau: Float[Array, " subject"]
    ) -> LengthMoments:
        """Return each item's sums, given speeds and their squares or expectations of these."""
        over = self.layout.over_subjects
        of_tau = over(self.seen, tau), over(self.seen, tau_tau), over(self.x, tau)
        return LengthMoments(self.n, self.total, self.squares, *of_tau)


def latencies_of(responses: Responses, layout: Layout, *, wrong_lengths: bool = False) -> Latencies:
    """Put the log lengths on the device."""
    if responses.latency is None or not np.isfinite(responses.latency).any():
        raise ResponseError(
            "LaRT needs the length or time of responses; name its column with --latency, or leave "
            "out --model lart"
        )
    logs = np.log(responses.latency)
    if isinstance(layout, DenseLayout):
        listed = responses.cells.listed()
        matrix = np.full(responses.cells.shape, np.nan)
        matrix[listed.subject, listed.item] = logs
        logs = matrix
    latencies = centred_latencies(layout, jnp.asarray(logs, float), wrong_lengths=wrong_lengths)
    if not jnp.abs(latencies.x).max() > _ALIKE:
        raise ResponseError(
            "the lengths of no item differ between subjects, so they are not informative about "
            "speed; leave out --model lart"
        )
    return latencies


def centred_latencies(
    layout: Layout, log_latency: Float[Array, "..."], *, wrong_lengths: bool = False
) -> Latencies:
    """Return log lengths relative to their items' means, with their sums."""
    seen = jnp.isfinite(log_latency)
    indicator, values = seen.astype(log_latency.dtype), jnp.where(seen, log_latency, 0)
    one = jnp.ones(layout.shape[0], indicator.dtype)
    n = layout.over_subjects(indicator, one)
    centre = layout.over_subjects(values, one) / jnp.maximum(n, 1)
    x = jnp.where(seen, log_latency - layout.of_items(centre), 0)
    total, squares = (layout.over_subjects(v, one) for v in (x, x**2))
    wrong = None
    if wrong_lengths:
        share = indicator * wrong_share(layout.successes, layout.trials)
        of_wrong = (layout.over_subjects(v, one) for v in (share, share**2, share * x))
        wrong = WrongAnswers(share, *of_wrong)
    return Latencies(layout, indicator, x, centre, n, total, squares, wrong)


def wrong_share(successes: Num[Array, "..."], trials: Num[Array, "..."]) -> Float[Array, "..."]:
    """Return the proportion of wrong trials of each cell; 0 without trials."""
    return (trials - successes) / jnp.maximum(trials, 1.0)


def mean_lengths(responses: Responses) -> NDArray[np.float64]:
    """Return the mean length of each subject's responses, right or wrong."""
    if responses.latency is None:
        raise ValueError("the responses have no lengths")
    has_length = ~np.isnan(responses.latency)
    subject, n = responses.cells.listed().subject[has_length], responses.n_subjects
    total = np.bincount(subject, responses.latency[has_length], n)
    with np.errstate(invalid="ignore"):
        return total / np.bincount(subject, minlength=n)
