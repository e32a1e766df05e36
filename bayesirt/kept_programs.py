"""A cache of lowered JAX programs, so that later processes need not trace them again.

JAX caches what XLA compiled, but needs the lowered program to look it up. Tracing and lowering a
sweep of chains takes more than a second; loading it from this cache takes a tenth of one.
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
from threading import Lock
from typing import Any, NamedTuple

import jax
import numpyro
from jax import export

FOLDER = "BAYESIRT_PROGRAMS"
"""Environment variable with the cache folder; if unset, nothing is cached."""
_SETTINGS = (
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
)


class _Signature(NamedTuple):
    """Everything that a program depends on besides the function's source."""

    constants: tuple[Any, ...]
    structure: jax.tree_util.PyTreeDef  # Of the arguments.
    leaves: tuple[tuple[tuple[int, ...], Any, bool], ...]  # Shape, dtype, whether weakly typed.


def kept(function: Callable[..., Any], *, constants: int) -> Callable[..., Any]:
    """Return the function compiled by JAX, with its programs cached if a folder is set.

    The first `constants` arguments are static. The result can be neither transformed nor called
    within other compiled code.
    """
    compiled = jax.jit(function, static_argnums=tuple(range(constants)))
    programs: dict[_Signature, Callable[..., Any]] = {}
    lock = Lock()  # several threads may need one program at once

    @wraps(function)
    def call(*arguments: Any) -> Any:
        folder = os.environ.get(FOLDER)
        if not folder:
            return compiled(*arguments)
        leaves, structure = jax.tree.flatten(arguments[constants:])
        types = tuple((x.shape, x.dtype, x.weak_type) for x in map(jax.typeof, leaves))
        signature = _Signature(arguments[:constants], structure, types)
        with lock:
            if signature not in programs:
                programs[signature] = _program(function, signature, Path(folder))
        # Results are on the device, too: calls with results can use the same program.
        leaves = jax.device_put(leaves, jax.local_devices()[0])
        return programs[signature](*leaves)

    return call


def _program(
    function: Callable[..., Any], signature: _Signature, folder: Path
) -> Callable[..., Any]:
    """Return the program as a function of the arguments' leaves, from the cache if possible."""
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
    if any(x.weak_type for x in jax.tree.leaves(result)):  # exported programs lose weak types
        return compiled
    for name in _classes(jax.tree.structure(result)):
        _register(name)
    try:
        _save(path, export.export(compiled)(*like))
    except (OSError, NotImplementedError, ValueError):
        return compiled  # the folder is not writable, or JAX cannot export an operation
    return _load(path) or compiled


def _name_of(function: Callable[..., Any], signature: _Signature) -> str:
    """Return a file name that is unique to this program and package version."""
    settings = [getattr(jax.config, name) for name in _SETTINGS]
    leaves = [(shape, str(dtype), weak) for shape, dtype, weak in signature.leaves]
    content = function.__module__, function.__qualname__, str(signature.structure), leaves, settings
    return hashlib.sha256(
        repr((_versions(), content)).encode() + pickle.dumps(signature.constants)
    ).hexdigest()


@cache
def _versions() -> tuple[Any, ...]:
    """Return what identifies the versions of this package's files, JAX, NumPyro and backend."""
    folder = Path(__file__).parent
    stats = [(x, (folder / x).stat()) for x in sorted(glob("**/*.py", root_dir=folder))]
    files = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return jax.__version__, numpyro.__version__, jax.default_backend(), files


def _save(path: Path, program: export.Exported) -> None:
    """Write a program, preceded by its digest and result classes, atomically."""
    classes, text = sorted(_classes(program.out_tree)), bytes(program.serialize())
    head = json.dumps([hashlib.sha256(text).hexdigest(), *classes])
    temporary_path = path.with_suffix(f".{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary_path.write_bytes(head.encode() + b"\n" + text)
    temporary_path.replace(path)


def _load(path: Path) -> Callable[..., Any] | None:
    """Return a cached program; None if there is none or the file is damaged."""
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
    """Register the name under which JAX serialises a named tuple."""
    module, _, attribute = name.partition(":")
    named = getattr(import_module(module), attribute)
    export.register_namedtuple_serialization(named, serialized_name=name)
