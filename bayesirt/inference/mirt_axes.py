"""Which axes MIRT's abilities have: each draw is rotated to one set of slopes.

Neither answers nor prior see rotations and reflections of the abilities, so draws come in any axes.
What does not depend on axes - predictors, scores, the lengths of slopes, the eigenvalues of Λ - is
the same before and after.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Draws = dict[str, NDArray[np.floating]]


def aligned_draws(
    samples: Mapping[str, NDArray[np.floating]], target: NDArray[np.floating]
) -> Draws:
    """Rotate each draw to where its slopes are closest to others.

    The orthogonal R for which Σ_j |Rᵀa_j - target_j|² is least is U Vᵀ, where U S Vᵀ = Aᵀ target
    (Schönemann 1966); a, θ, γ, μ_a and μ_b become Rᵀa and so on, and Λ becomes RᵀΛR.

    Schönemann 1966.

    >>> import numpy as np
    >>> target = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> bool(np.allclose(aligned_draws({"a": target @ quarter}, target)["a"], target))
    True
    """
    left, _, right = np.linalg.svd(np.swapaxes(samples["a"], -1, -2) @ target)
    rotation = (left @ right).astype(samples["a"].dtype)
    back, turned = np.swapaxes(rotation, -1, -2), dict(samples)
    for name in {"a", "theta", "gamma"} & set(samples):
        turned[name] = samples[name] @ rotation
    for name in {"mu_a", "mu_b"} & set(samples):
        turned[name] = (samples[name][..., None, :] @ rotation)[..., 0, :]
    if "precision_a" in samples:
        turned["precision_a"] = back @ samples["precision_a"] @ rotation
    return turned
