"""Make the shipped example: scikit-learn classifiers scored case by case on three benchmarks.

Run it as ``python -m bayesirt.data.example.make [OUTPUT]``. Every random state is fixed: the same
scikit-learn on the same machine makes the same bytes again.

The benchmarks are scikit-learn's digits, breast-cancer and wine data, each split at random within
its classes into training and held-out cases, all features standardised by the training cases.
Gaussian noise is added to the features of the held-out cases: none to every third of them
(clean), some to the next (noisy), more to the last (very noisy). Neither the split nor the noise
looks at any classifier.

Not every classifier meets every case. Each is run on the cases that `CLASSIFIERS` names, and one
response in ten is then lost at random. Some weak classifiers are run on clean cases only and some
strong ones on noisy cases only, so the plain average misleads.
"""

import argparse
import csv
import gzip
import io
import math
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.example import example_path

try:
    from sklearn import (
        base,
        datasets,
        model_selection,
        preprocessing,
    )
    from threadpoolctl import threadpool_limits

    from bayesirt.data.example.classifiers import CLASSIFIERS, Cases
except ImportError as error:
    raise ImportError("making the example needs scikit-learn: pip install scikit-learn") from error

HELD_OUT = {"digits": 170, "breast-cancer": 90, "wine": 40}
NOISE = np.array([0.0, 0.6, 1.2])  # standard deviations
LOST = 0.1
SEED = 1


class Benchmark(NamedTuple):
    """Training cases in random order, and held-out cases with their names and noise."""

    name: str
    X_train: NDArray[np.float64]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.int64]
    items: list[str]
    topics: list[str]
    noise: NDArray[np.float64]


def load(name: str) -> Benchmark:
    """Split one of scikit-learn's data sets and add the noise to its held-out cases."""
    data = getattr(datasets, f"load_{name.replace('-', '_')}")()
    X, y = data.data, data.target
    train, test = model_selection.train_test_split(
        np.arange(len(y)), test_size=HELD_OUT[name], stratify=y, random_state=SEED
    )
    scaler = preprocessing.StandardScaler().fit(X[train])
    noise = np.resize(NOISE, len(test))
    shift = np.random.default_rng(SEED).normal(size=X[test].shape) * noise[:, None]
    prefix = "digit " if name == "digits" else ""
    return Benchmark(
        name,
        scaler.transform(X[train]),
        y[train],
        scaler.transform(X[test]) + shift,
        y[test],
        [f"{name}-{row:04d}" for row in test],
        [f"{prefix}{data.target_names[label]}" for label in y[test]],
        noise,
    )


def planned(cases: Cases, benchmark: Benchmark) -> NDArray[np.bool_]:
    """Return which held-out cases of a benchmark a classifier is to be run on."""
    row = np.arange(len(benchmark.items))
    plans: dict[Cases, NDArray[np.bool_]] = {
        "all": row >= 0,
        "clean": benchmark.noise == 0,
        "noisy": benchmark.noise > 0,
        "half": row % 2 == 0,
        "no wine": np.full(len(row), benchmark.name != "wine"),
    }
    return plans[cases]


def correct(estimator: Any, percent: int, benchmark: Benchmark) -> NDArray[np.bool_]:
    """Train on the first `percent` of each class and return which held-out cases come out right."""
    y = benchmark.y_train
    rows = [np.flatnonzero(y == label) for label in np.unique(y)]
    taught = np.concatenate([r[: math.ceil(len(r) * percent / 100)] for r in rows])
    model = base.clone(estimator)
    if "random_state" in model.get_params():
        model.set_params(random_state=SEED)
    with warnings.catch_warnings():
        # A network stopped early or a constant pixel makes a classifier worse, not invalid.
        warnings.simplefilter("ignore", UserWarning)
        model.fit(benchmark.X_train[taught], y[taught])
    right: NDArray[np.bool_] = model.predict(benchmark.X_test) == benchmark.y_test
    return right


def evaluate() -> list[tuple[str, str, str, str, int]]:
    """Return the observed responses as sorted rows of model, item, benchmark, topic, score."""
    rng = np.random.default_rng(SEED)
    rows = []
    for benchmark in map(load, HELD_OUT):
        for name, percent, cases, estimator in CLASSIFIERS:
            right = correct(estimator, percent, benchmark)
            observed = planned(cases, benchmark) & (rng.random(len(right)) >= LOST)
            for i in np.flatnonzero(observed):
                case = (benchmark.items[i], benchmark.name, benchmark.topics[i])
                rows.append((f"{name} ({percent}%)", *case, int(right[i])))
    return sorted(rows)


def write(rows: list[tuple[str, str, str, str, int]], path: Path) -> None:
    """Write the rows as gzipped CSV, the same bytes for the same rows."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["model", "item", "benchmark", "topic", "score"])
    table.writerows(rows)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(text.getvalue().encode())


def main() -> None:
    """Evaluate the classifiers and write the responses to the path given on the command line."""
    parser = argparse.ArgumentParser(description="Make the shipped example.")
    parser.add_argument("output", nargs="?", type=Path, default=example_path(), metavar="OUTPUT")
    output = parser.parse_args().output
    with threadpool_limits(1):  # more threads may add up in another order
        rows = evaluate()
    write(rows, output)
    print(f"{len(rows)} responses written to {output}")


if __name__ == "__main__":
    main()
