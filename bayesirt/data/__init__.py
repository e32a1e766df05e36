"""Responses: layouts, names, Q-matrix, clusters and costs; and the readers of all formats."""
