"""The item bank: a suite of calibrated benchmarks that grows, kept in a folder."""
