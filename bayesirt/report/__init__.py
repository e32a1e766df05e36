"""The self-contained HTML reports."""

from bayesirt.report.html import render_report
from bayesirt.report.profile_html import render_profile_report

__all__ = ["render_profile_report", "render_report"]
