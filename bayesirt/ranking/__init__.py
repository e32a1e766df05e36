"""Ranks, tiers, averages, clusters and separation; the run and its folder."""
