"""A small version of every study, with quick substitutes for the slow parts.

Each substitute is patched into a module; other tests cover what it replaces.
"""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from lart_data import simulate_lart
from quick_engine import draw_at_once
from scipy.special import expit, logit
from scipy.stats import norm

from bayesirt import studies
from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.models import Priors
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.studies import (
    abilities_consistency,
    abilities_unseen,
    fpc_tasks,
    lart_matrix_tasks,
    lart_suites,
    sparse_conditions,
)
from bayesirt.studies import cat as cat_module
from bayesirt.studies.abilities_consistency import accuracies
from bayesirt.studies.abilities_unseen import Division, Fits
from bayesirt.studies.cat import RHO, Sizes, draw_items
from bayesirt.studies.engine import Study
from bayesirt.studies.fpc_chain import Calibration, Chain, ChainStep, first_benchmarks, shares
from bayesirt.studies.fpc_tasks import SimulatedSuite
from bayesirt.studies.lart_matrix import Cells
from bayesirt.studies.replication import Design

ABILITIES = studies.AbilitiesDesign((), 0, 0, (12, 60, 4), splits=3, halves=2, posterior_draws=0)
CAT = studies.CATDesign(1, Sizes(10, 12, 40, 6, 3), (2.0,))
CBMM = studies.CBMMDesign(
    replications=1, mml_replications=1, drawn_replications=1, size=(30, 20), sizes=(),
    temperatures=(0.0, 0.25), rates=(0.3,), gated=(0.2,), sparsities=(0.2,), spreads=(0.8,),
    posteriors=("laplace positive",), starts=1, variances=(1.0, 4.0), matrix_size=(30, 20),
)  # fmt: skip
FPC = studies.FPCDesign(
    anchors=(2, 4), usual=4, rule_anchors=(2,), references=(10,), n_abilities=1, orders=1,
    chains=2, few=1, measured=2, simulated=SimulatedSuite(4, 12, 40, 1),
)  # fmt: skip
LART = studies.LaRTDesign(
    replications=2, saem_replications=1, drawn_replications=0, sizes=(20,), n_items=10, short=(),
    iterations=30, matrix_draws=0, repetitions=1,
)  # fmt: skip
SPARSE = studies.SparseDesign(1, 2, 0, (0.0, 0.4, 0.7), (1.0, 3.0, 5.0))
SUFFIXES = ("_one", "_zero")
NAMES = [f"s{k // 2}{SUFFIXES[k % 2]}" for k in range(20)]
"""Subjects of a matrix with lengths, two rows for each."""


def lart_matrix() -> Responses:
    """Return 20 x 10 responses with lengths."""
    return replace(simulate_lart(20, 10, seed=4)[0], subjects=tuple(NAMES))


def made_point(q: QMatrix, theta: np.ndarray, se: float = 0.3, **own: float) -> PointEstimate:
    hyper = {"mu_a": 0.1, "sigma_a": 0.0, "mu_d": -0.2, "sigma_d": 0.0, **own}
    values = {
        "theta": (("subject", "ability"), theta),
        "theta_se": (("subject", "ability"), np.full(theta.shape, se)),
        "beta": ("ability", np.linspace(-0.5, 0.5, q.n_abilities)),
        **{name: ((), value) for name, value in hyper.items()},
    }
    return PointEstimate(xr.Dataset(values), 0.0, 1, True, "", np.zeros(1), {})


def by_shares(division: Division, *, key: object, trained: int) -> Fits:
    """Return logits of accuracies as the estimates of all models."""
    of_ability, overall = accuracies(division.responses, division.q.needs)
    theta = logit(np.clip(np.nan_to_num(of_ability, nan=0.5), 0.02, 0.98))
    one = QMatrix.from_arrays(np.ones((division.q.n_items, 1)), division.q.items)
    plain = logit(np.clip(overall, 0.02, 0.98))[:, None]

    def predict(rows: np.ndarray) -> np.ndarray:
        return expit((theta @ rows.T) / rows.sum(1))

    neural = SimpleNamespace(abilities=expit(theta), predict=predict)
    return Fits(made_point(division.q, theta), made_point(one, plain), neural)


def nearly_known(model: str, n_items: int) -> Posterior:
    """Return a posterior with four draws: the true items of seed 0 plus a little noise."""
    rng = np.random.default_rng(0)
    truth = draw_items(model, n_items, rng)
    noise = 0.01 * rng.normal(size=(1, 4, n_items))
    names = ("a", "d") if model == "2pl" else ("a", "d", "phi", "omega", "lam")
    samples = {name: getattr(truth, name) + noise for name in names}
    samples["theta"] = np.zeros((1, 4, 2))
    if model == "lart":
        samples |= {"tau": np.zeros((1, 4, 2)), "rho": np.full((1, 4), RHO)}
    responses = Responses.from_arrays(np.indices((2, n_items)).sum(0) % 2)
    link = {"link": "probit" if model == "lart" else "logit"}
    return Posterior.from_samples(samples, {}, responses, link)


def made_chain(chain: Chain, order, **options):
    """Yield steps whose predictions are off by 1 point with FPC and by 2 with the other."""
    of, test = chain.of, chain.test
    n_first = first_benchmarks(of, order, chain.n_abilities)
    for step, name in enumerate(order[n_first:], 1):
        if step not in options["measured"]:
            continue
        truth = shares(test)[:, of == name].mean(1)
        found = []
        for off in (0.01, 0.02):
            table = pd.DataFrame({"truth": truth, "low": truth - 0.05, "high": truth + 0.05})
            for column in ("accuracy", "p_irt", "gp_irt", "anchor_mean"):
                table[column] = truth + off
            n = min(chain.n_anchors, 12)
            found.append(Calibration(table, n, 12, 2.0, 1.0, True))
        other = found[1] if options["concurrent"] else None
        yield ChainStep(step, name, 12, n, n * (n_first + step - 1), found[0], other)


def quick_fit(name: str, responses: Responses) -> PointEstimate:
    """Replace `fit_model` without compiling anything."""
    cells = Cells.of(responses)
    own, other = (cells.successes.sum(axis) + 0.5 for axis in (1, 0))
    n, j = cells.trials.shape
    columns = {
        "theta": ("subject", norm.ppf(own / (j + 1))),
        "a": ("item", np.ones(j)),
        "d": ("item", norm.ppf(other / (n + 1))),
    }
    if name == "lart":
        columns |= {"phi": ("item", np.ones(j)), "omega": ("item", cells.x.mean(0))}
        columns |= {"lam": ("item", np.ones(j)), "rho": ((), -0.5)}
    columns["theta_se"] = ("subject", np.full(n, 0.5))
    settings = {"estimator": "made", "link": "probit"}
    names = {"subject": list(responses.subjects), "item": list(responses.items)}
    return PointEstimate(xr.Dataset(columns, names), 0.0, 1, True, "made", np.zeros(2), settings)


def by_logits(responses: Responses) -> PointEstimate:
    """Return logits of means as an estimate."""
    successes, trials = responses.cells.matrices()
    theta, d = (logit((successes.sum(k) + 0.5) / (trials.sum(k) + 1)) for k in (1, 0))
    values = {"theta": ("subject", theta), "a": ("item", np.ones_like(d)), "b": ("item", -d)}
    return PointEstimate(xr.Dataset(values), 0.0, 1, True, "", np.zeros(1), {})


def _lart(**options: Any) -> Study:
    criterion = {name: float(k) for k, name in enumerate(NAMES)}
    return studies.lart_study(
        LART, responses=lart_matrix(), suffixes=SUFFIXES, criterion=criterion, **options
    )


def _calibration(**options: Any) -> Study:
    sizes = [(4, 3), (6, 5)]
    return studies.calibration_study(
        {"at once": draw_at_once}, sizes, 3, design=Design(Priors(), kept=49), **options
    )


STUDIES: dict[str, Callable[..., Study]] = {
    "abilities": lambda **options: studies.abilities_study(ABILITIES, **options),
    "calibration": _calibration,
    "cat": lambda **options: studies.cat_study(CAT, **options),
    "cbmm": lambda **options: studies.cbmm_study(CBMM, **options),
    "fpc": lambda **options: studies.fpc_study(FPC, **options),
    "lart": _lart,
    "sparse": lambda **options: studies.sparse_study(SPARSE, **options),
}
"""Functions that run each study, given a key and running options."""


def at_once(patch: pytest.MonkeyPatch) -> None:
    """Replace the slow parts by quick estimates."""
    for module in (abilities_unseen, abilities_consistency):
        patch.setattr(module, "fit_all", by_shares)
    patch.setattr(cat_module, "draw_items", draw_known)
    patch.setattr(cat_module, "calibrate", lambda model, *_, **__: nearly_known(model, 12))
    patch.setattr(fpc_tasks, "run_chain", made_chain)
    for module in (lart_matrix_tasks, lart_suites):
        patch.setattr(module, "fit_model", quick_fit)
    patch.setattr(lart_suites, "fit_saem", lambda responses, **_: quick_fit("lart", responses))
    patch.setattr(sparse_conditions, "fit_irt", by_logits)


def draw_known(model: str, n_items: int, rng: np.random.Generator) -> Any:
    """Draw the bank of seed 0, whatever the generator."""
    return draw_items(model, n_items, np.random.default_rng(0))
