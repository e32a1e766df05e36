"""The self-contained HTML report."""

from bayesirt.report.html import render_report

__all__ = ["render_report"]
