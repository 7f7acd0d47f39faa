"""One causal language model, many lanes, one pass."""
