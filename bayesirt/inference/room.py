"""Chains over data that are padded to a few shapes, for the reason given in `few_shapes`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from bayesirt.inference.chain_starts import Start
from bayesirt.inference.checkpoint import Samples
from bayesirt.inference.one_ability import OneAbility
from bayesirt.inference.two_way import TwoWay
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.few_shapes import filled_up


class Room(NamedTuple):
    """Data that may have been padded."""

    data: Any
    # Actual and padded length of each site of subjects or items.
    sizes: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, way: TwoWay, data: Any) -> "Room":
        """Pad small tables for models of one ability without covariates or clusters."""
        if type(way) is not OneAbility or not isinstance(data, DenseLayout):
            return cls(data, {})
        filled = filled_up(*data)
        n_subjects, n_items = zip(data.shape, filled.shape, strict=True)
        both = {"subject": n_subjects, "item": n_items}
        sizes = {name: both[dim] for name, (dim, *_) in way.model.dims.items() if dim in both}
        return cls(DenseLayout(*map(jnp.asarray, filled)), sizes)

    def start(self, start: Start) -> Start:
        """Return the padded start; padding starts at the mean of the others."""
        centre, width = (
            {name: self._longer(name, x, mode) for name, x in values.items()}
            for values, mode in zip(start, ("mean", "maximum"), strict=True)
        )
        return centre, width

    def there(self, draws: Samples) -> Samples:
        """Return the draws without padding."""
        n = {name: size for name, (size, _) in self.sizes.items()}
        return {name: x[:, :, : n[name]] if name in n else x for name, x in draws.items()}

    @property
    def weights(self) -> dict[str, Any]:
        """Weights of each padded site's elements: 1 for actual ones, 0 for padding."""
        return {name: np.arange(room) < n for name, (n, room) in self.sizes.items()}

    def _longer(self, name: str, values: Any, mode: Any) -> Any:
        n, room = self.sizes.get(name, (0, 0))
        return np.pad(np.asarray(values), (0, room - n), mode=mode) if room > n else values
