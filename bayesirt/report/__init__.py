"""The self-contained HTML reports."""
