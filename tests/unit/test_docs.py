"""The documentation names every exported object once."""

import re
from collections import Counter
from pathlib import Path

import bayesirt

ROOT = Path(__file__).parents[2]


def test_every_exported_name_is_on_exactly_one_page():
    pages = (ROOT / "docs" / "reference").glob("*.md")
    text = "\n".join(path.read_text("utf-8") for path in pages)
    named = Counter(re.findall(r"^::: bayesirt\.(\w+)$", text, re.MULTILINE))
    assert set(named) == set(bayesirt.__all__) - {"__version__"}
    assert set(named.values()) == {1}
