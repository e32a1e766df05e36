"""The house keeps its order: data flow one way, and nothing imports back."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "bayesirt"
ORDER = (
    (
        "bayesirt.errors",
        "bayesirt.names",
        "bayesirt.progress",
        "bayesirt.free_memory",
        "bayesirt.whole_file",
    ),
    ("bayesirt.parquet_bounds",),
    ("bayesirt.scores", "bayesirt.cells"),
    ("bayesirt.cell_rows", "bayesirt.answer_matrices", "bayesirt.stored_cells"),
    ("bayesirt.cell_store",),
    ("bayesirt.columns", "bayesirt.clusters", "bayesirt.costs", "bayesirt.responses"),
    ("bayesirt.response_summary",),
    ("bayesirt.q_matrix", "bayesirt.long_parquet_file"),
    ("bayesirt.readers", "bayesirt.example"),
    ("bayesirt.q_annotation",),
    ("bayesirt.families", "bayesirt.loadings", "bayesirt.point_estimate", "bayesirt.verdict"),
    ("bayesirt.likelihood",),
    ("bayesirt.stored_layout",),
    ("bayesirt.models", "bayesirt.latencies"),
    ("bayesirt.estimators",),
    ("bayesirt.posterior", "bayesirt.simulate", "bayesirt.q_simulation"),
    ("bayesirt.inference",),
    ("bayesirt.anchored_scale", "bayesirt.other_slopes"),
    ("bayesirt.flags", "bayesirt.pairwise", "bayesirt.averages", "bayesirt.item_table"),
    ("bayesirt.chain_bounds", "bayesirt.differences"),
    ("bayesirt.fit_checks", "bayesirt.rest_scores"),
    ("bayesirt.duplicates", "bayesirt.missing_excess", "bayesirt.score_draws"),
    ("bayesirt.item_evidence",),
    ("bayesirt.ranking", "bayesirt.comparison", "bayesirt.item_review", "bayesirt.changes"),
    ("bayesirt.cluster_ranking", "bayesirt.score_order"),
    ("bayesirt.ability_belief", "bayesirt.ability_profiles", "bayesirt.prediction"),
    ("bayesirt.item_prospects", "bayesirt.new_answers"),
    ("bayesirt.adaptive", "bayesirt.separation"),
    ("bayesirt.cluster_separation",),
    ("bayesirt.length_gain", "bayesirt.prediction_gain"),
    ("bayesirt.wrong_lengths",),
    ("bayesirt.record",),
    ("bayesirt.suite",),
    ("bayesirt.bank",),
    ("bayesirt.run", "bayesirt.profile_run"),
    ("bayesirt.run_folder", "bayesirt.update"),
    ("bayesirt.profile_folder", "bayesirt.plots"),
    ("bayesirt.profile_marks",),
    ("bayesirt.profile_plots", "bayesirt.bank_plots", "bayesirt.ranking_plots"),
    ("bayesirt.fit_plots",),
    ("bayesirt.terminal_parts",),
    ("bayesirt.report", "bayesirt.export", "bayesirt.terminal", "bayesirt.terminal_bank"),
    ("bayesirt.studies",),
    ("bayesirt.cli_options",),
    ("bayesirt.cli_input",),
    ("bayesirt.cli_study", "bayesirt.cli_profile", "bayesirt.cli_bank", "bayesirt.cli_next_item"),
    ("bayesirt.cli_convert", "bayesirt.cli_rank", "bayesirt.cli_run"),
    ("bayesirt.cli",),
)
PLACE = {room: place for place, rooms in enumerate(ORDER) for room in rooms}


def modules() -> dict[str, Path]:
    files = [f for f in PACKAGE.rglob("*.py") if f != PACKAGE / "__init__.py"]
    files += list((PACKAGE / "models").glob("*.py"))
    named = {
        ".".join(("bayesirt", *f.relative_to(PACKAGE).with_suffix("").parts)): f for f in files
    }
    return {name.removesuffix(".__init__"): f for name, f in named.items()}


def room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    nodes = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module]
    return {n.module for n in nodes if n.module.startswith("bayesirt.")}


@pytest.mark.parametrize("module", sorted(modules()))
def test_imports_only_what_stands_to_its_left(module: str):
    assert room(module) in PLACE, f"give {room(module)} its place in ORDER"
    for imported in imports(modules()[module]):
        if room(imported) != room(module):
            assert PLACE[room(imported)] <= PLACE[room(module)], f"{module} imports {imported}"


def test_no_import_goes_round():
    graph = {name: imports(path) & modules().keys() for name, path in modules().items()}
    done: set[str] = set()
    while graph.keys() - done:
        free = {m for m in graph.keys() - done if graph[m] - {m} <= done}
        assert free, f"a cycle among {sorted(graph.keys() - done)}"
        done |= free


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
