"""The statistical models, as NumPyro functions. Read this folder to know what is assumed."""

if __name__ != "bayesirt.models":
    raise ImportError("import bayesirt.models: the folder models/ is a part of the package")

from bayesirt.models.priors import Priors
from bayesirt.models.two_pl import two_pl_model, two_pl_parameters

__all__ = ["Priors", "two_pl_model", "two_pl_parameters"]
