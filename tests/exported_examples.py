"""A pytest plugin: of the examples in docstrings, only those of exported names run.

Exported is what stands in the `__all__` of the package or of one of its rooms.
"""

import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "bayesirt"


def exported() -> set[str]:
    """Return the full names, by where they are defined, of all that is exported."""
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
