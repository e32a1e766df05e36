"""Ranks, tiers, averages, clusters and separation; runs and their folders."""
