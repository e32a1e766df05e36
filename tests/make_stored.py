"""Recreate the runs in `tests/stored`: `python tests/make_stored.py`, about a minute.

Tests of rankings, checks, reports and commands read them, and so compile no sampler.
"""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import xarray as xr
from conftest import simulate

from bayesirt.data.clusters import Clusters
from bayesirt.data.responses import Responses
from bayesirt.posterior import Posterior
from bayesirt.ranking.run import rank_responses
from bayesirt.ranking.run_folder import save_run
from bayesirt.ranking.settings import Settings

STORED = Path(__file__).parent / "stored"
DRAWS, DIGITS = 3000, 512
STATISTICS = ("lp", "acceptance_theta")


def clustered_responses() -> Responses:
    """Return answers of ten LLMs with three runs each; runs of one LLM are nearly equal."""
    rng = np.random.default_rng(1)
    theta = np.repeat(np.linspace(-1.5, 1.5, 10), 3) + 0.2 * rng.normal(size=30)
    p = 1 / (1 + np.exp(-1.5 * (theta[:, None] - rng.normal(size=20))))
    responses = Responses.from_arrays((rng.uniform(size=p.shape) < p).astype(int))
    return replace(responses, clusters=Clusters.of([f"llm{k}" for k in np.repeat(range(10), 3)]))


def thinned(posterior: Posterior, every: int, first: int) -> Posterior:
    """Return some draws of each chain, rounded, with only a few statistics."""
    parts = posterior.tree.to_dict()
    parts["/sample_stats"] = parts["/sample_stats"][list(STATISTICS)]
    for name in ("/posterior", "/sample_stats"):
        kept = parts[name].isel(draw=slice(first, None, every))
        parts[name] = (kept * DIGITS).round() / DIGITS
    return Posterior(xr.DataTree.from_dict(parts)).with_attrs(**posterior.tree.attrs)


def store(name: str, responses: Responses, every: int, files: set[str]) -> None:
    """Thin the draws, starting from the first offset with which the verdict is sound."""
    run = rank_responses(responses, Settings(draws=DRAWS))
    some = [thinned(run.posterior, every, first) for first in range(every)]
    kept = next((own for own in some if own.verdict.sound), some[0])
    folder = STORED / name
    folder.mkdir(parents=True)
    save_run(replace(run, posterior=kept), folder, "")
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    packed(folder / "posterior.nc")
    print(name, kept.verdict.sound)


def packed(path: Path) -> None:
    """Rewrite a file with its numbers compressed."""
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        tree.load()
    how = {"zlib": True, "complevel": 9, "shuffle": True}
    encoding = {
        node.path: {n: how for n, x in node.data_vars.items() if x.ndim} for node in tree.subtree
    }
    tree.to_netcdf(path, engine="h5netcdf", encoding=encoding)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    store("small", simulate(30, 20)[0], 20, {"run.json", "point.nc", "posterior.nc"})
    store("clustered", clustered_responses(), 200, {"posterior.nc"})
