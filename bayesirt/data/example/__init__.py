"""The example that ships with the package: scikit-learn classifiers scored on held-out cases."""

from pathlib import Path

__all__ = ["example_path"]


def example_path() -> Path:
    """Return the path of the shipped example, made by ``python -m bayesirt.data.example.make``."""
    return Path(__file__).with_name("classifiers.csv.gz")
