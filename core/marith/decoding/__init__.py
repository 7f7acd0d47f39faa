"""Which token follows from these log-probabilities? Tensors, no models."""
