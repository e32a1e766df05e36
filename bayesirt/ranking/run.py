"""A run: from responses to a ranking."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
from jax import Array

from bayesirt.checks.cut_loss import cut_loss
from bayesirt.checks.fit.fit_check import compile_meanwhile, fit_key, predict_meanwhile
from bayesirt.checks.predictive_gain import MOST_DRAWS, compare_models
from bayesirt.checks.wrong_lengths import WrongLengths, compare_wrong_lengths
from bayesirt.data.connections import refuse_disconnected
from bayesirt.data.responses import Responses
from bayesirt.estimators.lart_em import fit_lart
from bayesirt.estimators.registry import fit_point
from bayesirt.inference.earlier_start import start_from
from bayesirt.inference.engines import plan_engine, sample_posterior
from bayesirt.inference.options import RunOptions
from bayesirt.inference.other_slopes import with_other_slopes
from bayesirt.models import AUTO, Priors, TwoPL
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.progress import fits_shown
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.kept_ranking import ranked
from bayesirt.ranking.length_gain import LengthGain, length_gain
from bayesirt.ranking.linking import check_anchors
from bayesirt.ranking.model_choice import heeding_runs, rank_moves, settled
from bayesirt.ranking.record import DataFacts, Record, diagnostics_of, facts_of, timed, versions
from bayesirt.ranking.settings import Settings


def rank_responses(
    responses: Responses,
    settings: Settings | None = None,
    *,
    data: DataFacts | None = None,
    start: Posterior | None = None,
    check_fit: bool = False,
    progress: bool = False,
    announce: Callable[[str], None] | None = None,
    checkpoint: Path | None = None,
) -> Run:
    """Fit the model and rank the subjects.

    `data` says where the responses are from; by default, from memory.
    `start` is a posterior of the same model of an earlier state of these responses: chains start
    there, except for NUTS, which starts better from the point estimate. With `check_fit`, the part
    of a check of fit that needs no draws is made while chains run. `announce` is called before
    sampling with an estimate of how long it will take. `checkpoint` is a folder in which unfinished
    chains are saved and from which they are resumed.
    """
    data = data or facts_of(responses)
    refuse_disconnected(responses, data.reading.get("facet", ()))
    choice = settings or Settings()
    settings = settled(choice, responses)
    check_anchors(dict(settings.scale), responses.subjects)
    key = jax.random.key(settings.seed)
    extras: dict[str, Any] = {"progress": progress, "announce": announce, "checkpoint": checkpoint}
    options = replace(settings.run_options, budget=settings.budget, **extras)
    plan = partial(plan_engine, settings.engine, responses, options=options)
    method, _ = plan(model=settings.response_model)
    held_out = predict_meanwhile(responses, fit_key(settings.seed)) if check_fit else None
    seconds: dict[str, float] = {}
    with timed(seconds, "point estimate"), fits_shown(progress):
        point = fit_point(responses, settings.point, model=settings.response_model, key=key)
    settings, of_runs = heeding_runs(settings, responses, point, free=choice.model == AUTO)
    if of_runs:
        method, _ = plan(model=settings.response_model)
    # NUTS places items relative to what their own answers say, which a posterior mean does not.
    init = point if start is None or method == "nuts" else start_from(start, point)
    if held_out:
        held_out = compile_meanwhile(held_out, responses, point, settings.response_model.family)
    with timed(seconds, "posterior"):
        posterior, settings, of_slopes = drawn(
            responses, init, settings, options, {"input_sha256": data.sha256}
        )
    lengths = _without_lengths(responses, point, posterior, settings, seconds, progress=progress)
    simpler = {}
    if choice.model != AUTO or settings.response_model.takes == "continuous":
        simpler = _beside_simpler(responses, posterior, settings, seconds, progress=progress)
    with timed(seconds, "ranking"):
        ranking, note = ranked(posterior, settings)
    diagnostics = diagnostics_of(point, posterior) | simpler
    if lengths[1] is not None:
        diagnostics["wrong_lengths"] = asdict(lengths[1].prediction)
    cut = cut_loss(posterior)
    notes = {"scale": note, "slopes": of_slopes, "runs": of_runs, "cut": cut and cut.to_text()}
    diagnostics |= {name: text for name, text in notes.items() if text}
    record = Record(settings, data, versions(), seconds, diagnostics)
    return Run(point, posterior, ranking, record, *lengths, held_out=held_out)


def drawn(
    responses: Responses,
    init: PointEstimate,
    settings: Settings,
    options: RunOptions,
    stamp: Mapping[str, str],
) -> tuple[Posterior, Settings, str]:
    """Draw from the posterior; return it, the settings used, and why others were dropped."""

    def draw(priors: Priors, init: PointEstimate | None = None) -> Posterior:
        return sample_posterior(
            responses,
            key=jax.random.key(settings.seed),
            model=replace(settings, priors=priors).response_model,
            engine=settings.engine,
            init=init,
            options=options,
        ).with_attrs(seed=settings.seed, **stamp)

    posterior = draw(settings.priors, init)
    if not settings.other_slopes:
        return posterior, settings, ""
    posterior, priors, reason = with_other_slopes(posterior, settings.priors, draw)
    return posterior, replace(settings, priors=priors), reason


def _without_lengths(
    responses: Responses,
    point: PointEstimate,
    posterior: Posterior,
    settings: Settings,
    seconds: dict[str, float],
    *,
    progress: bool,
) -> tuple[LengthGain | None, WrongLengths | None]:
    """Return what lengths, and lengths of wrong answers, changed, if the model uses them."""
    gain, wrong, key = None, None, jax.random.key(settings.seed)
    if settings.response_model.lengths:
        with timed(seconds, "without lengths"):
            without = sample_posterior(
                responses,
                key=jax.random.fold_in(key, 1),
                model=TwoPL(Priors(slopes="free"), link="probit"),
                engine="laplace" if posterior.approximate else "blocked",
                init=fit_lart(responses, lengths=False),
                options=replace(settings.run_options, progress=progress, title="without lengths"),
            )
            gain = length_gain(posterior, without)
    if settings.wrong_lengths:
        with timed(seconds, "plain LaRT"):
            plain_key = jax.random.fold_in(key, 2)
            plain = _drawn_again(responses, point, settings, plain_key, progress=progress)
            wrong = compare_wrong_lengths(responses, posterior, plain, seed=settings.seed)
    return gain, wrong


def _beside_simpler(
    responses: Responses,
    posterior: Posterior,
    settings: Settings,
    seconds: dict[str, float],
    *,
    progress: bool,
) -> dict[str, str]:
    """Return whether the model predicts better than its simpler version, if there is one."""
    model = settings.response_model
    if model.simpler is None or not posterior.complete:
        return {}
    other_settings = replace(
        settings,
        model=model.simpler,
        priors=replace(settings.priors, guessing=None),
        draws=min(settings.draws, -(-MOST_DRAWS // settings.chains)),  # no more are used
    )
    simpler = other_settings.response_model
    with timed(seconds, simpler.title):
        key = jax.random.fold_in(jax.random.key(settings.seed), 3)
        other = _drawn_again(responses, None, other_settings, key, progress=progress)
        gain = compare_models(responses, posterior, other, seed=settings.seed)
    text = f"{gain.between(model.title, simpler.title)} {rank_moves(posterior, other)}"
    return {"prediction": text}


def _drawn_again(
    responses: Responses,
    point: PointEstimate | None,
    settings: Settings,
    key: Array,
    *,
    progress: bool,
) -> Posterior:
    """Draw from another model of the same responses, started at a point estimate or its own."""
    return sample_posterior(
        responses,
        key=key,
        model=replace(settings, wrong_lengths=False).response_model,
        engine=settings.engine,
        init=point,
        options=replace(settings.run_options, progress=progress),
    )
