"""What every model of one ability promises; a new one is a row of MODELS."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bayesirt.inference.two_pl_passes import Passes
from bayesirt.inference.two_pl_sites import scaled, shifted
from numpyro.infer.util import potential_energy

from bayesirt import Priors, Responses
from bayesirt.cells import CellList, SparseCells
from bayesirt.cli_options import Model
from bayesirt.errors import ResponseError
from bayesirt.inference.cluster_moves import two_pl_prior
from bayesirt.inference.engines import plan_engine, sample_posterior
from bayesirt.inference.row_shards import share_rows
from bayesirt.likelihood import layout_of, log_likelihood_of
from bayesirt.models import MODELS, ResponseModel, three_pl_model, two_pl_model
from bayesirt.models.response_model import model_named

OF_ANSWERS = [model for model in MODELS.values() if not model.lengths]
TEXTS = {"2pl": two_pl_model, "3pl": three_pl_model}
each_model = pytest.mark.parametrize("model", OF_ANSWERS, ids=lambda model: model.name)
each_layout = pytest.mark.parametrize("layout", ["dense", "sparse", "shards"])


def some(n_subjects: int = 9, n_items: int = 6) -> tuple[Responses, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    trials = rng.integers(0, 4, (n_subjects, n_items)).astype(np.int8)
    trials[:, 0] = trials[0] = 2
    successes = rng.binomial(trials, 0.6).astype(np.int8)
    return Responses.from_arrays(successes, trials), successes, trials


def laid_out(kind: str):
    responses, successes, trials = some()
    if kind == "shards":
        return share_rows(responses, jax.make_mesh((2,), ("rows",), devices=jax.devices()[:2]))
    if kind == "dense":
        return layout_of(responses)
    subject, item = np.nonzero(trials)
    cells = CellList(subject, item, successes[subject, item], trials[subject, item])
    return layout_of(
        Responses(responses.subjects, responses.items, SparseCells(*trials.shape, cells))
    )


def some_sites(model: ResponseModel, priors: Priors | None = None) -> dict[str, jax.Array]:
    """Return the model's unconstrained sites at places that are not special."""
    rng, priors = np.random.default_rng(5), priors or Priors()
    names = ["mu_a", "sigma_a", "mu_d", "mu_b", "sigma_d"]
    names += [f"{kind}_{name}" for name in model.learned(priors) for kind in ("mu", "sigma")]
    sites = {name: jnp.asarray(0.3 * rng.normal()) for name in names}
    for name in ("a", "d", *model.learned(priors)):
        sites[name] = jnp.asarray(0.5 * rng.normal(size=6))
    return sites | {"theta": jnp.asarray(rng.normal(size=9))}


@each_model
def test_engines_and_text_have_the_same_density(model):
    """Up to a constant, so differences between two places are compared."""
    _, successes, trials = some()
    prior, sites = two_pl_prior(Priors(), (), model), some_sites(model)
    answers = log_likelihood_of(laid_out("dense"), model.family)

    @jax.jit
    def away(at):
        terms = prior.terms(at)
        text = -potential_energy(TEXTS[model.name], (trials, successes), {}, at)
        return terms.total() + answers(*terms.returned) - text

    one, other = (away({name: x + k for name, x in sites.items()}) for k in (0.0, 0.7))
    assert float(one) == pytest.approx(float(other), abs=1e-8)


@each_layout
@each_model
def test_sums_over_a_margin_are_derivatives_in_every_layout(model, layout):
    prior, sites = two_pl_prior(Priors(), (), model), some_sites(model)
    dense, own = laid_out("dense"), laid_out(layout)

    @jax.jit
    def found(sites):
        items, theta = prior.coefficients(sites, prior.packed(sites)), sites["theta"]
        passes = Passes(own, model.family, jnp.float64)
        score = jax.grad(log_likelihood_of(dense, model.family), range(1 + items.shape[1]))
        sums = passes.item_sums(theta, items), passes.subject_sums(theta, *items.T)
        return sums, score(theta, *items.T)

    (of_items, of_subjects), (by_theta, *by_items) = found(sites)
    np.testing.assert_allclose(of_subjects.score, by_theta, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(of_items.score.T, by_items, rtol=1e-9, atol=1e-10)
    assert (np.linalg.eigvalsh(of_items.information) > -1e-9).all()


@each_model
def test_what_no_answer_sees_leaves_the_items_prior_as_it_is(model):
    """Along the level of abilities, hyperparameters carry the items' own prior along."""
    prior, sites = two_pl_prior(Priors(), (), model), some_sites(model)
    before = prior.terms(sites)
    for line in (shifted, scaled):
        after = jax.jit(lambda sites, line=line: prior.terms(line(prior, sites, 0.4)[0]))(sites)
        for name in ("a", "d", *model.learned(Priors())):
            np.testing.assert_allclose(after.each[name], before.each[name], rtol=1e-9)
        eta = [t.values["theta"][:, None] * t.values["a"] + t.values["d"] for t in (before, after)]
        np.testing.assert_allclose(*eta, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:laplace. a normal approximation is rough")
@each_model
def test_each_engine_draws(model):
    draws = {"num_warmup": 2, "num_samples": 3, "num_chains": 1, "key": jax.random.key(0)}
    for engine in model.engines:
        posterior = sample_posterior(some()[0], engine=engine, **draws, model=model.name)
        assert posterior.tree.attrs["model"] == model.title
        assert posterior.link == model.family.name
        assert {*posterior.further} <= {str(name) for name in posterior.dataset}


@each_model
def test_other_engines_are_refused_in_a_sentence(model):
    for engine in {"blocked", "nuts", "laplace"} - set(model.engines):
        with pytest.raises(ResponseError, match=f"{engine} does not draw from the {model.title}"):
            sample_posterior(some()[0], key=jax.random.key(0), engine=engine, model=model.name)


def test_an_engine_that_would_not_do_is_not_chosen(monkeypatch):
    monkeypatch.setattr("bayesirt.inference.engines.MOST_FOR_BLOCKED", 1)
    monkeypatch.setattr("bayesirt.inference.engines.FEW", 2)
    size = {"num_chains": 2, "num_samples": 10}
    responses = some()[0]
    assert plan_engine("auto", responses, model="2pl", **size)[0] == "laplace"
    assert plan_engine("auto", responses, model="3pl", **size)[0] == "blocked"


def test_guessing_may_be_fixed():
    priors = Priors(guessing=0.25)
    prior, sites = two_pl_prior(priors, (), MODELS["3pl"]), some_sites(MODELS["3pl"], priors)
    terms = prior.terms(sites)
    np.testing.assert_array_equal(terms.values["c"], 0.25)
    assert "mu_c" not in terms.values
    np.testing.assert_array_equal(prior.coefficients(sites, prior.packed(sites))[:, 2], 0.25)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Priors(guessing=25.0), "between 0 and 1, such as 0.25 with four options, got 25"),
        (lambda: Priors(guessing=float("nan")), "between 0 and 1"),
        (lambda: model_named("4pl"), "there is no model '4pl'; take 2pl, 3pl, lart"),
        (
            lambda: sample_posterior(
                some()[0], key=jax.random.key(0), model=TwoPL(Priors(guessing=0.25))
            ),
            "guessing is a part of the 3pl, not of 2pl",
        ),
    ],
)
def test_bad_choices_are_refused_in_a_sentence(wrong, said):
    with pytest.raises(ResponseError, match=said):
        wrong()


def test_the_command_line_offers_these_models():
    assert [model.value for model in Model] == list(MODELS)
