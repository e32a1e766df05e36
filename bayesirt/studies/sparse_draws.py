"""Draws of abilities for many small suites at once.

Each chain has responses of its own, and all of them step together in one compiled call. Smaller
suites are filled up with subjects and items without trials, which say nothing of the others, so
that one compilation does for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.inference.blocked import BlockedState, Position, start_chains
from bayesirt.inference.chains import Length, run_chains
from bayesirt.inference.one_ability import OneAbility
from bayesirt.inference.sweeps import Sweeps
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.models import Priors, TwoPL
from bayesirt.point_estimate import PointEstimate

MOST_SUBJECTS, MOST_ITEMS = 12, 10
BATCH = 50
"""Suites of one call."""

_CHAINS, _WARMUP, _DRAWS = 2, 300, 1000


@dataclass(frozen=True)
class ManySuites:
    """Sweeps over one of many suites as a `bayesirt.inference.chains.Kernel`."""

    sweeps: Sweeps

    def init(
        self, key: Array, start: tuple[Array, Position], data: DenseLayout
    ) -> tuple[Array, BlockedState]:
        """Return the state at a start, with the number of its suite."""
        suite, position = start
        return suite, self.sweeps.init(key, position, _of_suite(data, suite))

    def advance(self, state: tuple[Array, BlockedState], data: DenseLayout) -> Any:
        """Return the state after one sweep."""
        suite, chain = state
        return suite, self.sweeps.advance(chain, _of_suite(data, suite))

    def collect(self, state: tuple[Array, BlockedState]) -> dict[str, Array]:
        """Return the abilities."""
        return {"theta": state[1].position["theta"]}


def draw_abilities(
    suites: Sequence[Responses],
    points: Sequence[PointEstimate],
    *,
    key: Array,
    priors: Priors | None = None,
) -> list[NDArray[np.float64]]:
    """Draw from the posterior of each of many suites by blocked Newton-Metropolis."""
    way = OneAbility(TwoPL(priors or Priors()))
    start_key, run_key = jax.random.split(key)
    filled = [*range(len(suites)), *(0,) * (BATCH - len(suites))]
    cells = [_filled_cells(suite) for suite in suites]
    data = DenseLayout(*(jnp.asarray(np.stack([cells[k][x] for k in filled])) for x in (0, 1)))
    around = [_filled_start(way, point) for point in points]
    centre, width = (
        {name: np.stack([around[k][x][name] for k in filled]) for name in around[0][x]}
        for x in (0, 1)
    )
    starts = start_chains(start_key, centre, width, _CHAINS)
    by_chain = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), starts)
    chains = run_chains(
        ManySuites(Sweeps(way)),
        data,
        (jnp.tile(jnp.arange(BATCH), _CHAINS), by_chain),
        key=run_key,
        length=Length(_WARMUP, _DRAWS),
    )
    theta = chains.samples["theta"].reshape(_CHAINS, BATCH, _DRAWS, MOST_SUBJECTS)
    return [theta[:, k, :, : suite.n_subjects] for k, suite in enumerate(suites)]


def _of_suite(data: DenseLayout, suite: Array) -> DenseLayout:
    return DenseLayout(data.successes[suite], data.trials[suite])


def _filled_cells(suite: Responses) -> tuple[NDArray[np.int32], ...]:
    missing = (0, MOST_SUBJECTS - suite.n_subjects), (0, MOST_ITEMS - suite.n_items)
    return tuple(np.pad(x.astype(np.int32), missing) for x in suite.cells.matrices())


def _filled_start(
    way: OneAbility, point: PointEstimate
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """Return centre and width of the start; what fills up starts within one unit of 0."""
    centre, width = way.start(point, None)
    return (
        {name: _filled(name, values, 0.0) for name, values in centre.items()},
        {name: _filled(name, values, 1.0) for name, values in width.items()},
    )


def _filled(name: str, values: NDArray[np.float64], fill: float) -> NDArray[np.float64]:
    if not values.ndim:
        return values
    size = MOST_SUBJECTS if name == "theta" else MOST_ITEMS
    return np.pad(values, (0, size - len(values)), constant_values=fill)
