"""`Posterior`: draws from a model's posterior, in an ArviZ DataTree.

Modules that only produce or judge draws are imported where they are used, so that a finished run
can be read without them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesirt import __version__
from bayesirt.convergence import convergence
from bayesirt.data.clusters import Clusters
from bayesirt.data.responses import Responses
from bayesirt.data.scales import Scale, stored_scale
from bayesirt.data.topics import shared_facts
from bayesirt.data.whole_file import make_sure_of_room
from bayesirt.names import notebook_html
from bayesirt.point_estimate import labelled
from bayesirt.verdict import Verdict, judge_approximation, judge_chains

LEVEL = 0.9
"""Default probability of intervals."""
TAILS = (1 - LEVEL) / 2, (1 + LEVEL) / 2
"""Quantiles at the ends of an interval."""
LOW_MIDDLE_HIGH = TAILS[0], 0.5, TAILS[1]


def mean_and_ends(name: str, draws: NDArray[np.floating]) -> dict[str, NDArray[np.float64]]:
    """Return columns with the mean of draws and the ends of its interval."""
    low, high = np.quantile(draws, TAILS, axis=0)
    return {name: draws.mean(0), f"{name}_low": low, f"{name}_high": high}


FEW_TO_STANDARDISE = 10
"""With fewer subjects abilities are only centred; with two, a standard score is always 1 or -1."""

_OF_SUBJECTS, _OF_ITEMS = ("theta", "tau"), ("a", "d", "b", "c", "phi", "omega", "lam", "delta")
_DIMS = {name: ["subject"] for name in _OF_SUBJECTS} | {name: ["item"] for name in _OF_ITEMS}
_DIMS |= {"gamma": ["cluster"], "cluster_of": ["subject"]}
_ABOUT = "about "
"""Prefix of the names of item columns."""
_KNOWN_DIMS = {name: ["subject", "item"] for name in ("successes", "trials")}
_KNOWN_DIMS |= {name: ["subject"] for name in ("mean_length", "mean_cost")}


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Posterior draws of every parameter.

    Attributes
    ----------
    tree : DataTree
        Groups posterior, sample_stats, observed_data and constant_data; dims chain, draw,
        subject and item; attributes with the model, the engine, the priors and the version.
    """

    tree: xr.DataTree

    @classmethod
    def from_samples(
        cls,
        samples: Mapping[str, NDArray[np.floating]],
        statistics: Mapping[str, NDArray[Any]],
        responses: Responses,
        attrs: Mapping[str, Any],
        *,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, list[str]] | None = None,
    ) -> "Posterior":
        """Wrap an engine's arrays.

        Parameters
        ----------
        samples : mapping of float arrays, shape (chain, draw, ...)
        statistics : mapping of arrays, shape (chain, draw)
            Sampler statistics under ArviZ's names.
        responses : Responses
        attrs : mapping
            Attributes stored with the draws.
        coords, dims : mapping, optional
            Names along dimensions other than subject and item, and the dimensions of each site; by
            default those of models with one ability.

        Returns
        -------
        Posterior
        """
        import arviz_base

        from bayesirt.likelihood.latencies import mean_lengths

        successes, trials = responses.cells.matrices()
        constant: dict[str, NDArray[Any]] = {"trials": trials}
        if responses.latency is not None:
            constant["mean_length"] = mean_lengths(responses)
        if responses.costs is not None:
            constant["mean_cost"] = responses.costs
        described = {f"{_ABOUT}{name}": x for name, x in shared_facts(responses).items()}
        constant |= described
        clusters, of_clusters = responses.clusters, {}
        if clusters is not None and "gamma" in samples:
            constant["cluster_of"] = np.array(clusters.codes)
            of_clusters = {"cluster": list(clusters.names)}
        names = {"subject": list(responses.subjects), "item": list(responses.items)}
        tree = arviz_base.from_dict(
            {
                "posterior": dict(samples),
                "sample_stats": dict(statistics),
                "observed_data": {"successes": successes},
                "constant_data": constant,
            },
            coords={**(coords or {}), **of_clusters, **names},
            dims={**(dims or _DIMS), **_KNOWN_DIMS, **{name: ["item"] for name in described}},
        )
        tree.attrs = {"bayesirt_version": __version__, **attrs}
        if responses.scale is not None:
            tree.attrs["answers"] = json.dumps(asdict(responses.scale))
        return cls(tree)

    def __repr__(self) -> str:
        chains, draws, _ = self["theta"].shape
        attrs = self.tree.attrs
        return (
            f"<Posterior of the {attrs['model']} by {attrs['engine']}: {chains} chains x "
            f"{draws} draws, {len(self.subjects)} subjects x {len(self.items)} items>"
        )

    @property
    def complete(self) -> bool:
        """False if sampling was interrupted, so that there are fewer draws than requested."""
        return bool(self.tree.attrs.get("complete", 1))

    @property
    def approximate(self) -> bool:
        """True if the draws are from an approximation, and independent of each other."""
        return bool(self.tree.attrs.get("approximate", 0))

    @property
    def link(self) -> str:
        """The response family, which maps a θ + d to the expected share of the full score."""
        return str(self.tree.attrs.get("link", "logit"))

    @property
    def answers(self) -> Scale | None:
        """The scale of the answers; None if they are right or wrong."""
        return stored_scale(str(self.tree.attrs.get("answers", "")))

    @property
    def further(self) -> tuple[str, ...]:
        """Further item parameters, besides a and d, on which the proportion correct depends."""
        from bayesirt.likelihood.families import family_named

        return family_named(self.link).further

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters on which the proportion correct depends, subjects' first."""
        return "theta", "a", "d", *self.further

    @property
    def has_speeds(self) -> bool:
        """True if the model has a speed for each subject."""
        return "tau" in self.dataset

    @property
    def has_wrong_lengths(self) -> bool:
        """True if the model has different lengths for right and wrong answers."""
        return "delta" in self.dataset

    @property
    def dataset(self) -> xr.Dataset:
        """The posterior group."""
        return self.tree["posterior"].to_dataset()

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """Return the draws of a site, shape (chain, draw, ...)."""
        return self.dataset[name].to_numpy()

    def draws(self, name: str, most: int | None = None) -> NDArray[np.float64]:
        """Return the draws of a site with the chains joined, shape (sample, ...).

        Parameters
        ----------
        name : str
        most : int, optional
            Thin evenly to at most this many draws.

        Returns
        -------
        float array, shape (sample, ...)
        """
        values = self[name]
        joined = values.reshape(-1, *values.shape[2:])
        return joined if most is None else joined[:: -(-len(joined) // most)]

    @property
    def theta(self) -> NDArray[np.float64]:
        """Abilities, shape (sample, subject)."""
        return self.draws("theta")

    @property
    def subjects(self) -> list[str]:
        """Names of the subjects."""
        return [str(s) for s in self.dataset["subject"].values]

    @property
    def items(self) -> list[str]:
        """Names of the items."""
        return [str(i) for i in self.dataset["item"].values]

    @property
    def successes(self) -> NDArray[np.integer]:
        """Successes of the responses, shape (subject, item)."""
        return self.tree["observed_data"]["successes"].to_numpy()

    @property
    def trials(self) -> NDArray[np.integer]:
        """Trials of the responses, shape (subject, item)."""
        return self.tree["constant_data"]["trials"].to_numpy()

    @property
    def clusters(self) -> Clusters | None:
        """The clusters of subjects, if the model has clusters."""
        constant = self.tree["constant_data"]
        if "cluster_of" not in constant:
            return None
        names = tuple(str(name) for name in self.dataset["cluster"].values)
        return Clusters(names, tuple(constant["cluster_of"].to_numpy().tolist()))

    @property
    def item_facts(self) -> pd.DataFrame:
        """Columns that describe the items, such as their topic, indexed by item."""
        constant = self.tree["constant_data"].to_dataset()
        facts = {str(x).removeprefix(_ABOUT): constant[x] for x in constant if _ABOUT in str(x)}
        return pd.DataFrame({k: x.to_numpy().astype(object) for k, x in facts.items()}, self.items)

    @property
    def item_groups(self) -> NDArray[np.intp] | None:
        """The group of each item, if the model has groups of dependent items."""
        constant = self.tree["constant_data"]
        return pd.factorize(constant["group_of"].to_numpy())[0] if "group_of" in constant else None

    @property
    def mean_lengths(self) -> NDArray[np.float64] | None:
        """Mean length of each subject's responses, if known, shape (subject,)."""
        return self._of_subjects("mean_length")

    @property
    def mean_costs(self) -> NDArray[np.float64] | None:
        """Mean cost of each subject's responses, if known, shape (subject,)."""
        return self._of_subjects("mean_cost")

    def _of_subjects(self, name: str) -> NDArray[np.float64] | None:
        constant = self.tree["constant_data"]
        return constant[name].to_numpy() if name in constant else None

    @cached_property
    def reported(self) -> "Posterior":
        """The same draws on the reported scale: abilities standardised draw by draw.

        In every draw the abilities of these subjects have mean 0 and standard deviation 1; with
        fewer than 10 subjects they are only centred, in standard deviations of the assumed
        population. `a`, `d`, `b` and `gamma` are transformed accordingly, so that no probability
        changes. Population parameters and models with several abilities are left unchanged.
        """
        if self["theta"].ndim != 3 or "scale_reported" in self.tree.attrs:
            return self
        names = [x for x in ("theta", "a", "d", "gamma") if x in self.dataset]
        moved = standardised({name: self[name] for name in names})
        with np.errstate(divide="ignore", invalid="ignore"):
            moved["b"] = -moved["d"] / moved["a"]
        variables = {x: (self.dataset[x].dims, moved[x]) for x in moved if x in self.dataset}
        tree = self.tree.copy()
        tree["posterior"] = xr.DataTree(self.dataset.assign(variables))
        unit = int(moved["theta"].shape[-1] >= FEW_TO_STANDARDISE)
        reported = Posterior(tree).with_attrs(scale_reported=unit)
        return reported.judged(self.verdict) if "verdict" in self.__dict__ else reported

    @property
    def scale_in_words(self) -> str:
        """What 0 and 1 mean on the reported scale."""
        if self.reported.tree.attrs.get("scale_reported"):
            return "Abilities are standardised among these subjects: mean 0, standard deviation 1."
        return (
            "Abilities are centred on these subjects, which are too few to set a unit: 1 is the "
            "standard deviation of the assumed population."
        )

    def _repr_html_(self) -> str:
        return notebook_html(repr(self)[1:-1], self._summary_of(["theta"]))

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Mean, sd, 90% interval, R-hat and ESS of every quantity, by (parameter, name)."""
        return self._summary_of(map(str, self.dataset.data_vars))

    def _summary_of(self, names: Iterable[str]) -> pd.DataFrame:
        summaries = self._summaries
        for name in (names := [*names]):
            if name not in summaries:
                summaries[name] = self._summary_of_site(name)
        return pd.concat([summaries[name] for name in names if summaries[name] is not None])

    @cached_property
    def _summaries(self) -> dict[str, pd.DataFrame | None]:
        """The cached parts of the summary."""
        return {}

    def _summary_of_site(self, name: str) -> pd.DataFrame | None:
        values = self[name]
        labels = labelled(self.dataset[name][0, 0])
        values = values.reshape(*values.shape[:2], -1)
        varies = np.ptp(values, axis=(0, 1)) != 0
        if not varies.any():
            return None
        values, labels = values[:, :, varies], list(compress(labels, varies))
        low, median, high = np.quantile(values, LOW_MIDDLE_HIGH, (0, 1))
        diagnostics = convergence(values)
        return pd.DataFrame(
            {
                "mean": values.mean((0, 1)),
                "sd": values.std((0, 1), ddof=1),
                "low": low,
                "median": median,
                "high": high,
                **diagnostics._asdict(),
            },
            index=pd.MultiIndex.from_product([[name], labels], names=["parameter", "name"]),
        )

    def judged(self, verdict: Verdict) -> "Posterior":
        """Return the same draws with a known verdict, as computing it is slow."""
        posterior = Posterior(self.tree)
        posterior.__dict__["verdict"] = verdict
        return posterior

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the draws can be trusted; abilities are judged on the reported scale."""
        if self.approximate:
            return judge_approximation({str(k): v for k, v in self.tree.attrs.items()})
        names = (str(name) for name in self.dataset.data_vars if name != "b")
        return judge_chains(
            self.reported._summary_of(names),
            self.tree["sample_stats"].to_dataset(),
            complete=self.complete,
            attrs={str(k): v for k, v in self.tree.attrs.items()},
            draws=self["theta"].shape[1],
        )

    def with_attrs(self, **attrs: Any) -> "Posterior":
        """Return the same draws with more attributes."""
        tree = self.tree.copy()
        tree.attrs = {**self.tree.attrs, **attrs}
        return Posterior(tree)

    def with_constants(self, facts: Mapping[str, tuple[Any, Any]]) -> "Posterior":
        """Return the same draws with more constant data, given as (dimensions, values)."""
        tree = self.tree.copy()
        tree["constant_data"] = xr.DataTree(tree["constant_data"].to_dataset().assign(facts))
        return Posterior(tree)

    def save(self, path: Path) -> None:
        """Write a NetCDF file that `load` and ArviZ read back."""
        make_sure_of_room(path, self.tree.nbytes)
        self.tree.to_netcdf(path, engine="h5netcdf")

    @classmethod
    def load(cls, path: Path) -> "Posterior":
        """Read what `save` wrote."""
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            return cls(tree.load())


def standardised(draws: Mapping[str, NDArray[np.floating]]) -> dict[str, NDArray[np.floating]]:
    """Standardise abilities draw by draw, and transform a, d and gamma, if present, to match."""
    theta = draws["theta"]
    mean, sd = theta.mean(-1, keepdims=True), np.ones_like(theta[..., :1])
    if theta.shape[-1] >= FEW_TO_STANDARDISE:
        sd = theta.std(-1, keepdims=True)
        sd = np.where(sd > 0, sd, 1)
    moved = {name: (draws[name] - mean) / sd for name in ("theta", "gamma") if name in draws}
    if "a" in draws:
        moved |= {"a": draws["a"] * sd, "d": draws["d"] + draws["a"] * mean}
    return moved
