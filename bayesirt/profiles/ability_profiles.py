"""Ability profiles: the level of each subject on each ability, and how well the data determine it.

Three questions come before any ranking. Do the answers add information about an ability beyond the
population prior? Does the information come from the ability's own items, or is it borrowed from
correlated abilities? And is the difference between two abilities of one subject real, or noise?
"""

from dataclasses import dataclass
from itertools import combinations

import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.q_matrix import QMatrix
from bayesirt.likelihood.families import LOGIT
from bayesirt.names import first_few, one_line
from bayesirt.posterior import TAILS, Posterior, mean_and_ends
from bayesirt.profiles.item_prediction import lean_of
from bayesirt.ranking.subject_ranking import ranks_of_draws

LEAST_RELIABILITY = 0.5
"""Reliability below which more than half of the variance is uncertainty, and nobody is ranked."""
LEAST_OWN = 0.3
"""Reliability from an ability's own items below which it rests on other abilities."""

MEASURED, BORROWED, PRIOR = "measured", "rests on other abilities", "rests on the prior"
_MOST_NAMED = 5


@dataclass(frozen=True, eq=False, repr=False)
class AbilityProfiles:
    """Levels of each subject on each ability, with their uncertainty.

    Attributes
    ----------
    summary : DataFrame
        One row per subject and ability: `level` in standard deviations of the population, its `sd`
        and 90% interval (`low`, `high`), the number of `answers` to items that need the ability,
        and, for abilities that are ranked, the median `rank` with its 90% interval.
    abilities : DataFrame
        One row per ability: `items` that need it and their `share`, `responses`; `reliability`, the
        share of the variance of levels that is not uncertainty; `own`, the reliability if abilities
        were independent; `standing`, in words; `ranked`; and `easiness`, how much easier items that
        need it with the typical slope are for a subject at the population's mean, in logits, with
        its 90% interval.
    pairs : DataFrame
        One row per pair of abilities: their `correlation` among subjects with its 90% interval,
        `reliability` of the difference between the two, and whether they are distinguishable
        (`told_apart`).
    """

    summary: pd.DataFrame
    abilities: pd.DataFrame
    pairs: pd.DataFrame

    def __repr__(self) -> str:
        n = len(self.summary) // len(self.abilities)
        return (
            f"<AbilityProfiles: {n} subjects x {len(self.abilities)} abilities, "
            f"{int(self.abilities['ranked'].sum())} ranked>"
        )

    def ranking(self, ability: str) -> pd.DataFrame:
        """Return the subjects sorted by one ability, best first.

        Parameters
        ----------
        ability : str

        Returns
        -------
        DataFrame
            Rows of `summary`.

        Raises
        ------
        KeyError
            If there is no such ability.
        """
        rows = self.summary[self.summary["ability"] == ability]
        if rows.empty:
            raise KeyError(ability)
        return rows.sort_values("level", ascending=False, kind="stable")

    def levels(self, column: str = "level") -> pd.DataFrame:
        """Return one column of `summary` as a table of subjects by abilities."""
        n_abilities = len(self.abilities)
        values = self.summary[column].to_numpy().reshape(-1, n_abilities)
        subjects = self.summary["subject"].to_numpy()[::n_abilities]
        return pd.DataFrame(values, index=subjects, columns=list(self.abilities["ability"]))

    def to_text(self) -> str:
        """Return a summary in sentences of what the data determine."""
        table = self.abilities
        n = len(table)
        by_standing = {s: table.loc[table["standing"] == s, "ability"] for s in (BORROWED, PRIOR)}
        measured = n - sum(map(len, by_standing.values()))
        text = [f"{measured} of {n} {'ability is' if n == 1 else 'abilities are'} measured."]
        for standing, one, several in (
            (BORROWED, "read it as general ability", "read them as general ability"),
            (PRIOR, "nobody is ranked by it; add items that need it",
             "nobody is ranked by them; add items that need them"),
        ):  # fmt: skip
            names = by_standing[standing]
            if len(names) == 1:
                text.append(f"{_listed(names)} {standing}: {one}.")
            elif len(names):
                text.append(f"{_listed(names)} {standing.replace('rests', 'rest')}: {several}.")
        distinct = self.pairs["told_apart"]
        if len(self.pairs) and not distinct.all():
            least = self.pairs.loc[self.pairs["reliability"].idxmin()]
            text.append(
                f"{int((~distinct).sum())} of {len(self.pairs)} pairs of abilities are not "
                f"distinguishable within a subject, least of all {one_line(least['ability'])!r} "
                f"and {one_line(least['other'])!r} (correlation {least['correlation']:.2f}): "
                f"differences between them in one profile are mostly noise."
            )
        return " ".join(text)

    def to_html(self) -> str:
        """Return the profiles as an HTML table with every name escaped."""
        return str(self.summary.to_html(index=False, escape=True))


def profile_abilities(posterior: Posterior, q: QMatrix) -> AbilityProfiles:
    """Summarise the level of each subject on each ability, and how well the data determine it.

    Parameters
    ----------
    posterior : Posterior
        Posterior of the Q-matrix model.
    q : QMatrix
        Q-matrix with a row for each item of the posterior.

    Returns
    -------
    AbilityProfiles

    Raises
    ------
    ResponseError
        If an item has no row.

    Notes
    -----
    Reliability is Var_i E[θ_ik] / (Var_i E[θ_ik] + mean_i var θ_ik) over subjects i, given the
    data. For a pair of abilities, it is computed for θ_ik - θ_il. An ability's own reliability
    combines the information of the answers about all abilities, at the posterior mean, with a prior
    of independent abilities.

    Examples
    --------
    >>> import jax
    >>> from bayesirt import RunOptions, sample_q_mirt, simulate_q_mirt
    >>> q = QMatrix.from_arrays([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])
    >>> responses = simulate_q_mirt(30, q, key=jax.random.key(0)).responses
    >>> options = RunOptions(num_warmup=50, num_samples=50)
    >>> posterior = sample_q_mirt(responses, q, key=jax.random.key(1), options=options)
    >>> profile_abilities(posterior, q)
    <AbilityProfiles: 30 subjects x 2 abilities, 0 ranked>
    """
    q = q.for_items(posterior.items)
    theta = posterior.draws("theta")
    mean, variance = theta.mean(0), theta.var(0, ddof=1)
    abilities = _abilities(posterior, q, mean, variance)
    seen = (posterior.trials > 0).astype(int) @ q.needs
    levels = {
        "level": mean,
        "sd": np.sqrt(variance),
        **_quantiles(theta, ("low", "high"), TAILS),
        "answers": seen,
        **_ranks(theta, abilities["ranked"].to_numpy(bool)),
    }
    columns = {name: values.reshape(-1) for name, values in levels.items()}
    names = {
        "subject": np.repeat(np.asarray(posterior.subjects, object), q.n_abilities),
        "ability": np.tile(np.asarray(q.abilities, object), len(posterior.subjects)),
    }
    summary = pd.DataFrame(names | columns)
    ranks = ["rank", "rank_low", "rank_high"]
    summary[ranks] = summary[ranks].astype("Int64")
    return AbilityProfiles(summary, abilities, _pairs(posterior, q, theta))


def _quantiles(
    theta: NDArray[np.floating], names: tuple[str, ...], levels: tuple[float, ...]
) -> dict[str, NDArray[np.float64]]:
    """Return quantiles over draws, one ability at a time to avoid a second copy of the draws."""
    by_ability = [np.quantile(theta[:, :, k], levels, axis=0) for k in range(theta.shape[2])]
    return dict(zip(names, np.stack(by_ability, -1), strict=True))


def _ranks(
    theta: NDArray[np.floating], ranked: NDArray[np.bool_]
) -> dict[str, NDArray[np.float64]]:
    """Return median ranks and their intervals, NaN for abilities that are not ranked."""
    ranks = np.full((3, *theta.shape[1:]), np.nan)
    for k in np.flatnonzero(ranked):
        ranks[:, :, k] = np.quantile(
            ranks_of_draws(theta[:, :, k]), (0.5, *TAILS), axis=0, method="inverted_cdf"
        )
    return dict(zip(("rank", "rank_low", "rank_high"), ranks, strict=True))


def _abilities(
    posterior: Posterior,
    q: QMatrix,
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> pd.DataFrame:
    coverage = q.coverage()
    reliability = mean.var(0) / (mean.var(0) + variance.mean(0))
    own = _own_reliability(posterior, q, mean)
    standing = np.where(
        reliability < LEAST_RELIABILITY, PRIOR, np.where(own < LEAST_OWN, BORROWED, MEASURED)
    )
    lean = lean_of(posterior) * np.exp(posterior.draws("mu_a"))[:, None]
    easiness = posterior.draws("beta") - lean
    return pd.DataFrame(
        {
            "ability": list(q.abilities),
            "items": coverage["items"].to_numpy(),
            "share": coverage["share of items"].to_numpy(),
            "responses": (posterior.trials > 0).sum(0) @ q.needs,
            "reliability": reliability,
            "own": own,
            "standing": standing,
            "ranked": standing != PRIOR,
            **mean_and_ends("easiness", easiness),
        }
    )


def _own_reliability(
    posterior: Posterior, q: QMatrix, mean: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return each ability's reliability, shape (ability,), if abilities were independent."""
    slopes = np.zeros(q.needs.shape)
    slopes[q.loadings] = posterior.draws("a").mean(0)
    eta = mean @ slopes.T + posterior.draws("d").mean(0)
    weight = np.asarray(LOGIT.expected_information(jnp.asarray(eta), posterior.trials))
    precision = np.stack([weight @ (slopes * slopes[:, [k]]) for k in range(q.n_abilities)], 1)
    covariance = np.linalg.inv(precision + np.eye(q.n_abilities))
    return 1 - np.einsum("ikk->k", covariance) / len(mean)


def _pairs(posterior: Posterior, q: QMatrix, theta: NDArray[np.floating]) -> pd.DataFrame:
    pairs = list(combinations(range(q.n_abilities), 2))
    correlation = posterior.draws("correlation") if "correlation" in posterior.dataset else None
    rows = []
    for k, other in pairs:
        drawn = np.zeros(1) if correlation is None else correlation[:, k, other]
        difference = theta[:, :, k] - theta[:, :, other]
        signal = difference.mean(0).var()
        reliability = signal / (signal + difference.var(0, ddof=1).mean())
        low, high = np.quantile(drawn, TAILS)
        names = (q.abilities[k], q.abilities[other])
        distinct = reliability >= LEAST_RELIABILITY
        rows.append((*names, drawn.mean(), low, high, reliability, distinct))
    columns = ["ability", "other", "correlation", "low", "high", "reliability", "told_apart"]
    table = pd.DataFrame(rows, columns=columns)
    return table.astype({"told_apart": bool})


def _listed(names: "pd.Series[str]") -> str:
    return first_few([repr(one_line(name, 30)) for name in names], _MOST_NAMED)
