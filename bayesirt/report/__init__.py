"""The self-contained HTML reports."""

from bayesirt.report.bank_html import render_bank_report
from bayesirt.report.html import render_report
from bayesirt.report.profile_html import render_profile_report

__all__ = ["render_bank_report", "render_profile_report", "render_report"]
