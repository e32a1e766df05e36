"""Reports of SWE-bench: ``<model>.<run>.json``, and submissions' ``results/results.json``."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import Answer, Harness, LogRows, NoAnswersError, choose_scores
from bayesirt.data.readers.json_files import read_beside, read_json
from bayesirt.errors import ResponseError

NAME = "SWE-bench"
_BENCHMARK = "swe-bench"
_UNSEEN = {
    "error_ids": "an error, no answer",
    "infra_failure_ids": "an error, no answer",
    "ambiguous_failure_ids": "an error, no answer",
    "incomplete_ids": "not run",
}
_NAMING = ("resolved", "no_generation", "no_logs")
"""Keys of the lists in a submission."""
_ENDING = Path("results", "results.json")


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether a file is a report, judged by its first bytes and its path."""
    if path.suffix != ".json":
        return False
    if b'"resolved_instances"' in head or b'"resolved_ids"' in head:
        return True
    return _is_submission(path) and (b'"resolved"' in head or b'"no_generation"' in head)


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read a report.

    A resolved instance is 1; an unresolved one is 0, as is one with an empty patch, which is an
    answer. Errors, failures of the infrastructure and instances that were not run are not answers:
    they are left out, not 0. A submission lists only instances that it resolved, has no patch for
    (0) or has no logs for (left out); all other instances that any submission next to it lists
    count as unresolved. ``__`` in the name of a report becomes a slash, which the harness had
    replaced; a submission is named after its folder.
    """
    report, notes = read_json(path), list[str]()
    if "resolved_ids" in report:
        scores, left_out = _of_report(report)
        model = path.name.removesuffix(".json").rpartition(".")[0] or path.stem
        subject = model.replace("__", "/", 1)
    else:
        scores, left_out = _of_submission(report, path)
        subject = path.absolute().parents[1].name
        notes.append("an instance that only some submissions list is unresolved in the others")
    answers = [Answer(item, {"resolved": score}) for item, score in scores.items()]
    return [
        choose_scores(
            NAME, subject, _BENCHMARK, answers, choices, left_out=left_out, notes=tuple(notes)
        )
    ]


def _is_submission(path: Path) -> bool:
    parts = path.absolute().parts
    return parts[-2:] == _ENDING.parts and len(parts) > 3


def _of_report(report: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, int]]:
    resolved = _ids(report, "resolved_ids")
    wrong = _ids(report, "unresolved_ids") or _ids(report, "completed_ids")
    wrong += _ids(report, "empty_patch_ids")
    unseen = {name: why for key, why in _UNSEEN.items() for name in _ids(report, key)}
    scores = {name: 0.0 for name in wrong if name not in unseen} | dict.fromkeys(resolved, 1.0)
    return scores, Counter(why for name, why in unseen.items() if name not in scores)


def _of_submission(
    report: Mapping[str, Any], path: Path
) -> tuple[dict[str, float], dict[str, int]]:
    folder = path.absolute().parents[2]
    reports = [read_beside(file) for file in sorted(folder.glob(f"*/{_ENDING.as_posix()}"))]
    if len(reports) < 2:
        raise NoAnswersError(
            "a submission lists only what it resolved; put its folder next to those of others"
        )
    named = {name for other in reports for key in _NAMING for name in _ids(other, key)}
    resolved = dict.fromkeys(_ids(report, "resolved"), 1.0)
    lost = {*_ids(report, "no_logs")} - resolved.keys()
    scores = dict.fromkeys(sorted(named - lost), 0.0) | resolved
    return scores, {"no logs, no answer": len(lost)}


def _ids(report: Mapping[str, Any], key: str) -> list[str]:
    names = report.get(key, [])
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ResponseError(f"`{key}` is not a list of names; make the report again")
    return list(names)


SWEBENCH = Harness(NAME, _recognises, read)
