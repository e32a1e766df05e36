"""An inspect_ai extension that ranks the models of a log folder after each run.

It does nothing unless ``BAYESIRT_RANK_OUT`` names the output folder. ``BAYESIRT_RANK_OPTIONS``
holds further options of ``bayesirt rank``, such as ``--metric match``. The ranking runs in a
separate process, which cannot disturb the evaluation. If there is nothing to rank yet, such as with
logs of one model only, the reason is printed.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

from inspect_ai.hooks import Hooks, RunEnd, hooks

OUT, OPTIONS = "BAYESIRT_RANK_OUT", "BAYESIRT_RANK_OPTIONS"


@hooks(name="bayesirt", description="Rank the models of a log folder with honest uncertainty")
class RankLogs(Hooks):  # type: ignore[misc]
    """Rank the models after each run."""

    def enabled(self) -> bool:
        """Return whether an output folder is set."""
        return bool(os.environ.get(OUT))

    async def on_run_end(self, data: RunEnd) -> None:
        """Rank the models of each folder that holds logs of the run."""
        folders = dict.fromkeys(_folder_of(log.location) for log in data.logs if log.location)
        for folder in folders:
            print(f"bayesirt: {rank_folder(folder)}")


def _folder_of(location: str) -> str:
    """Return the folder of a log, given its path or file URL."""
    url = urlparse(location)
    path = unquote(url.path) if url.scheme == "file" else location
    return path.rpartition("/")[0] or "."


def rank_folder(folder: str) -> str:
    """Rank the models of a log folder; return the report's path or why there is none."""
    out = os.environ[OUT]
    options = shlex.split(os.environ.get(OPTIONS, ""))
    command = [sys.executable, "-m", "bayesirt", "rank", folder, "--out", out, "--overwrite"]
    process = subprocess.run([*command, "--quiet", *options], capture_output=True, text=True)
    if process.returncode:
        return process.stderr.strip().removeprefix("bayesirt: ") or "the ranking was interrupted"
    return f"the models of {folder} are ranked in {Path(out, 'report.html')}"
