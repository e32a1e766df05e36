"""`PointEstimate`, the result of every point estimator."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesirt.data.whole_file import make_sure_of_room
from bayesirt.names import notebook_html


def labelled(values: xr.DataArray) -> list[str]:
    """Return the name of each value in row-major order: ``gpt-x, algebra`` over two dims."""
    names = ([str(name) for name in values[dim].values] for dim in values.dims)
    return [", ".join(both) for both in product(*names)]


def _is_error(name: Hashable) -> bool:
    return str(name).endswith("_se")


@dataclass(frozen=True, eq=False, repr=False)
class PointEstimate:
    """Point estimates of all parameters, with convergence information.

    Attributes
    ----------
    parameters : Dataset
        Named parameters over the dims ``subject`` and ``item``: theta, a, d, b; the standard
        errors theta_se, a_se, d_se (lower bounds for cBMM and the spectral estimator, since each
        side treats the other as known, and for LaRT and several abilities, where few items leave
        abilities uncertain); and theta_centre, the ability at which each item is most
        informative. LaRT adds tau, phi, omega, lam and rho with standard errors. With a Q-matrix,
        theta is over ``subject`` and ``ability``, a over ``loading``, and correlation over two
        abilities.
    log_likelihood : float
        Log likelihood of the responses at the estimate, without the prior.
    iterations : int
    converged : bool
    stop_reason : str
        Why the iteration stopped, in words.
    trace : float array, shape (iteration + 1,)
        Loss after each iteration, starting with the initial values.
    settings : mapping
        The estimator's name and its options, JSON-ready; ``theta_scale`` is "sample" if θ has mean
        0 and standard deviation 1 among these subjects, or "population" if it does in their
        population.
    """

    parameters: xr.Dataset
    log_likelihood: float
    iterations: int
    converged: bool
    stop_reason: str
    trace: NDArray[np.float64]
    settings: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<PointEstimate by {self.settings['estimator']}: {self.to_text()}>"

    def _repr_html_(self) -> str:
        return notebook_html(repr(self)[1:-1], self.summary)

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """Return one parameter as an array."""
        return self.parameters[name].to_numpy()

    @property
    def summary(self) -> pd.DataFrame:
        """Estimate and standard error of each parameter, indexed by (parameter, name)."""
        rows = [
            (name, label, value, se)
            for name in (str(n).removesuffix("_se") for n in self.parameters if _is_error(n))
            for label, value, se in zip(
                labelled(self.parameters[name]),
                self[name].ravel(),
                self[f"{name}_se"].ravel(),
                strict=True,
            )
        ]
        table = pd.DataFrame(rows, columns=["parameter", "name", "estimate", "se"])
        return table.set_index(["parameter", "name"])

    def to_text(self) -> str:
        """Return one sentence on how the estimate was reached."""
        state = "converged" if self.converged else "NOT converged"
        return (
            f"{state} after {self.iterations} iterations ({self.stop_reason}), "
            f"log likelihood {self.log_likelihood:,.1f}"
        )

    def save(self, path: Path) -> None:
        """Write a NetCDF file that `load` reads back."""
        stored = self.parameters.assign(trace=("step", self.trace))
        stored.attrs = {
            **self.settings,
            "log_likelihood": self.log_likelihood,
            "iterations": self.iterations,
            "converged": int(self.converged),
            "stop_reason": self.stop_reason,
        }
        make_sure_of_room(path, stored.nbytes)
        stored.to_netcdf(path, engine="h5netcdf")

    @classmethod
    def load(cls, path: Path) -> "PointEstimate":
        """Read what `save` wrote."""
        stored = xr.load_dataset(path, engine="h5netcdf")
        attrs = {k: v.item() if hasattr(v, "item") else v for k, v in stored.attrs.items()}
        run = [attrs.pop(k) for k in ("log_likelihood", "iterations", "converged", "stop_reason")]
        parameters = stored.drop_vars("trace")
        parameters.attrs = {}
        trace = stored["trace"].to_numpy()
        return cls(parameters, run[0], run[1], bool(run[2]), run[3], trace, attrs)
