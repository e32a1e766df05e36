"""A gate as JUnit XML, which every CI system shows."""

from collections.abc import Sequence
from xml.etree import ElementTree

from bayesirt.names import one_line
from bayesirt.ranking.gate_result import Gate


def gate_as_junit(gates: Sequence[Gate]) -> bytes:
    """Return a test case for each candidate: failed by a regression, skipped where undecided."""
    failed = sum(gate.passes is False for gate in gates)
    skipped = sum(gate.passes is None for gate in gates)
    counts = {"tests": len(gates), "failures": failed, "errors": 0, "skipped": skipped}
    attributes = {"name": "bayesirt gate"} | {name: str(n) for name, n in counts.items()}
    suite = ElementTree.Element("testsuite", attributes)
    for gate in gates:
        names = one_line(gate.candidate, 80), one_line(gate.baseline, 80)
        case = ElementTree.SubElement(
            suite, "testcase", classname="bayesirt.gate", name=f"{names[0]} against {names[1]}"
        )
        text = _printable(gate.to_text())
        if gate.passes is not True:
            tag = "skipped" if gate.passes is None else "failure"
            ElementTree.SubElement(case, tag, message=text.splitlines()[0]).text = text
        ElementTree.SubElement(case, "system-out").text = text
    root = ElementTree.Element("testsuites")
    root.append(suite)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """Return text without the characters that XML does not allow."""
    return "".join(c for c in text if c in "\n\t" or c >= " ")
