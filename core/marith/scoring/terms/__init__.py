"""What evaluates each kind of term: spans → log-probabilities."""
