"""The command line: one file per command."""

from bayesirt.cli.commands import main

__all__ = ["main"]
