"""The mode over abilities and items together, and the curvature there, an arrow matrix."""
