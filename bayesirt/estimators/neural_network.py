"""The monotone network of NeuralCD: initial weights, output and loss."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import sigmoid
from jaxtyping import Array, Float, Int


class Layer(NamedTuple):
    """One fully connected layer."""

    weights: Float[Array, "input output"]  # Of any sign; the network uses their absolute values.
    bias: Float[Array, " output"]


class NetworkParameters(NamedTuple):
    """All learned parameters; those in [0, 1] are stored as logits."""

    ability: Float[Array, "subject ability"]
    difficulty: Float[Array, "item ability"]
    discrimination: Float[Array, " item"]
    layers: tuple[Layer, ...]


class Batch(NamedTuple):
    """Observed cells, padded with cells without trials."""

    subject: Int[Array, " cell"]
    item: Int[Array, " cell"]
    successes: Float[Array, " cell"]
    trials: Float[Array, " cell"]


def first_parameters(
    key: Array, n_subjects: int, n_items: int, n_abilities: int, hidden: tuple[int, ...]
) -> NetworkParameters:
    """Draw initial parameters, with weights by Glorot & Bengio's normal rule.

    Biases are such that units are at their midpoint if abilities equal difficulties. With biases of
    0, as published, units with a thousand non-negative inputs start so saturated that subjects are
    indistinguishable in 32 bits and nothing is learned.
    """
    draw = jax.nn.initializers.glorot_normal()
    keys = jax.random.split(key, 4 + len(hidden))
    widths = (n_abilities, *hidden, 1)
    weights = [
        draw(k, (width, after), jnp.float32)
        for k, width, after in zip(keys[3:], widths[:-1], widths[1:], strict=True)
    ]
    # x is 0 in the first layer; the inputs of later layers are 1/2
    inputs = (0.0, *(0.5 for _ in hidden))
    layers = tuple(
        Layer(w, -middle * jnp.abs(w).sum(0)) for w, middle in zip(weights, inputs, strict=True)
    )
    return NetworkParameters(
        draw(keys[0], (n_subjects, n_abilities), jnp.float32),
        draw(keys[1], (n_items, n_abilities), jnp.float32),
        draw(keys[2], (n_items, 1), jnp.float32)[:, 0],
        layers,
    )


def interaction(
    needs: Float[Array, "... ability"],
    ability: Float[Array, "... ability"],
    difficulty: Float[Array, "... ability"],
    discrimination: Float[Array, "..."],
) -> Float[Array, "... ability"]:
    """Return x = q ⊙ (ability - difficulty) · discrimination.

    Zhang et al. (2026), equation (1).
    """
    return needs * (ability - difficulty) * discrimination[..., None]


def logit_right(
    layers: tuple[Layer, ...],
    x: Float[Array, "... ability"],
    dropout: float = 0.0,
    key: Array | None = None,
) -> Float[Array, "..."]:
    """Return the logit of the probability of a right answer, which never decreases with x.

    Sigmoid layers with weights |w|, as in the published implementation of NeuralCD, are monotone in
    x for any w, without a projection after each step.

    Wang et al. 2023 (NeuralCD); Zhang et al. (2026), section 2.4.
    """
    *inner, last = layers
    for k, layer in enumerate(inner):
        x = sigmoid(x @ jnp.abs(layer.weights) + layer.bias)
        if dropout and key is not None:
            mask = jax.random.bernoulli(jax.random.fold_in(key, k), 1 - dropout, x.shape)
            x = jnp.where(mask, x / (1 - dropout), 0)
    return (x @ jnp.abs(last.weights) + last.bias)[..., 0]


def batch_loss(
    parameters: NetworkParameters,
    needs: Float[Array, "item ability"],
    batch: Batch,
    dropout: float,
    key: Array,
) -> Float[Array, ""]:
    """Return the cross-entropy of a batch, per trial."""
    x = interaction(
        needs[batch.item],
        sigmoid(parameters.ability[batch.subject]),
        sigmoid(parameters.difficulty[batch.item]),
        sigmoid(parameters.discrimination[batch.item]),
    )
    eta = logit_right(parameters.layers, x, dropout, key)
    losses = batch.trials * jax.nn.softplus(eta) - batch.successes * eta
    return losses.sum() / jnp.maximum(batch.trials.sum(), 1)
