"""The item bank: a growing suite of calibrated benchmarks in a folder."""
