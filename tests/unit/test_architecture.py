"""The package keeps its layers: imports go one way only."""

import ast
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "bayesirt"
ROOMS = (
    ("errors", "jax_settings", "kept_programs", "names", "progress", "random_keys", "threads"),
    ("data",),
    ("likelihood",),
    ("models",),
    ("convergence", "point_estimate", "verdict"),
    ("estimators",),
    ("posterior", "simulate"),
    ("inference",),
    ("checks",),
    ("ranking",),
    ("bank",),
    ("profiles",),
    ("report",),
    ("studies",),
    ("cli", "pytest_plugin", "inspect_plugin"),
    ("__main__",),
)
"""From the bottom up: a subpackage imports from its own layer and from those before it."""
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}


@cache
def modules() -> dict[str, Path]:
    files = [f for f in PACKAGE.rglob("*.py") if f != PACKAGE / "__init__.py"]
    files += list((PACKAGE / "models").glob("*.py"))
    named = {
        ".".join(("bayesirt", *f.relative_to(PACKAGE).with_suffix("").parts)): f for f in files
    }
    return {name.removesuffix(".__init__"): f for name, f in named.items()}


def room(module: str) -> str:
    return module.split(".")[1]


def imports(nodes: Iterable[ast.AST]) -> set[str]:
    found = [n for n in nodes if isinstance(n, ast.ImportFrom) and n.module]
    named = {f"{n.module}.{alias.name}" for n in found for alias in n.names} & modules().keys()
    return named | {n.module for n in found if n.module.startswith("bayesirt.")}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text("utf-8"))


MOST_PARAMETERS = 8
"""Most arguments of a function outside the command line; more go into a frozen dataclass."""


def test_every_file_lives_in_a_room():
    assert {room(module) for module in modules()} == FLOOR.keys()


def test_nothing_is_imported_from_above_not_even_inside_a_function():
    for module in modules():
        for imported in imports(ast.walk(tree(module))):
            assert FLOOR[room(imported)] <= FLOOR[room(module)], f"{module} imports {imported}"


def test_every_room_says_in_its_first_line_what_lives_there():
    for folder in (f for f in PACKAGE.iterdir() if f.is_dir() and f.name in FLOOR):
        said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
        assert said, folder.name
        assert said.splitlines()[0].endswith((".", "?")), folder.name


def test_no_import_goes_round():
    graph = {name: imports(tree(name).body) & modules().keys() for name in modules()}
    done: set[str] = set()
    while graph.keys() - done:
        free = {m for m in graph.keys() - done if graph[m] - {m} <= done}
        assert free, f"a cycle among {sorted(graph.keys() - done)}"
        done |= free


def parameters(function: ast.FunctionDef) -> list[str]:
    own = function.args
    names = [x.arg for x in (*own.posonlyargs, *own.args, *own.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def test_no_function_takes_more_than_a_reader_can_hold():
    for module in modules():
        if room(module) == "cli":
            continue
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef):
                many = len(parameters(node)) > MOST_PARAMETERS
                assert not many, f"{module}.{node.name}: {parameters(node)}"


def test_the_models_folder_is_not_a_package_of_its_own():
    code = "import models"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True
    )
    assert "import bayesirt.models" in done.stderr


def test_importing_the_package_and_its_command_line_loads_nothing_heavy():
    code = (
        "import sys, bayesirt, bayesirt.cli;"
        "print([m for m in ('jax', 'pandas', 'numpyro', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
