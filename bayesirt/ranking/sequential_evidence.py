"""Evidence that may be looked at as often as one likes, as answers come in.

The evidence for a claim is the capital won by betting on it, at odds that are fair if the claim is
wrong. If it is wrong, the capital ever reaches 1/α with a probability of at most α, whenever one
looks (Ville's inequality). Bets of several sizes share the capital, so no size needs to be chosen
beforehand.

Waudby-Smith & Ramdas (2024), doi:10.1093/jrsssb/qkad009; Howard et al. (2021),
doi:10.1214/20-AOS1991.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesirt.data.whole_file import write_whole
from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.ranking.paired_difference import Pairs

_FORMAT = 1
_STAKES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Stakes as the share of the capital that a bet could lose at most."""


@dataclass(frozen=True)
class Evidence:
    """The evidence of all looks so far at two subjects."""

    CLAIMS: ClassVar[tuple[str, ...]] = ("drop", "gain", "no drop", "no gain")

    baseline: str
    candidate: str
    margin: float
    sure: float  # A claim is made once the evidence for it has reached 1 / (1 - sure).
    looks: int = 0  # Number of looks with new answers.
    # By claim, the log capital that each size of bet has made of 1.
    log_capital: dict[str, list[float]] = field(
        default_factory=lambda: {claim: [0.0] * len(_STAKES) for claim in Evidence.CLAIMS}
    )
    # By claim, the highest log capital that all bets together ever had.
    peak: dict[str, float] = field(default_factory=lambda: dict.fromkeys(Evidence.CLAIMS, 0.0))
    # By question, the successes and trials of the baseline, then of the candidate, that were
    # bet on.
    seen: dict[str, list[int]] = field(default_factory=dict)
    new: int = 0  # Questions with new answers of both at this look.

    def shows(self, claim: str) -> bool:
        """Return whether the evidence for a claim was ever enough."""
        return self.peak[claim] >= -np.log1p(-self.sure)

    def strength(self, claim: str) -> float:
        """Return the evidence for a claim, where 1 / (1 - sure) is enough."""
        return float(np.exp(min(self.peak[claim], 700.0)))

    def as_dict(self) -> dict[str, Any]:
        """Return the evidence, JSON-ready."""
        strengths = {
            f"evidence_{claim.replace(' ', '_')}": self.strength(claim) for claim in self.CLAIMS
        }
        return {"looks": self.looks, "new_questions": self.new, **strengths}

    def save(self, path: Path) -> None:
        """Write the state from which the next look continues."""
        state = {"format": _FORMAT, **asdict(self)}
        state.pop("new")
        write_whole(path, (json.dumps(state, ensure_ascii=False) + "\n").encode())


def look_again(before: Evidence, pairs: Pairs) -> Evidence:
    """Return the evidence after a look at all answers so far, of which each counts once.

    An answer is bet on once both subjects have new ones to its question: a baseline that was run
    once cannot be compared again with every new run of the candidate.
    """
    right = np.rint(np.stack([pairs.baseline, pairs.candidate]) * pairs.trials).astype(np.int64)
    now = np.stack([right[0], pairs.trials[0], right[1], pairs.trials[1]], 1)
    old = np.array([before.seen.get(name, [0] * 4) for name in pairs.items], np.int64)
    new = now - old
    if set(before.seen) - set(pairs.items) or (new < 0).any() or (new[:, ::2] > new[:, 1::2]).any():
        raise ResponseError(
            "the state file includes answers that are not in these results; pass all answers so "
            "far, or start with another state file"
        )
    used = (new[:, 1] > 0) & (new[:, 3] > 0)
    if not used.any():
        return replace(before, new=0)
    fresh = new[used].astype(float)
    difference = fresh[:, 2] / fresh[:, 3] - fresh[:, 0] / fresh[:, 1]
    _, group = np.unique(pairs.group[used], return_inverse=True)
    size = np.bincount(group)
    mean, weight = np.bincount(group, difference) / size, size / size.max()
    margin = before.margin
    gains = {
        "drop": -margin - mean,
        "gain": mean,
        "no drop": mean + margin,
        "no gain": margin - mean,
    }
    stakes = np.array(_STAKES) / (1 + margin)
    capital = {
        claim: (np.array(before.log_capital[claim]) + _won(weight * gain, stakes)).tolist()
        for claim, gain in gains.items()
    }
    peak = {
        claim: max(before.peak[claim], float(logsumexp(capital[claim]) - np.log(len(stakes))))
        for claim in gains
    }
    names = [name for name, is_used in zip(pairs.items, used, strict=True) if is_used]
    seen = before.seen | dict(zip(names, now[used].tolist(), strict=True))
    looks, n_new = before.looks + 1, int(used.sum())
    return replace(before, looks=looks, log_capital=capital, peak=peak, seen=seen, new=n_new)


def _won(gains: NDArray[np.float64], stakes: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log1p(stakes[:, None] * gains).sum(1)


def load_evidence(
    path: Path, baseline: str, candidate: str, margin: float, sure: float
) -> Evidence:
    """Return the state of earlier looks, or the initial state."""
    if not path.exists():
        return Evidence(baseline, candidate, margin, sure)
    shown = one_line(str(path), 200)
    try:
        state = json.loads(path.read_text("utf-8"))
        version = state.pop("format")
        before = Evidence(**state)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ResponseError(
            f"{shown} is not a state file of bayesirt gate; name another file"
        ) from error
    if version != _FORMAT:
        raise ResponseError(f"{shown} is from another version of bayesirt; start with another file")
    if (before.baseline, before.candidate, before.margin, before.sure) != (
        baseline, candidate, margin, sure,
    ):  # fmt: skip
        raise ResponseError(
            f"{shown} belongs to another comparison ({one_line(before.candidate, 40)!r} against "
            f"{one_line(before.baseline, 40)!r}, margin {before.margin:g}); name another file"
        )
    return before
