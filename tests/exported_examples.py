"""A pytest plugin that runs only the docstring examples of exported names.

A name is exported if the `__all__` of the package or of one of its rooms lists it.
"""

import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "bayesirt"


def exported() -> set[str]:
    """Return the full names of all exported objects, by the module that defines them."""
    rooms = [
        ".".join(f.relative_to(PACKAGE.parent).parts[:-1]) for f in PACKAGE.rglob("__init__.py")
    ]
    found = set()
    for room in map(importlib.import_module, rooms):
        for name in getattr(room, "__all__", ()):
            thing = getattr(room, name)
            found.add(f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', name)}")
    return found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = exported()
    own, others = [], []
    for item in items:
        of_package = item.name.startswith("bayesirt.")
        is_exported = any(item.name == x or item.name.startswith(f"{x}.") for x in names)
        (own if is_exported or not of_package else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = own
