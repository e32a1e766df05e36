"""Draws from the posterior of any model, with a suitable engine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jax

from bayesirt.data.clusters import Clusters, refuse_useless
from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.mirt_start import check_start
from bayesirt.estimators.registry import fit_point
from bayesirt.inference.item_groups import by_group, joined, started_by_group
from bayesirt.inference.laplace import FEW, sample_laplace
from bayesirt.inference.lart_laplace import sample_lart_laplace
from bayesirt.inference.memory import check_memory
from bayesirt.inference.nuts import sample_nuts
from bayesirt.inference.options import RunOptions
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import AUTO, LaRT, Method, Mirt, QMirt, ResponseModel, model_for
from bayesirt.models.q_mirt import Structure
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.random_keys import Key, as_key

Sampler = Callable[..., Posterior]
EngineName = Literal["auto", "nuts", "blocked", "laplace"]

MOST_FOR_BLOCKED = 5_000_000
"""Number of responses beyond which exact draws take hours."""
_TIMES_ON_A_GPU = 20
"""Factor for that number on a GPU, where a sweep is a hundred times as fast."""
_FEWER_WARMUP = 500


@dataclass(frozen=True)
class Engine:
    """A posterior engine."""

    name: Method  # As on the command line.
    sample: Sampler  # (responses, *, key, model, init, options) → Posterior, for any model.
    # Samplers of model types that need a special one.
    own: Mapping[type[ResponseModel], Sampler] = field(default_factory=dict)
    meshes: bool = True  # Whether responses may be sharded over devices.

    def sampler(self, model: ResponseModel) -> Sampler:
        """Return the sampler for a model."""
        return self.own.get(type(model), self.sample)


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("blocked", sample_blocked),
        Engine("nuts", sample_nuts),
        Engine("laplace", sample_laplace, own={LaRT: sample_lart_laplace}, meshes=False),
    )
}


def sample_posterior(
    responses: Responses,
    *,
    key: Key,
    model: str | ResponseModel = AUTO,
    engine: EngineName = "auto",
    init: PointEstimate | None = None,
    options: RunOptions | None = None,
) -> Posterior:
    """Draw from a model's posterior.

    Parameters
    ----------
    responses : Responses
        If they have clusters, abilities are modelled as centred on those of their clusters.
    key : jax.random.key or int
        The same key gives the same draws on the same machine.
    model : ResponseModel, or {"auto", "2pl", "3pl", "graded", "continuous", "normal", "lart"}
        Such as ``TwoPL(Priors(slopes="free"))``.
    engine : {"auto", "nuts", "blocked", "laplace"}
        ``"nuts"`` and ``"blocked"`` are exact; ``"laplace"`` is an approximation. ``"auto"``
        chooses by the size of the data and the model.
    init : PointEstimate, optional
        Starting point, from a fit of the same model; by default `fit_point`.
    options : RunOptions, optional

    Returns
    -------
    Posterior
        After Ctrl-C it holds the draws so far, and its attribute ``complete`` is 0. If there are
        several processes or no draws yet, Ctrl-C raises KeyboardInterrupt instead.

    Raises
    ------
    ResponseError
        If memory does not suffice, the checkpoint is damaged or belongs to another call, the
        posterior has no curvature that Laplace could use, the model needs lengths that are missing,
        or engine, clusters and mesh cannot be combined.

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> options = RunOptions(num_warmup=50, num_samples=20)
    >>> sample_posterior(responses, key=jax.random.key(0), options=options).theta.shape
    (80, 6)
    """
    key = as_key(key)
    options = options or RunOptions()
    model = model_for(responses, model)
    method, reason = plan_engine(engine, responses, model=model, options=options)
    if reason and options.announce is not None and options.speaks:
        options.announce(f"engine {method}, {reason}")
    init = fit_point(responses, model=model) if init is None else init
    sample, column = ENGINES[method].sampler(model), model.priors.groups
    if not column:
        return sample(responses, key=key, model=model, init=init, options=options)
    cut = by_group(responses, column)
    start = started_by_group(init, cut)
    return joined(sample(cut, key=key, model=model, init=start, options=options), responses, column)


def choose_engine(responses: Responses) -> tuple[Method, str]:
    """Choose the engine according to the size of the data.

    Parameters
    ----------
    responses : Responses

    Returns
    -------
    engine : {"blocked", "laplace"}
    reason : str
        Why, as a clause that follows the engine's name.
    """
    n = responses.n_observed
    most = MOST_FOR_BLOCKED * (1 if jax.default_backend() == "cpu" else _TIMES_ON_A_GPU)
    if n <= most:
        return "blocked", f"exact and faster than nuts for {n:,} responses"
    if min(responses.cells.shape) < FEW:
        return "blocked", f"exact, as an approximation needs {FEW} subjects and {FEW} items"
    return "laplace", f"an approximation, as exact draws from {n:,} responses would take hours"


def plan_engine(
    engine: EngineName,
    responses: Responses,
    *,
    model: str | ResponseModel = AUTO,
    options: RunOptions | None = None,
) -> tuple[Method, str]:
    """Return the engine that `sample_posterior` would use, and why; refuse impossible requests."""
    options = options or RunOptions()
    model = model_for(responses, model)
    if model.priors.groups:
        responses = by_group(responses, model.priors.groups)
    several = model.loadings(responses.n_items).n_abilities > 1
    method, reason = "blocked" if engine == "auto" else engine, ""
    if engine == "auto":
        method, reason = choose_engine(responses)
        reason = "" if method == "blocked" and (several or model.lengths) else reason
    if responses.clusters is not None:
        _refuse_clusters(responses.clusters, model)
    if method == "laplace":
        part, refusal = _not_approximated(model, clustered=responses.clusters is not None)
        if part and engine != "auto":
            raise ResponseError(refusal)
        if part:
            method = "blocked"
            hours = f"{responses.n_observed:,} responses take hours"
            reason = f"exact, as there is no approximation for {part}: {hours}"
    if method not in model.engines:
        raise ResponseError(_does_not_draw(method, model))
    if options.mesh is not None and not ENGINES[method].meshes:
        raise ResponseError(f"{method} works on one device; leave mesh out, or use blocked")
    check_memory(method, responses, model=model, options=options)
    return method, reason


def _not_approximated(model: ResponseModel, *, clustered: bool) -> tuple[str, str]:
    """Return the feature that Laplace does not support, if any, and an error message."""
    if model.priors.explains or model.priors.groups:
        part = "covariates of difficulty or ability" if model.priors.explains else "groups of items"
        return part, (
            "laplace supports neither covariates of difficulty or ability nor groups of items, as "
            "a subject answers few items of a group; use blocked or auto"
        )
    if isinstance(model, LaRT) and model.wrong_lengths:
        return "lengths of wrong answers", (
            "laplace does not support different lengths for wrong answers; use blocked, or leave "
            "out --wrong-lengths"
        )
    if clustered and type(model) in ENGINES["laplace"].own:
        return f"clusters in {model.title}", (
            f"laplace does not support clusters of subjects in {model.title}; use blocked, or "
            f"leave the clusters out"
        )
    if "laplace" not in model.engines:
        return f"the {model.title}", _does_not_draw("laplace", model)
    return "", ""


def _does_not_draw(method: str, model: ResponseModel) -> str:
    return f"{method} cannot sample the {model.title}; use {' or '.join(model.engines)}"


def _refuse_clusters(clusters: Clusters, model: ResponseModel) -> None:
    refuse_useless(clusters)
    if model.priors.ability and not model.priors.groups:
        raise ResponseError(
            "clusters of subjects cannot be combined with covariates of ability; pass the column "
            "of clusters as one of --subject-factors, or leave one out"
        )


def sample_q_mirt(
    responses: Responses,
    q: QMatrix,
    *,
    key: Key,
    structure: Structure | None = None,
    **settings: Any,
) -> Posterior:
    """Draw from the posterior of the Q-matrix model.

    Parameters
    ----------
    responses : Responses
    q : QMatrix
        Which abilities each item needs; rows of other items are ignored.
    key : jax.random.key or int
        The same key gives the same draws on the same machine.
    structure : {"correlated", "general", "independent"}, optional
        Correlation structure of the abilities; by default ``"correlated"`` for up to 10 abilities,
        else ``"general"``.
    **settings
        ``engine``, ``init`` and ``options`` as for `sample_posterior`; by default 500 warm-up
        draws.

    Returns
    -------
    Posterior
        ``theta`` over subject and ability; ``a`` over ``loading``, in the order of
        `QMatrix.loadings`. After Ctrl-C it holds the draws so far, and its attribute ``complete``
        is 0.

    Raises
    ------
    ResponseError
        If an item of the responses has no row, memory does not suffice, or the checkpoint is
        damaged or belongs to another call.

    References
    ----------
    Zhang et al. (2026) for the Q-matrix; Gamerman 1997 and Qi & Minka 2002 for the moves.

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> q = QMatrix.from_arrays([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])
    >>> options = RunOptions(num_warmup=50, num_samples=20)
    >>> sample_q_mirt(responses, q, key=jax.random.key(0), options=options).theta.shape
    (80, 6, 2)
    """
    key = as_key(key)
    model = QMirt.of(q.for_items(responses.items), structure)
    return sample_posterior(responses, key=key, model=model, **_fewer_warmup(settings))


def sample_mirt(
    responses: Responses,
    *,
    n_abilities: int,
    key: Key,
    init: PointEstimate | None = None,
    **settings: Any,
) -> Posterior:
    """Draw from the posterior of the exploratory multidimensional 2PL.

    Parameters
    ----------
    responses : Responses
    n_abilities : int
        Number of abilities, K.
    key : jax.random.key or int
        The same key gives the same draws on the same machine.
    init : PointEstimate, optional
        By default `fit_mirt`. Chains start around it, overdispersed by its standard errors. Draws
        are aligned to its axes, which are principal axes.
    **settings
        ``engine`` and ``options`` as for `sample_posterior`; by default 500 warm-up draws.

    Returns
    -------
    Posterior
        ``theta`` over subject and ability, in standard deviations of the population; ``a`` over
        item and ability; ``d``; and the items' population: ``mu_a``, ``precision_a`` (Λ),
        ``mu_d``, ``mu_b`` and ``sigma_d``. Its attribute ``identification`` describes the choice of
        axes. After Ctrl-C it holds the draws so far, and its attribute ``complete`` is 0.

    Raises
    ------
    ResponseError
        If there are not more items than abilities, `init` has other items or subjects or is not
        from `fit_mirt`, the engine is unknown, memory does not suffice, or the checkpoint is
        damaged or belongs to another call.

    Notes
    -----
    Likelihood and prior are invariant to rotations and reflections of the abilities. Each draw's
    slopes, abilities, μ_a and Λ are rotated by the orthogonal matrix that brings its slopes closest
    to the point estimate's (Procrustes); R-hat and effective sample size are computed after the
    rotation. The linear predictors, the lengths |a_j| of slopes and Λ's eigenvalues do not depend
    on the axes. An ability that the items do not need has slopes near 0 and an arbitrary axis.

    References
    ----------
    `bayesirt.models.mirt`; Gamerman 1997; Qi & Minka 2002.

    Examples
    --------
    >>> import jax, numpy as np
    >>> responses = Responses.from_arrays(np.hstack([np.tri(6, 3, -1), 1 - np.tri(6, 3, -1)]))
    >>> options = RunOptions(num_warmup=50, num_samples=20)
    >>> sample_mirt(responses, n_abilities=2, key=jax.random.key(0), options=options).theta.shape
    (80, 6, 2)
    """
    key = as_key(key)
    check_start(responses, n_abilities, init)
    if init is not None and list(map(str, init.parameters["subject"].values)) != list(
        responses.subjects
    ):
        raise ResponseError("`init` is a fit of other subjects; pass a fit of the same responses")
    run_settings = _fewer_warmup(settings)
    return sample_posterior(responses, key=key, model=Mirt(n_abilities), init=init, **run_settings)


def _fewer_warmup(settings: dict[str, Any]) -> dict[str, Any]:
    return {"options": RunOptions(num_warmup=_FEWER_WARMUP), **settings}
