"""Several abilities by a Q-matrix, and drafting a Q-matrix."""
