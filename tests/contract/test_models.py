"""Contract of every response model; add new models to `ROWS`."""

from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from lart_data import with_lengths
from lart_prior import log_lengths
from numpyro.distributions import biject_to, constraints
from numpyro.handlers import seed, trace
from numpyro.infer.util import potential_energy
from small_data import as_sparse

from bayesirt import Priors, QMatrix, Responses
from bayesirt.cli.options import Model
from bayesirt.data.clusters import Clusters
from bayesirt.data.scales import Scale
from bayesirt.errors import ResponseError
from bayesirt.inference.engines import ENGINES, plan_engine, sample_posterior
from bayesirt.inference.moves import carried
from bayesirt.inference.options import RunOptions
from bayesirt.inference.start_coordinates import FromMoments, StartCoordinates
from bayesirt.inference.ways import way_of
from bayesirt.models import (
    AUTO,
    MODELS,
    RANKED,
    Continuous,
    Graded,
    LaRT,
    Mirt,
    Normal,
    QMirt,
    Repeats,
    ResponseModel,
    ThreePL,
    TwoPL,
    model_named,
)

N, J = 9, 6
Q = QMatrix.from_arrays([[1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 1, 0], [1, 1, 0], [1, 0, 1]])
ROWS: dict[str, ResponseModel] = {
    "2pl": TwoPL(),
    "2pl free": TwoPL(Priors(slopes="free")),
    "2pl rasch": TwoPL(Priors(slopes="rasch")),
    "2pl fixed": TwoPL(Priors(kind="fixed")),
    "3pl": ThreePL(),
    "3pl guessing": ThreePL(Priors(slopes="free", guessing=0.25)),
    "repeats": Repeats(),
    "graded": Graded(n=3),
    "graded free": Graded(Priors(slopes="free"), n=3),
    "graded rasch": Graded(Priors(slopes="rasch"), n=3),
    "continuous": Continuous(),
    "continuous rasch": Continuous(Priors(slopes="rasch")),
    "normal": Normal(),
    "normal free": Normal(Priors(slopes="free")),
    "lart": LaRT(),
    "lart wrong": LaRT(link="logit", wrong_lengths=True),
    "mirt": Mirt(2),
    "q_mirt": QMirt.of(Q, "correlated"),
    "q_mirt general": QMirt.of(Q, "general"),
}
ONE_EACH = [*{model.name: name for name, model in reversed(ROWS.items())}.values()]
"""The first row of each model; oracle and Geweke tests draw with the other options."""
QUICK = ("2pl", "graded", "lart", "q_mirt")
"""One row for each form of predictors: one, several thresholds, lengths, several abilities."""
LAYOUTS = ("dense", "sparse", "shards")
T = 0.4

each_row = pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ROWS],
)
each_model = pytest.mark.parametrize("name", MODELS)
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


@cache
def some() -> Responses:
    """Return counts with missing cells, and lengths with further cells missing."""
    rng = np.random.default_rng(3)
    trials = rng.integers(0, 4, (N, J)).astype(np.int8)
    trials[:, 0] = trials[0] = 2
    successes = rng.binomial(trials, 0.6).astype(np.int8)
    x = 5 + rng.normal(size=trials.shape)
    x[rng.uniform(size=x.shape) < 0.2] = np.nan
    return with_lengths(Responses.from_arrays(successes, trials), x)


@cache
def some_of(kind: str) -> Responses:
    """Return answers of the given kind, with missing cells."""
    if kind == "binary":
        return some()
    scale = Scale(kind, ("0", "1", "2", "3") if kind == "graded" else ())
    rng, trials = np.random.default_rng(3), np.minimum(some().cells.matrices()[1], 1).astype(int)
    score = np.clip(rng.normal(0.5, 0.4, trials.shape), 0, 1)
    own = np.rint(scale.steps * score).astype(int)
    if kind == "continuous":
        own[1, :2] = 1, scale.steps - 1  # one step from the ends
    own = own * trials
    return replace(Responses.from_arrays(own, scale.steps * trials), scale=scale)


def mesh_of_two() -> jax.sharding.Mesh:
    return jax.make_mesh((2,), ("rows",), devices=jax.devices()[:2])


def laid_out(kind: str, way: Any) -> Any:
    responses = some_of(way.model.takes)
    responses = as_sparse(responses) if kind == "sparse" else responses
    return way.data(responses, mesh_of_two() if kind == "shards" else None)


def some_sites(model: ResponseModel) -> dict[str, np.ndarray]:
    """Return generic values of the model's unconstrained sites."""
    rng, supports = np.random.default_rng(5), {}

    def unconstrained() -> dict[str, jax.Array]:
        drawn = trace(seed(model.parameters, 0)).get_trace(N, J)
        free = {k: x for k, x in drawn.items() if x["type"] == "sample" and not x["is_observed"]}
        supports.update({k: x["fn"].support for k, x in free.items()})
        return {k: biject_to(supports[k]).inv(x["value"]) for k, x in free.items()}

    shapes = jax.eval_shape(unconstrained)
    sites = {k: 0.5 * rng.normal(size=shapes[k].shape) for k in supports}
    for name in {"a", "phi"} & {*sites}:
        if supports[name] is constraints.real:
            sites[name] += 0.5  # their sum fixes the direction of the scale
    return sites


class Line(NamedTuple):
    """Results of moving by T along one of a model's lines."""

    there: Any
    back: Any
    terms: Any
    coefficients: jax.Array
    log_likelihood: jax.Array
    log_jacobian: jax.Array
    jacobian: jax.Array


def at_moments(way: Any, sites: Any) -> list[Any]:
    """Return the Jacobian of NUTS's coordinates at two points, and the log Jacobian they report."""
    around = StartCoordinates.of((sites, {name: np.ones_like(x) for name, x in sites.items()}))
    stretch = {x.name: jnp.full(x.shape, 1.5) for x in way.model.lines}
    spreads = {x.name: jnp.array(0.1) for x in way.model.lines if not x.normal}
    moments = FromMoments(around, stretch, spreads)

    def there(flat: jax.Array) -> tuple[jax.Array, jax.Array]:
        found, log_jacobian = moments.at(flat, way)
        return ravel_pytree(found)[0], log_jacobian

    places = 0.5 * np.random.default_rng(6).normal(size=(2, moments.size))
    return [jax.jit(jax.jacfwd(there, has_aux=True))(x) for x in places]


@cache
def facts(name: str) -> dict[str, Any]:
    """Return everything that the tests check; a few small programs compile faster than one."""
    model = ROWS[name]
    way, sites = way_of(model), some_sites(model)
    data = {kind: laid_out(kind, way) for kind in LAYOUTS}
    lengths = {"log_latency": log_lengths(some())} if model.lengths else {}
    text = partial(model, **lengths)

    def density(at: Any, data: Any) -> jax.Array:
        terms = way.terms(at)
        return terms.total() + way.log_likelihood(terms.values, data)

    def answers(theta: jax.Array, coefficients: jax.Array) -> jax.Array:
        needs, own = way.loadings(sites), coefficients[:, : way.loadings(sites).width]
        d, *further = coefficients[:, own.shape[1] :].T
        eta = theta @ needs.slopes(own).T + d
        successes, trials = some_of(model.takes).cells.matrices()
        terms = model.family.every(eta, successes, trials, *further)
        return terms.log_likelihood.sum()

    def line(line: Any, sites: Any) -> Line:
        flat, unravel = ravel_pytree(sites)
        t = T * (1 + jnp.arange(np.prod(line.shape, dtype=int)).reshape(line.shape))
        there, log_jacobian = way.along(line, sites, t)
        terms = way.terms(there)

        def along(flat: jax.Array) -> jax.Array:
            return ravel_pytree(way.along(line, unravel(flat), t)[0])[0]

        back = way.along(line, there, -t)[0]
        seen = way.log_likelihood(terms.values, data["dense"])
        own = way.coefficients_of(there)
        return Line(there, back, terms, own, seen, log_jacobian, jax.jacfwd(along)(flat))

    def carry(sites: Any) -> Any:
        flat, unravel = ravel_pytree(sites)

        def moved(flat: jax.Array) -> tuple[Any, jax.Array]:
            sites = unravel(flat)
            hyper = jnp.stack([sites[x] for x in way.hyper_sites(sites)])
            return carried(way, sites, hyper + T * jnp.arange(1, 1 + len(hyper)))

        there, log_jacobian = moved(flat)
        jacobian = jax.jacfwd(lambda x: ravel_pytree(moved(x)[0])[0])(flat)
        after, before = way.terms(there).each, way.terms(sites).each
        hyper = way.hyper_sites(sites)
        rest = jnp.stack([(before[x] - after[x]).sum() for x in after if x not in hyper])
        return log_jacobian, jacobian, rest.sum()

    def sums(sites: Any, data: Any) -> tuple[Any, Any]:
        passes = way.passes(data, sites, jnp.float64)
        at = way.theta(sites), way.coefficients_of(sites)
        return passes.item_sums(*at), passes.subject_sums(*at)

    def here(sites: Any) -> dict[str, Any]:
        theta, items, terms = way.theta(sites), way.coefficients_of(sites), way.terms(sites)
        return {
            "scores": jax.grad(answers, (0, 1))(theta, items),
            "terms": terms,
            "coefficients": items,
            "theta": theta,
            "log_likelihood": way.log_likelihood(terms.values, data["dense"]),
        }

    trials, successes = (x.astype(int) for x in some_of(model.takes).cells.matrices()[::-1])
    given = {"trials": trials, "successes": successes}
    in_words = jax.jit(jax.value_and_grad(lambda at: -potential_energy(text, (), given, at)))
    with_slopes, plain = jax.jit(jax.value_and_grad(density)), jax.jit(density)
    places = sites, {name: x + 0.7 for name, x in sites.items()}
    own = {kind: [plain(at, x) for at in places] for kind, x in data.items() if kind != "dense"}
    by_engine, by_text = (
        [f(at, *more) for at in places] for f, *more in ((with_slopes, data["dense"]), (in_words,))
    )
    of_items, of_subjects = {}, {}
    for kind, x in data.items():
        of_items[kind], of_subjects[kind] = jax.jit(sums)(sites, x)
    found = jax.jit(here)(sites) | {
        "own": own | {"dense": [value for value, _ in by_engine]},
        "text": [value for value, _ in by_text],
        "slopes": [[slope for _, slope in x] for x in (by_engine, by_text)],
        "items": of_items,
        "subjects": of_subjects,
        "lines": {x.name: jax.jit(partial(line, x))(sites) for x in model.lines},
        "carried": jax.jit(carry)(sites) if way.interweaves else None,
        "at_moments": at_moments(way, sites),
    }
    return {"way": way, "model": model, "sites": sites, **jax.device_get(found)}


@each_row
def test_engines_and_text_have_the_same_density_in_every_layout(name):
    """Compare differences between two points, because densities agree up to a constant."""
    found = facts(name)
    one, other = found["text"]
    assert np.isfinite([one, other]).all()
    for own in found["own"].values():
        assert float(own[1] - own[0]) == pytest.approx(float(other - one), rel=1e-10, abs=1e-8)
    for own, in_words in zip(*found["slopes"], strict=True):
        for site, slope in own.items():
            np.testing.assert_allclose(slope, in_words[site], rtol=1e-7, atol=1e-7)


@each_row
def test_sums_over_a_margin_are_derivatives_in_every_layout(name):
    found = facts(name)
    by_theta, by_items = found["scores"]
    for layout in LAYOUTS:
        of_items, of_subjects = found["items"][layout], found["subjects"][layout]
        np.testing.assert_allclose(of_subjects.score, by_theta, rtol=1e-9, atol=1e-10)
        moved = of_items.score.shape[1]  # further predictors may have their own moves
        np.testing.assert_allclose(of_items.score, by_items[:, :moved], rtol=1e-9, atol=1e-10)
        assert (np.linalg.eigvalsh(of_items.information) > -1e-9).all()
        assert (np.linalg.eigvalsh(of_subjects.information) > -1e-9).all()


@each_row
def test_lines_leave_predictors_and_the_items_prior_as_they_are(name):
    """Hyperparameters move with the items, so their standardised prior density stays the same."""
    found = facts(name)
    before, way = found["terms"], found["way"]
    for line in found["lines"].values():
        after, there = line.terms, line.there
        assert float(line.log_likelihood) == pytest.approx(
            float(found["log_likelihood"]), rel=1e-10
        )
        eta = [
            predictors(way, *x)
            for x in (
                (found["theta"], found["coefficients"]),
                (way.theta(there), line.coefficients),
            )
        ]
        np.testing.assert_allclose(*eta, rtol=1e-9, atol=1e-12)
        for site in way.populations(found["sites"]):
            own = [x.each[site] + np.log(x.spreads[site]) for x in (before, after)]
            np.testing.assert_allclose(*own, rtol=1e-9)


def predictors(way: Any, theta: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return η of every cell, followed by the items' further predictors as rows."""
    needs = way.loadings({"d": coefficients})
    own = needs.slopes(coefficients[:, : needs.width])
    d, *further = coefficients[:, needs.width :].T
    return np.concatenate([theta @ np.asarray(own).T + d, *(x[None] for x in further)])


@each_row
def test_lines_know_their_jacobian_and_their_way_back(name):
    found = facts(name)
    for line in found["lines"].values():
        sign, log_volume = np.linalg.slogdet(line.jacobian)
        assert sign == 1
        assert float(line.log_jacobian) == pytest.approx(log_volume, abs=1e-10)
        assert set(line.back) == set(found["sites"])
        assert any(np.abs(line.there[x] - v).max() > 0.1 for x, v in found["sites"].items())
        for site, value in found["sites"].items():
            np.testing.assert_allclose(line.back[site], value, atol=1e-12)


@each_row
def test_coordinates_of_nuts_know_their_jacobian_up_to_a_constant(name):
    (one, at_one), (other, at_other) = facts(name)["at_moments"]
    volumes = [np.linalg.slogdet(x)[1] for x in (one, other)]
    assert float(at_other - at_one) == pytest.approx(volumes[1] - volumes[0], abs=1e-9)


@each_row
def test_hyperparameters_carry_items_whose_prior_changes_by_their_volume(name):
    found = facts(name)
    if found["carried"] is None:
        pytest.skip("items are not carried along")
    log_jacobian, jacobian, left_out = found["carried"]
    sign, log_volume = np.linalg.slogdet(jacobian)
    assert sign == 1
    assert float(log_jacobian) == pytest.approx(log_volume, abs=1e-10)
    assert float(left_out) == pytest.approx(log_volume, abs=1e-9)  # the loss in the items' prior


def test_every_model_is_held_to_this():
    assert {type(model) for model in ROWS.values()} == set(MODELS.values())
    assert all(MODELS[name].name == name for name in MODELS)


def a_row_of(name: str) -> ResponseModel:
    return next(model for model in ROWS.values() if model.name == name)


@each_row
def test_engines_are_those_that_the_model_names(name):
    model = ROWS[name]
    able = {x.name for x in ENGINES.values() if x.own.get(type(model), x.sample)}
    several = model.loadings(1).n_abilities > 1
    assert able - {*model.engines} == ({"laplace"} if several or name == "lart wrong" else set())
    assert {*model.engines} <= able


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:laplace. a normal approximation is rough")
@pytest.mark.parametrize("name", [x for x in ONE_EACH if x not in ("lart", "mirt", "q_mirt")])
def test_each_engine_draws(name):
    """Cluster the subjects wherever the engine supports it; other tests draw without clusters.

    `oracle/test_cluster_engines.py` covers the models that are left out here.
    """
    model, options = ROWS[name], RunOptions(num_chains=1, num_warmup=2, num_samples=3)
    clusters = Clusters(("x", "y"), tuple(k % 2 for k in range(N)))
    clustered = replace(some_of(model.takes), clusters=clusters)
    for engine in model.engines:
        knows = type(model) not in ENGINES[engine].own
        responses = clustered if knows else some_of(model.takes)
        posterior = sample_posterior(responses, key=0, model=model, engine=engine, options=options)
        assert posterior.tree.attrs["model"] == model.title
        assert posterior.tree.attrs["engine"] == engine
        assert posterior.link == model.family.name
        assert posterior.theta.shape[:2] == (3, N)
        assert {*posterior.further} <= {str(name) for name in posterior.dataset}
        assert all(np.isfinite(values).all() for values in posterior.dataset.values())
        if knows:
            assert posterior.draws("gamma").shape == (3, 2, *posterior.theta.shape[2:])
            assert posterior.dataset["gamma"].dims[2] == "cluster"


@each_model
def test_other_engines_are_refused_in_a_sentence(name):
    model = a_row_of(name)
    for engine in {*ENGINES, "gibbs"} - set(model.engines):
        with pytest.raises(ResponseError, match=f"{engine} cannot sample the {model.title}"):
            sample_posterior(
                some_of(model.takes), key=jax.random.key(0), model=model, engine=engine
            )


def test_an_engine_that_would_not_do_is_not_chosen(monkeypatch):
    monkeypatch.setattr("bayesirt.inference.engines.MOST_FOR_BLOCKED", 1)
    monkeypatch.setattr("bayesirt.inference.engines.FEW", 2)
    options = RunOptions(num_chains=2, num_samples=10)
    assert plan_engine("auto", some(), model="2pl", options=options)[0] == "laplace"
    fixed = ThreePL(Priors(kind="fixed"))
    assert plan_engine("auto", some(), model=fixed, options=options)[0] == "blocked"


@pytest.mark.slow
def test_guessing_may_be_fixed():
    found = facts("3pl guessing")
    np.testing.assert_array_equal(found["terms"].values["c"], 0.25)
    assert "mu_c" not in found["terms"].values
    np.testing.assert_array_equal(found["coefficients"][:, 2], 0.25)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Priors(guessing=25.0), "between 0 and 1, such as 0.25 with four options, got 25"),
        (lambda: Priors(guessing=float("nan")), "between 0 and 1"),
        (
            lambda: model_named("4pl"),
            "there is no model '4pl' of one ability; use 2pl, 3pl, repeats, graded, continuous",
        ),
        (
            lambda: sample_posterior(
                some(), key=jax.random.key(0), model=TwoPL(Priors(guessing=0.25))
            ),
            "guessing is part of the 3pl, not of 2pl",
        ),
    ],
)
def test_bad_choices_are_refused_in_a_sentence(wrong, said):
    with pytest.raises(ResponseError, match=said):
        wrong()


def test_the_command_line_offers_the_models_of_one_ability():
    assert [model.value for model in Model] == [AUTO, *RANKED, "mirt"]


def test_every_model_has_its_sentences_for_reports():
    chosen = {name: MODELS[name].chosen(Priors()) for name in RANKED}
    assert all(MODELS[name].meaning for name in MODELS)
    assert all(model.covers for model in chosen.values() if "laplace" in model.engines)
