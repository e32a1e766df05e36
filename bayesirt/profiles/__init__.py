"""Models of several abilities with or without a Q-matrix, and drafting of Q-matrices."""
