"""The folder of an item bank: steps are only appended, never changed.

A step counts once ``bank.json`` lists it. This is the only file that is ever replaced, and it
holds the SHA-256 sums of all other files and of itself.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from bayesirt.bank.files import FILES, pack_step, sync_folder, unpack_step, write_file
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.lock import bank_lock
from bayesirt.bank.step import BankStep
from bayesirt.data.whole_file import saying_why
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

BANK = "bank.json"
FORMAT = "bayesirt item bank"
VERSION = 2
_STEPS = "steps"
_DETAILS = ("figures", "settings", "source", "versions")
_UNREADABLE = (
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)
"""Errors that invalid contents raise."""
_STEP_NAME = re.compile(r"\d{3,}-(create|add|score)(\.partial)?")


def create_bank_folder(folder: Path, step: BankStep, n_abilities: int) -> ItemBank:
    """Write a new bank, completely or not at all."""
    bank = ItemBank(n_abilities, (step,))
    with saying_why(folder):
        check_new(folder)
        folder = folder.resolve()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".bayesirt-", dir=folder.parent) as scratch:
            new = Path(scratch, "new")
            (new / _STEPS).mkdir(parents=True)
            _write_document(new, n_abilities, [_write_step(new, bank)])
            if folder.exists():
                folder.rmdir()
            new.rename(folder)
            sync_folder(folder.parent)
    return bank


def append_step(folder: Path, step: BankStep) -> ItemBank:
    """Add a step to a bank; if this fails or is killed, the bank remains unchanged."""
    _read_document(folder)
    with bank_lock(folder):
        document = _read_document(folder)
        bank = _read_steps(folder, document)
        bank = ItemBank(bank.n_abilities, (*bank.steps, step))
        with saying_why(folder):
            _remove_unnamed(folder, bank.step_names[:-1])
            entries = [*document["steps"], _write_step(folder, bank)]
            _write_document(folder, bank.n_abilities, entries)
    return bank


def read_bank(folder: str | Path) -> ItemBank:
    """Read a bank, and check every file against its SHA-256.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    ItemBank

    Raises
    ------
    ResponseError
        If the folder holds no bank, a bank of another version, or a damaged one.

    Examples
    --------
    >>> read_bank("missing")
    Traceback (most recent call last):
    bayesirt.errors.ResponseError: missing holds no item bank; name the folder of a bank
    """
    folder = Path(folder)
    return _read_steps(folder, _read_document(folder))


def is_bank(folder: Path) -> bool:
    """Return whether a folder holds an item bank, of any version and even if damaged."""
    return (folder / BANK).is_file()


def check_new(folder: Path) -> None:
    """Raise ResponseError unless a folder is new or empty."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise ResponseError(f"{_shown(folder)} is a file; name a folder for the bank")
    if folder.exists() and any(folder.iterdir()):
        raise ResponseError(
            f"{_shown(folder)} is not empty; name another folder for the bank, or add to the "
            f"existing one"
        )


def _read_document(folder: Path) -> dict[str, Any]:
    """Return the content of ``bank.json``, after checking its own SHA-256."""
    if not is_bank(folder):
        raise ResponseError(f"{_shown(folder)} holds no item bank; name the folder of a bank")
    data = _read_file(folder, BANK)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise _damaged(folder, f"{BANK} is not as it was written") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ResponseError(
            f"{BANK} in {_shown(folder)} is not of an item bank; name the folder of a bank"
        )
    version = document.get("version")
    if isinstance(version, int) and version != VERSION:
        age, do = ("an earlier", "create it again")
        if version > VERSION:
            age, do = ("a newer", "upgrade bayesirt")
        raise ResponseError(
            f"the item bank in {_shown(folder)} was made by {age} bayesirt (it has format "
            f"{version}, this version reads {VERSION}); {do}"
        )
    claimed = document.get("sha256")
    sealed = isinstance(claimed, str) and _sha256(data.replace(claimed.encode(), b"", 1)) == claimed
    if version != VERSION or not sealed:
        raise _damaged(folder, f"{BANK} is not as it was written")
    return document


def _read_steps(folder: Path, document: dict[str, Any]) -> ItemBank:
    try:
        steps = [_read_step(folder, entry) for entry in document["steps"]]
        bank = ItemBank(document["abilities"], tuple(steps))
        names = [entry["name"] for entry in document["steps"]]
    except _DamagedBankError:
        raise
    except _UNREADABLE as error:
        raise _damaged(folder, one_line(str(error), 300)) from error
    if names != list(bank.step_names):
        raise _damaged(folder, "its steps are out of order")
    return bank


def _read_step(folder: Path, entry: dict[str, Any]) -> BankStep:
    name, files = entry["name"], {}
    if not _STEP_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a step")
    for file, expected in entry["files"].items():
        if file not in FILES:
            raise ValueError(f"{file!r} is not a file of a step")
        path = f"{_STEPS}/{name}/{file}"
        files[file] = _read_file(folder, path)
        if _sha256(files[file]) != expected:
            raise _damaged(folder, f"{path} is not as it was written")
    return unpack_step(entry["kind"], files, {detail: entry[detail] for detail in _DETAILS})


def _read_file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError:
        raise _damaged(folder, f"{name} is missing") from None
    except OSError as error:
        reason = one_line(error.strerror or str(error), 200)
        raise ResponseError(f"{name} in {_shown(folder)} cannot be read: {reason}") from error


def _write_step(folder: Path, bank: ItemBank) -> dict[str, Any]:
    """Write a bank's last step, and return its entry in ``bank.json``."""
    name, step = bank.step_names[-1], bank.steps[-1]
    files = pack_step(step)
    partial = folder / _STEPS / f"{name}.partial"
    partial.mkdir()
    for file, data in files.items():
        write_file(partial / file, data)
    sync_folder(partial)
    partial.rename(folder / _STEPS / name)
    sync_folder(folder / _STEPS)
    sums = {file: _sha256(data) for file, data in files.items()}
    details = {detail: getattr(step, detail) for detail in _DETAILS}
    return {"name": name, "kind": step.kind, "files": sums, **details}


def _write_document(folder: Path, n_abilities: int, steps: list[dict[str, Any]]) -> None:
    head = {"format": FORMAT, "version": VERSION}
    rest = {"abilities": int(n_abilities), "steps": steps}

    def document(digest: str) -> bytes:
        return json.dumps({**head, "sha256": digest, **rest}, indent=1).encode() + b"\n"

    partial = folder / f"{BANK}.partial"
    write_file(partial, document(_sha256(document(""))))
    partial.replace(folder / BANK)
    sync_folder(folder)


def _remove_unnamed(folder: Path, named: tuple[str, ...]) -> None:
    """Remove steps that were never finished."""
    for path in (folder / _STEPS).iterdir():
        if _STEP_NAME.fullmatch(path.name) and path.name not in named:
            shutil.rmtree(path)


class _DamagedBankError(ResponseError):
    """A bank that has changed since it was written."""


def _damaged(folder: Path, reason: str) -> _DamagedBankError:
    return _DamagedBankError(
        f"the item bank in {_shown(folder)} is damaged: {reason}; restore it from a copy"
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _shown(folder: Path) -> str:
    return one_line(str(folder), 400)
