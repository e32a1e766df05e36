"""Draw from the default priors of the 2PL: `python docs/draw_priors.py`."""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from numpyro.infer import Predictive

from bayesirt import TwoPL

MODELS, QUESTIONS, SUITES = 40, 200, 10
PICTURE = Path(__file__).parent / "pictures" / "priors.svg"
BLUE = "#0b5394"


def draw() -> None:
    """Save the picture of abilities, proportions correct and accuracies in a few suites."""
    predictive = Predictive(TwoPL(), num_samples=SUITES)
    drawn = predictive(jax.random.key(0), jnp.ones((MODELS, QUESTIONS), int))
    right = np.asarray(drawn["successes"])
    suites = np.argsort(right.mean((1, 2)))
    mpl.rcParams |= {"svg.hashsalt": "bayesirt", "svg.fonttype": "path", "font.size": 9}
    figure, (left, middle, of_models) = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
    theta = np.linspace(-3.5, 3.5, 200)
    left.plot(theta, np.exp(-(theta**2) / 2) / np.sqrt(2 * np.pi), color=BLUE)
    left.hist(np.asarray(drawn["theta"]).ravel(), 28, density=True, color=BLUE, alpha=0.25)
    left.set(xlabel="ability", yticks=[], title="Abilities")
    rng = np.random.default_rng(0)
    for axis, mean in ((middle, right.mean(1)), (of_models, right.mean(2))):
        for row, suite in enumerate(suites):
            height = row + 0.25 * rng.uniform(-1, 1, mean.shape[1])
            axis.plot(mean[suite], height, ".", color=BLUE, alpha=0.5, ms=4, mew=0)
        axis.set(xlim=(-0.02, 1.02), yticks=range(SUITES), yticklabels=range(1, SUITES + 1))
    middle.set(xlabel="share of models that get a question right", title="Questions")
    middle.set_ylabel("suite drawn from the prior")
    of_models.set(xlabel="accuracy of a model", title="Models")
    for axis in (left, middle, of_models):
        axis.spines[["top", "right"]].set_visible(False)
    for axis in (middle, of_models):  # thousands of dots are smaller as one image
        axis.set_rasterization_zorder(3)
    figure.savefig(PICTURE, dpi=120, metadata={"Date": None})


if __name__ == "__main__":
    draw()
