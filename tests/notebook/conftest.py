"""Notebooks need a kernel, which the quick tests do without."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("nbclient") else ["test_*.py"]
