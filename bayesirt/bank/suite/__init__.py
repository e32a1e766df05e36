"""Scores on a whole suite of benchmarks, predicted from answers to a few of its items."""
