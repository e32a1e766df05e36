"""Ability profiles: what each subject has of each ability, and how much of that the data say.

Three questions come before any ranking. Do the answers say more of an ability than the population
did before them? Do the ability's own items say it, or is it borrowed from abilities that go
together with it? And are two abilities of one subject different, or is their difference noise?
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
"""Below it more than half of what an ability varies by is uncertainty, and nobody is ranked."""
LEAST_OWN = 0.3
"""Reliability that an ability's own items reach in one that does not rest on others."""

MEASURED, BORROWED, PRIOR = "measured", "rests on other abilities", "rests on the prior"
_MOST_NAMED = 5


@dataclass(frozen=True, eq=False, repr=False)
class AbilityProfiles:
    """What each subject has of each ability, and how sure that is.

    Attributes
    ----------
    summary : DataFrame
        One row a subject and ability: `level` in standard deviations of the population, its `sd`
        and 90% interval (`low`, `high`), the number of `answers` to items that need the ability,
        and, for abilities that are ranked, the median `rank` with its 90% interval.
    abilities : DataFrame
        One row an ability: `items` that need it and their `share`, `responses`; `reliability`, the
        share of the abilities' variance that is no uncertainty; `own`, what that would be if
        abilities told nothing of each other; `standing`, in words; `ranked`; and `easiness`, how
        much easier items are that need it with the usual slope, for a subject at the population's
        mean, in logits, with its 90% interval.
    pairs : DataFrame
        One row a pair of abilities: their `correlation` among subjects with its 90% interval,
        `reliability` of the difference between the two, and whether they are `told_apart`.
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
        """Return the subjects by one ability, best first.

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
        """Return in sentences what the data can tell."""
        table = self.abilities
        n = len(table)
        by_standing = {s: table.loc[table["standing"] == s, "ability"] for s in (BORROWED, PRIOR)}
        measured = n - sum(map(len, by_standing.values()))
        said = [f"{measured} of {n} {'ability is' if n == 1 else 'abilities are'} measured."]
        for standing, one, several in (
            (BORROWED, "read it as general ability", "read them as general ability"),
            (PRIOR, "nobody is ranked by it; add items that need it",
             "nobody is ranked by them; add items that need them"),
        ):  # fmt: skip
            names = by_standing[standing]
            if len(names) == 1:
                said.append(f"{_listed(names)} {standing}: {one}.")
            elif len(names):
                said.append(f"{_listed(names)} {standing.replace('rests', 'rest')}: {several}.")
        apart = self.pairs["told_apart"]
        if len(self.pairs) and not apart.all():
            least = self.pairs.loc[self.pairs["reliability"].idxmin()]
            said.append(
                f"{int((~apart).sum())} of {len(self.pairs)} pairs of abilities are not "
                f"distinguishable "
                f"within a subject, least of all {one_line(least['ability'])!r} and "
                f"{one_line(least['other'])!r} (correlation {least['correlation']:.2f}): what "
                f"differs between them in one profile is mostly noise."
            )
        return " ".join(said)

    def to_html(self) -> str:
        """Return the profiles as an HTML table with every name escaped."""
        return str(self.summary.to_html(index=False, escape=True))


def profile_abilities(posterior: Posterior, q: QMatrix) -> AbilityProfiles:
    """Say what each subject has of each ability, and what of that the data tell.

    Parameters
    ----------
    posterior : Posterior
        Of the Q-matrix model.
    q : QMatrix
        With a row for each item of the posterior.

    Returns
    -------
    AbilityProfiles

    Raises
    ------
    ResponseError
        If an item has no row.

    Notes
    -----
    Reliability is Var_i E[θ_ik] / (Var_i E[θ_ik] + mean_i var θ_ik): over subjects i, given the
    data. That of a difference is the same for θ_ik - θ_il. An ability's own reliability takes
    the information of the answers about all abilities at the posterior mean, and a prior in which
    abilities do not go together.

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
    """Return quantiles over draws, one ability after another to hold no second copy of them."""
    by_ability = [np.quantile(theta[:, :, k], levels, axis=0) for k in range(theta.shape[2])]
    return dict(zip(names, np.stack(by_ability, -1), strict=True))


def _ranks(
    theta: NDArray[np.floating], ranked: NDArray[np.bool_]
) -> dict[str, NDArray[np.float64]]:
    """Return median ranks and their intervals, NaN for abilities that are not ranked."""
    found = np.full((3, *theta.shape[1:]), np.nan)
    for k in np.flatnonzero(ranked):
        found[:, :, k] = np.quantile(
            ranks_of_draws(theta[:, :, k]), (0.5, *TAILS), axis=0, method="inverted_cdf"
        )
    return dict(zip(("rank", "rank_low", "rank_high"), found, strict=True))


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
    """Return what answers tell of each ability, shape (ability,), were abilities independent."""
    slopes = np.zeros(q.needs.shape)
    slopes[q.loadings] = posterior.draws("a").mean(0)
    eta = mean @ slopes.T + posterior.draws("d").mean(0)
    weight = np.asarray(LOGIT.expected_information(jnp.asarray(eta), posterior.trials))
    precision = np.stack([weight @ (slopes * slopes[:, [k]]) for k in range(q.n_abilities)], 1)
    left = np.linalg.inv(precision + np.eye(q.n_abilities))
    return 1 - np.einsum("ikk->k", left) / len(mean)


def _pairs(posterior: Posterior, q: QMatrix, theta: NDArray[np.floating]) -> pd.DataFrame:
    pairs = list(combinations(range(q.n_abilities), 2))
    correlation = posterior.draws("correlation") if "correlation" in posterior.dataset else None
    rows = []
    for k, other in pairs:
        drawn = np.zeros(1) if correlation is None else correlation[:, k, other]
        difference = theta[:, :, k] - theta[:, :, other]
        told = difference.mean(0).var()
        reliability = told / (told + difference.var(0, ddof=1).mean())
        low, high = np.quantile(drawn, TAILS)
        names = (q.abilities[k], q.abilities[other])
        apart = reliability >= LEAST_RELIABILITY
        rows.append((*names, drawn.mean(), low, high, reliability, apart))
    columns = ["ability", "other", "correlation", "low", "high", "reliability", "told_apart"]
    table = pd.DataFrame(rows, columns=columns)
    return table.astype({"told_apart": bool})


def _listed(names: "pd.Series[str]") -> str:
    return first_few([repr(one_line(name, 30)) for name in names], _MOST_NAMED)
