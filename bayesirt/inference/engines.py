"""Draws from the posterior of any model, by the engine that suits the data."""

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
"""Responses beyond which exact draws take hours."""
_TIMES_ON_A_GPU = 20
"""As many more on a GPU, where a sweep is a hundred times as fast."""
_FEWER_WARMUP = 500


@dataclass(frozen=True)
class Engine:
    """A posterior engine."""

    name: Method  # What people type.
    sample: Sampler  # (responses, *, key, model, init, options) → Posterior, of any model.
    # By type of model, what draws from it instead.
    own: Mapping[type[ResponseModel], Sampler] = field(default_factory=dict)
    meshes: bool = True  # Whether responses may be shared out over devices.

    def sampler(self, model: ResponseModel) -> Sampler:
        """Return what draws from a model's posterior."""
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
        With clusters, if subjects' abilities are to lie about those of their clusters.
    key : jax.random.key or int
        The same key gives the same draws on the same machine.
    model : ResponseModel, or {"auto", "2pl", "3pl", "graded", "continuous", "normal", "lart"}
        Such as ``TwoPL(Priors(slopes="free"))``.
    engine : {"auto", "nuts", "blocked", "laplace"}
        ``"nuts"`` and ``"blocked"`` are exact; ``"laplace"`` approximates. ``"auto"`` is
        `plan_engine`'s choice.
    init : PointEstimate, optional
        Where to start, of the same model; by default `fit_point`.
    options : RunOptions, optional

    Returns
    -------
    Posterior
        After Ctrl-C with the draws so far; its attribute ``complete`` is then 0. Where several
        processes work together, Ctrl-C is passed on.

    Raises
    ------
    ResponseError
        If memory will not do, the checkpoint is damaged or belongs to another call, the posterior
        has no curvature that Laplace could use, the model misses lengths, or engine, clusters and
        mesh do not go together.

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
    own = started_by_group(init, cut)
    return joined(sample(cut, key=key, model=model, init=own, options=options), responses, column)


def choose_engine(responses: Responses) -> tuple[Method, str]:
    """Return the engine that suits the size of the data, and why.

    Parameters
    ----------
    responses : Responses

    Returns
    -------
    engine : {"blocked", "laplace"}
    reason : str
        A clause that goes on from the engine's name.
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
    """Return the engine that `sample_posterior` would take; refuse what it could not do."""
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
        what, refusal = _not_approximated(model, clustered=responses.clusters is not None)
        if what and engine != "auto":
            raise ResponseError(refusal)
        if what:
            method, reason = "blocked", f"exact, as nothing approximates {what}"
    if method not in model.engines:
        raise ResponseError(_does_not_draw(method, model))
    if options.mesh is not None and not ENGINES[method].meshes:
        raise ResponseError(f"{method} works on one device; leave mesh out, or ask for blocked")
    check_memory(method, responses, model=model, options=options)
    return method, reason


def _not_approximated(model: ResponseModel, *, clustered: bool) -> tuple[str, str]:
    """Return what keeps a model's posterior from being approximated, if anything, in a sentence."""
    if model.priors.explains or model.priors.groups:
        what = "what explains difficulty or ability" if model.priors.explains else "groups of items"
        return what, (
            "laplace learns neither what explains difficulty or ability nor how groups of items go "
            "together, of which a subject answers few; ask for blocked, or for auto"
        )
    if isinstance(model, LaRT) and model.wrong_lengths:
        return "lengths of wrong answers", (
            "laplace does not give wrong answers lengths of their own; ask for blocked, or leave "
            "out --wrong-lengths"
        )
    if clustered and type(model) in ENGINES["laplace"].own:
        return f"clusters in {model.title}", (
            f"laplace knows no clusters of subjects in {model.title}; ask for blocked, or leave "
            f"the clusters out"
        )
    if "laplace" not in model.engines:
        return f"the {model.title}", _does_not_draw("laplace", model)
    return "", ""


def _does_not_draw(method: str, model: ResponseModel) -> str:
    return f"{method} does not draw from the {model.title}; ask for {' or '.join(model.engines)}"


def _refuse_clusters(clusters: Clusters, model: ResponseModel) -> None:
    refuse_useless(clusters)
    if model.priors.ability and not model.priors.groups:
        raise ResponseError(
            "clusters of subjects do not go together with what explains ability; name the column "
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
    """Draw from the posterior of abilities that items need as a Q-matrix says.

    Parameters
    ----------
    responses : Responses
    q : QMatrix
        Rows of other items are left out.
    key : jax.random.key or int
        The same key gives the same draws on the same machine.
    structure : {"correlated", "general", "independent"}, optional
        How abilities go together; by default `default_structure`.
    **settings
        ``engine``, ``init`` and ``options`` as `sample_posterior` takes them; by default 500
        warm-up draws.

    Returns
    -------
    Posterior
        ``theta`` over subject and ability; ``a`` over ``loading``, in the order of
        `QMatrix.loadings`. After Ctrl-C with the draws so far; its attribute ``complete`` is then
        0.

    Raises
    ------
    ResponseError
        If an item of the responses has no row, memory will not do, or the checkpoint is damaged
        or another's.

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
    """Draw from the posterior of K abilities that every item may need, in the axes of a fit.

    Parameters
    ----------
    responses : Responses
    n_abilities : int
        K.
    key : jax.random.key or int
        The same key gives the same draws on the same machine.
    init : PointEstimate, optional
        By default `fit_mirt`. Chains start around it, overdispersed by its standard errors, and its
        axes, which are principal, are those of the draws.
    **settings
        ``engine`` and ``options`` as `sample_posterior` takes them; by default 500 warm-up draws.

    Returns
    -------
    Posterior
        ``theta`` over subject and ability, in standard deviations of the population; ``a`` over
        item and ability; ``d``; and the items' population: ``mu_a``, ``precision_a`` (Λ),
        ``mu_d``, ``mu_b`` and ``sigma_d``. Its attribute ``identification`` says how the axes were
        chosen. After Ctrl-C with the draws so far; its attribute ``complete`` is then 0.

    Raises
    ------
    ResponseError
        If there are not more items than abilities, `init` is of other items or subjects or not by
        `fit_mirt`, the engine is unknown, memory will not do, or the checkpoint is damaged or
        another's.

    Notes
    -----
    Neither answers nor priors see rotations and reflections of the abilities. Each draw's slopes,
    abilities, μ_a and Λ are turned by the orthogonal matrix that brings its slopes closest to the
    point estimate's (Procrustes), and R-hat and effective draws are of the turned draws. The linear
    predictors, the lengths |a_j| of slopes and Λ's eigenvalues do not depend on the axes. An
    ability that the items do not need has slopes of about 0, and no axis to speak of.

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
        raise ResponseError("`init` is of other subjects; start from a fit of the same responses")
    own = _fewer_warmup(settings)
    return sample_posterior(responses, key=key, model=Mirt(n_abilities), init=init, **own)


def _fewer_warmup(settings: dict[str, Any]) -> dict[str, Any]:
    return {"options": RunOptions(num_warmup=_FEWER_WARMUP), **settings}
