"""The joint mode of abilities and items, and the curvature there, an arrow matrix."""
