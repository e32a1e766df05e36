"""Calibrated items whose parameters are held fixed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.names import check_names, one_line
from bayesirt.point_estimate import PointEstimate


@dataclass(frozen=True, eq=False)
class KnownItems:
    """Calibrated items whose parameters are held fixed.

    Attributes
    ----------
    names : tuple of str
    a : float array, shape (item, ability)
        Slopes.
    d : float array, shape (item,)
        Intercepts.
    covariance : float array, shape (item, ability + 1, ability + 1)
        Error covariance of each item's (a, d); zeros if they are treated as exact.

    Raises
    ------
    ResponseError
        If names are duplicated, shapes disagree, or a value is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> KnownItems(("x", "y"), np.ones((2, 1)), np.zeros(2), np.zeros((2, 2, 2))).n_abilities
    1
    """

    names: tuple[str, ...]
    a: NDArray[np.float64]
    d: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def __post_init__(self) -> None:
        check_names(self.names, "known item")
        n, k = len(self.names), self.a.shape[-1]
        shapes = {"a": (n, k), "d": (n,), "covariance": (n, k + 1, k + 1)}
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values.shape != shape:
                raise ResponseError(
                    f"`{name}` of {n} known items has shape {values.shape}, expected {shape}"
                )
            if not np.isfinite(values).all():
                item = self.names[int(np.argwhere(~np.isfinite(values))[0][0])]
                raise ResponseError(
                    f"`{name}` of the known item {one_line(item)!r} is not finite; leave it out"
                )

    @property
    def n_abilities(self) -> int:
        """Number of abilities."""
        return self.a.shape[1]

    @classmethod
    def from_estimate(cls, point: PointEstimate) -> "KnownItems":
        """Return the items of an estimate from `fit_mirt` or `calibrate_items`."""
        names = tuple(map(str, point.parameters["item"].values))
        return cls(names, *(point[name] for name in ("a", "d", "item_covariance")))

    @classmethod
    def from_draws(
        cls,
        names: Sequence[str],
        a: NDArray[np.floating],
        d: NDArray[np.floating],
    ) -> "KnownItems":
        """Return items at the means of draws, with the draws' covariances.

        Notes
        -----
        Covariances are kept within items only. Uncertainty that items share, such as that of the
        abilities' scale, is included in each of them as if it were independent.

        Examples
        --------
        >>> import numpy as np
        >>> a, d = np.array([[[1.0]], [[3.0]]]), np.array([[0.0], [2.0]])
        >>> KnownItems.from_draws(["x"], a, d).covariance
        array([[[2., 2.],
                [2., 2.]]])

        For a posterior from `sample_mirt`: ``from_draws(posterior.items, posterior.draws("a"),
        posterior.draws("d"))``.
        """
        a, d = np.asarray(a, np.float64), np.asarray(d, np.float64)
        if a.ndim != 3 or d.shape != a.shape[:2] or len(d) < 2:
            raise ResponseError(
                f"draws of slopes and intercepts have shapes {a.shape} and {d.shape}; expected "
                f"(sample, item, ability) and (sample, item), with at least two samples"
            )
        both = np.concatenate([a, d[:, :, None]], 2)
        centre = both.mean(0)
        off = np.moveaxis(both - centre, 0, 2)
        covariance = off @ np.swapaxes(off, 1, 2) / (len(d) - 1)
        return cls(tuple(map(str, names)), centre[:, :-1], centre[:, -1], covariance)

    def select(self, positions: NDArray[np.intp]) -> "KnownItems":
        """Return the items at the given positions."""
        names = tuple(self.names[j] for j in positions)
        return KnownItems(names, self.a[positions], self.d[positions], self.covariance[positions])

    def within(self, responses: Responses) -> tuple["KnownItems", NDArray[np.intp]]:
        """Return the known items among the responses, and their positions there."""
        positions = {name: j for j, name in enumerate(self.names)}
        columns = np.flatnonzero([name in positions for name in responses.items])
        if not len(columns):
            raise ResponseError(
                f"none of the {len(self.names)} known items is among the {responses.n_items} items "
                f"of the responses; subjects must also answer known items, under the same names"
            )
        return self.select(np.array([positions[responses.items[j]] for j in columns])), columns
