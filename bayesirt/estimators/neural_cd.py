"""NeuralCD: fine-grained abilities by a monotone neural network (Zhang et al., 2026).

It has neither a parsimonious likelihood nor standard errors; it is included for comparison.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import xarray as xr
from jax.nn import sigmoid
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.neural_network import (
    Batch,
    Layer,
    NetworkParameters,
    batch_loss,
    first_parameters,
    interaction,
    logit_right,
)
from bayesirt.estimators.parameter_table import in_64_bits
from bayesirt.names import one_line
from bayesirt.random_keys import Key, as_key

UNSEEN_DIFFICULTY, UNSEEN_DISCRIMINATION = 0.5, 1.0
"""Values for items without responses (Zhang et al., 2026, section 3.4)."""


@dataclass(frozen=True)
class Training:
    """Training options of `fit_neural_cd`."""

    hidden: tuple[int, ...] = (256, 1024, 128)
    dropout: float = 0.0
    learning_rate: float = 0.001
    decay: float = 0.8
    decay_epochs: int = 5
    batch_size: int = 256
    epochs: int = 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"`hidden` must hold positive widths, got {self.hidden}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be a share in [0, 1), got {self.dropout}")
        for name in ("learning_rate", "decay"):
            if not (np.isfinite(rate := getattr(self, name)) and rate > 0):
                raise ValueError(f"`{name}` must be positive, got {rate}")
        for name in ("batch_size", "epochs", "decay_epochs"):
            if (count := getattr(self, name)) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {count}")


@dataclass(frozen=True, eq=False, repr=False)
class NeuralDiagnosis:
    """A trained network and the abilities that it estimates."""

    # ``proficiency`` over subject and ability, ``difficulty`` over item and ability and
    # ``discrimination`` over item, all in [0, 1].
    parameters: xr.Dataset
    # Layers of the network, from the interaction of abilities and item to the answer.
    layers: tuple[Layer, ...]
    # shape (epoch,). Mean cross-entropy per trial of each epoch, with dropout.
    trace: NDArray[np.float64]
    settings: Mapping[str, Any]  # The estimator's name and its options, JSON-ready.

    def __repr__(self) -> str:
        return f"<NeuralDiagnosis: {self.to_text()}>"

    @property
    def abilities(self) -> NDArray[np.float64]:
        """Abilities in [0, 1], shape (subject, ability)."""
        return self.parameters["proficiency"].to_numpy()

    @property
    def summary(self) -> pd.DataFrame:
        """Abilities as a table with subjects in rows."""
        table: pd.DataFrame = self.parameters["proficiency"].to_pandas()
        return table

    def to_text(self) -> str:
        """Return a short description of the training."""
        n_subjects, n_abilities = self.parameters["proficiency"].shape
        return (
            f"{n_abilities} abilities of {n_subjects} subjects after {len(self.trace)} epochs, "
            f"cross-entropy {self.trace[-1]:.4f} per trial"
        )

    def predict(
        self,
        q_rows: ArrayLike,
        subjects: Sequence[str] | None = None,
        *,
        difficulty: ArrayLike = UNSEEN_DIFFICULTY,
        discrimination: ArrayLike = UNSEEN_DISCRIMINATION,
    ) -> NDArray[np.float64]:
        """Return probabilities of right answers to items with the given rows of the Q-matrix."""
        needs = np.atleast_2d(np.asarray(q_rows, np.float32))
        n_abilities = self.abilities.shape[1]
        if needs.ndim != 2 or needs.shape[1] != n_abilities:
            raise ResponseError(
                f"rows of the Q-matrix have {n_abilities} abilities, but the array has shape "
                f"{needs.shape}; give one value for each ability"
            )
        if not np.isin(needs, (0, 1)).all():
            raise ResponseError("rows of the Q-matrix must hold only 0 and 1; correct the others")
        known = [str(name) for name in self.parameters["subject"].values]
        chosen = known if subjects is None else list(subjects)
        unknown = next((name for name in chosen if name not in set(known)), None)
        if unknown is not None:
            raise ResponseError(
                f"subject {one_line(unknown)!r} is not among the responses; name one that is"
            )
        ability = self.parameters["proficiency"].sel(subject=chosen).to_numpy()
        of_rows = (
            np.broadcast_to(np.asarray(x, np.float32), shape)
            for x, shape in ((difficulty, needs.shape), (discrimination, needs.shape[:1]))
        )
        probabilities = _PROBABILITIES(self.layers, ability.astype(np.float32), needs, *of_rows)
        return np.asarray(probabilities, np.float64)


def fit_neural_cd(
    responses: Responses,
    q: QMatrix,
    *,
    key: Key,
    **training: Any,
) -> NeuralDiagnosis:
    """Train NeuralCD.

    Parameters
    ----------
    responses : Responses
    q : QMatrix
        Which abilities each item needs; rows of other items are ignored.
    key : jax.random.key or int
        The same key gives the same network on the same machine.

    Other Parameters
    ----------------
    hidden : tuple of int
        Widths of the hidden layers, by default 256, 1024 and 128.
    dropout : float
        Share of hidden units, in [0, 1), that are dropped in each batch; by default 0.
    learning_rate : float
        Learning rate of Adam in the first epoch; by default .001.
    decay : float
        Factor applied to the learning rate after each `decay_epochs` epochs; by default .8 after 5.
    decay_epochs : int
    batch_size : int
        Responses in a batch, by default 256.
    epochs : int
        Passes over all responses, by default 20.

    Returns
    -------
    NeuralDiagnosis

    Raises
    ------
    ResponseError
        If an item has no row in the Q-matrix.
    ValueError
        If an option is out of range.

    Notes
    -----
    Widths, rate, decay and batch size are those of Zhang et al. (2026), which like the published
    implementation has discriminations in [0, 1]. The paper does not give the unit of the decay or
    the number of epochs. The published implementation drops half of the units; at these widths and
    rates, that noise exceeds what is learned in a few dozen epochs. Initial values differ too (see
    `first_parameters`). All computations are in 32 bits.

    References
    ----------
    Zhang et al. (2026), equations (1) and (2), sections 2.4, 3.1 and 3.4; Wang et al. 2023.

    Examples
    --------
    >>> import jax, numpy as np
    >>> q = QMatrix.from_arrays([[1, 0], [0, 1], [1, 1]])
    >>> answers = Responses.from_arrays(np.tri(6, 3))
    >>> found = fit_neural_cd(answers, q, key=jax.random.key(0), hidden=(4, 4), epochs=2)
    >>> found.predict([[1, 1]]).shape
    (6, 1)
    """
    key = as_key(key)
    plan = Training(**training)
    q = q.for_items(responses.items)
    cells = responses.cells.listed()
    needs = jnp.asarray(q.needs, jnp.float32)
    start_key, run_key = jax.random.split(key)
    length = -(-len(cells.trials) // plan.batch_size) * plan.batch_size
    rows = Batch(*(_filled(column, length) for column in cells))
    parameters = first_parameters(
        start_key, responses.n_subjects, responses.n_items, q.n_abilities, plan.hidden
    )
    trained, trace = _train(plan, needs, rows, parameters, jax.random.split(run_key, plan.epochs))
    settings = {"estimator": "neural_cd", **asdict(plan), "hidden": list(plan.hidden)}
    table = _table(responses, q, trained)
    return NeuralDiagnosis(table, trained.layers, np.asarray(trace, np.float64), settings)


def _filled(column: NDArray[np.integer], length: int) -> Array:
    """Return a column of cells padded with zeros; cells without trials have no effect."""
    return jnp.asarray(np.pad(column.astype(np.int32), (0, length - len(column))))


@partial(jax.jit, static_argnums=0)
def _train(
    plan: Training,
    needs: Float[Array, "item ability"],
    rows: Batch,
    parameters: NetworkParameters,
    keys: Array,
) -> tuple[NetworkParameters, Float[Array, " epoch"]]:
    """Return trained parameters and the mean loss of each epoch."""
    n_batches, dropout = len(rows.trials) // plan.batch_size, plan.dropout
    n_steps = plan.decay_epochs * n_batches
    rates = optax.exponential_decay(plan.learning_rate, n_steps, plan.decay, staircase=True)
    adam = optax.adam(rates)

    def step(state: tuple[Any, Any], chance: tuple[Batch, Array]) -> tuple[tuple[Any, Any], Array]:
        parameters, moments = state
        batch, key = chance
        loss, gradient = jax.value_and_grad(batch_loss)(parameters, needs, batch, dropout, key)
        updates, moments = adam.update(gradient, moments)
        n_trials = batch.trials.sum()
        return (optax.apply_updates(parameters, updates), moments), jnp.stack(
            [loss * n_trials, n_trials.astype(loss.dtype)]
        )

    def epoch(state: tuple[Any, Any], key: Array) -> tuple[tuple[Any, Any], Array]:
        order_key, dropout_key = jax.random.split(key)
        order = jax.random.permutation(order_key, len(rows.trials))
        batches = Batch(*(column[order].reshape(n_batches, -1) for column in rows))
        state, sums = jax.lax.scan(step, state, (batches, jax.random.split(dropout_key, n_batches)))
        total, n_trials = sums.sum(0)
        return state, total / n_trials

    (parameters, _), trace = jax.lax.scan(epoch, (parameters, adam.init(parameters)), keys)
    return parameters, trace


def _probabilities(
    layers: tuple[Layer, ...],
    ability: Float[Array, "subject ability"],
    needs: Float[Array, "row ability"],
    difficulty: Float[Array, "row ability"],
    discrimination: Float[Array, " row"],
) -> Float[Array, "subject row"]:
    x = interaction(needs, ability[:, None, :], difficulty, discrimination)
    return sigmoid(logit_right(layers, x))


def _table(responses: Responses, q: QMatrix, trained: NetworkParameters) -> xr.Dataset:
    columns = {
        "proficiency": (("subject", "ability"), trained.ability),
        "difficulty": (("item", "ability"), trained.difficulty),
        "discrimination": (("item",), trained.discrimination),
    }
    coords = {
        "subject": list(responses.subjects),
        "item": list(q.items),
        "ability": list(q.abilities),
    }
    return in_64_bits({name: (dims, sigmoid(x)) for name, (dims, x) in columns.items()}, coords)


_PROBABILITIES: Any = jax.jit(_probabilities)
