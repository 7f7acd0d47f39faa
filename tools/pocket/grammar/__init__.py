"""Which texts does the pocket model learn from: a synthetic grammar, one module per kind."""
