"""Programs that are kept as JAX lowered them, so that the next process need not trace them again.

JAX keeps what XLA compiled, but looks for it only with a program in hand: to trace and lower a
sweep of chains takes Python more than a second, and to load it a tenth of one.
"""

import hashlib
import json
import os
import pickle
from collections.abc import Callable
from functools import cache, wraps
from glob import glob
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpyro
from jax import export

FOLDER = "BAYESIRT_PROGRAMS"
"""The environment variable that names the folder of programs; without it none are kept."""
_SETTINGS = (
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
)


class _Signature(NamedTuple):
    """What a program depends on beside the function's text."""

    constants: tuple[Any, ...]
    structure: jax.tree_util.PyTreeDef  # Of the arguments.
    leaves: tuple[tuple[tuple[int, ...], Any, bool], ...]  # Shape, dtype, whether weakly typed.


def kept(function: Callable[..., Any], *, constants: int) -> Callable[..., Any]:
    """Return a function as compiled by JAX, with its programs kept where a folder is named.

    Its first arguments are constants, as many as is said. It may be called within `jax.pmap`, but
    not within `jax.vmap`, and not be differentiated.
    """
    compiled = jax.jit(function, static_argnums=tuple(range(constants)))
    programs: dict[_Signature, Callable[..., Any]] = {}

    @wraps(function)
    def call(*arguments: Any) -> Any:
        folder = os.environ.get(FOLDER)
        if not folder:
            return compiled(*arguments)
        leaves, structure = jax.tree.flatten(arguments[constants:])
        types = tuple((x.shape, x.dtype, x.weak_type) for x in map(jax.typeof, leaves))
        signature = _Signature(arguments[:constants], structure, types)
        if signature not in programs:
            programs[signature] = _program(function, signature, Path(folder))
        if not any(isinstance(x, jax.core.Tracer) for x in leaves):
            # As results are, so that a call with results needs no other program.
            leaves = jax.device_put(leaves, jax.local_devices()[0])
        return programs[signature](*leaves)

    return call


def _program(
    function: Callable[..., Any], signature: _Signature, folder: Path
) -> Callable[..., Any]:
    """Return a function of the arguments' leaves: as it was kept, or else as it is kept now."""
    constants, structure, leaves = signature

    @jax.jit
    def compiled(*leaves: Any) -> Any:
        return function(*constants, *jax.tree.unflatten(structure, leaves))

    try:
        path = folder / _name_of(function, signature)
    except (pickle.PicklingError, AttributeError, TypeError):  # a constant is no plain value
        return compiled
    if program := _load(path):
        return program
    like = [jax.ShapeDtypeStruct(s, dtype, weak_type=weak) for s, dtype, weak in leaves]
    result = jax.eval_shape(compiled, *like)
    if any(x.weak_type for x in jax.tree.leaves(result)):  # which a kept program does not know
        return compiled
    for name in _classes(jax.tree.structure(result)):
        _register(name)
    try:
        _save(path, export.export(compiled)(*like))
    except (OSError, NotImplementedError, ValueError):
        return compiled  # nobody may write there, or JAX does not export an operation
    return _load(path) or compiled


def _name_of(function: Callable[..., Any], signature: _Signature) -> str:
    """Return the name of a file that no other program has, of whatever version."""
    settings = [getattr(jax.config, name) for name in _SETTINGS]
    leaves = [(shape, str(dtype), weak) for shape, dtype, weak in signature.leaves]
    said = function.__module__, function.__qualname__, str(signature.structure), leaves, settings
    return hashlib.sha256(
        repr((_versions(), said)).encode() + pickle.dumps(signature.constants)
    ).hexdigest()


@cache
def _versions() -> tuple[Any, ...]:
    """Return what tells this text of the package from others, and what traces it."""
    folder = Path(__file__).parent
    stats = [(x, (folder / x).stat()) for x in sorted(glob("**/*.py", root_dir=folder))]
    files = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return jax.__version__, numpyro.__version__, jax.default_backend(), files


def _save(path: Path, program: export.Exported) -> None:
    """Write a program after its digest and the classes in its result; all of it or nothing."""
    classes, text = sorted(_classes(program.out_tree)), bytes(program.serialize())
    head = json.dumps([hashlib.sha256(text).hexdigest(), *classes])
    beside = path.with_suffix(f".{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside.write_bytes(head.encode() + b"\n" + text)
    beside.replace(path)


def _load(path: Path) -> Callable[..., Any] | None:
    """Return a program that was kept, unless there is none or the file is damaged."""
    try:
        head, _, text = path.read_bytes().partition(b"\n")
        digest, *classes = json.loads(head)
    except (OSError, ValueError):
        return None
    if digest != hashlib.sha256(text).hexdigest():
        return None
    for name in classes:
        _register(name)
    return jax.jit(export.deserialize(bytearray(text)).call)


def _classes(structure: jax.tree_util.PyTreeDef) -> set[str]:
    """Return the named tuples in a structure, as module:name."""
    node = structure.node_data()
    inner = set().union(*map(_classes, structure.children()))
    if node is None or not hasattr(node[0], "_fields"):
        return inner
    return inner | {f"{node[0].__module__}:{node[0].__qualname__}"}


@cache
def _register(name: str) -> None:
    """Tell JAX how a named tuple is called in files."""
    module, _, attribute = name.partition(":")
    named = getattr(import_module(module), attribute)
    export.register_namedtuple_serialization(named, serialized_name=name)
