"""Other libraries' 2PL fits behind a common interface, installed by ``pip install .[peers]``.

Install py-irt separately afterwards: it requires an older typer than bayesirt does.

Imports of a library are not timed. Each fit gives θ, a and d of η = a θ + d.
"""

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

Estimate = tuple[np.ndarray, np.ndarray, np.ndarray]
Fit = Callable[[np.ndarray], Any]


class Peer(NamedTuple):
    """Interface to a library.

    Attributes
    ----------
    modules : tuple of str
        Modules that must be installed.
    prepare : callable
        y → argument of `fit`.
    fit : callable
        The timed call.
    read : callable
        (result of `fit`, y) → θ, a, d; a separate scoring of abilities is not timed.
    """

    modules: tuple[str, ...]
    prepare: Callable[[np.ndarray], Any]
    fit: Fit
    read: Callable[[Any, np.ndarray], Estimate]


def _mirt(*, errors: bool) -> Peer:
    def fit(y: np.ndarray) -> Any:
        import mirt

        return mirt.fit_mirt(y, model="2PL", compute_standard_errors=errors)

    def read(found: Any, y: np.ndarray) -> Estimate:
        import mirt

        theta = np.ravel(mirt.fscores(found, y.astype(int), method="EAP").theta)
        of = found.model.parameters
        a, b = (np.ravel(of[name]) for name in ("discrimination", "difficulty"))
        return theta, a, -a * b

    return Peer(("mirt",), lambda y: y.astype(int), fit, read)


def _theta() -> Peer:
    def fit(y: np.ndarray) -> Any:
        import theta

        found = theta.fit(y, "2PL")
        np.asarray(found.a)
        return found

    def read(found: Any, y: np.ndarray) -> Estimate:
        abilities, _ = found.score(y.astype(float), method="EAP")
        a, b = np.asarray(found.a), np.asarray(found.b)
        return np.asarray(abilities), a, -a * b

    return Peer(("theta",), lambda y: y.astype(float), fit, read)


def _girth() -> Peer:
    def prepare(y: np.ndarray) -> np.ndarray:
        import girth

        return girth.tag_missing_data(y.T.astype(int), [0, 1])

    def fit(y: np.ndarray) -> Any:
        import girth

        return girth.twopl_jml(y)

    def read(found: Any, y: np.ndarray) -> Estimate:
        import girth

        a, b = found["Discrimination"], found["Difficulty"]
        return girth.ability_eap(prepare(y), b, a), a, -a * b

    return Peer(("girth",), prepare, fit, read)


def _py_irt() -> Peer:
    def prepare(y: np.ndarray) -> Any:
        from py_irt.config import IrtConfig
        from py_irt.dataset import Dataset
        from py_irt.training import IrtModelTrainer

        table = pd.DataFrame(y.astype(float), columns=[f"item {j}" for j in range(y.shape[1])])
        config = IrtConfig(model_type="2pl", priors="vague", epochs=1000, lr=0.1)
        with contextlib.redirect_stdout(io.StringIO()):
            dataset = Dataset.from_pandas(table)
            return IrtModelTrainer(data_path=None, config=config, dataset=dataset, verbose=False)

    def fit(trainer: Any) -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            trainer.train(epochs=1000, device="cpu")
        return trainer.last_params

    def read(found: Any, y: np.ndarray) -> Estimate:
        theta, a, b = (np.ravel(found[name]) for name in ("ability", "disc", "diff"))
        return theta, a, -a * b

    return Peer(("py_irt.training",), prepare, fit, read)


PEERS = {
    "mirt EM": _mirt(errors=False),
    "mirt EM, errors": _mirt(errors=True),
    "theta-irt EM": _theta(),
    "girth JML": _girth(),
    "py-irt SVI": _py_irt(),
}


def installed(peer: Peer) -> Peer:
    """Return the peer, or skip the test with the reason."""
    for module in peer.modules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pytest.importorskip(module, reason=f"needs {module}: pip install .[peers]")
    return peer
