"""Terms without a model: n-grams, uniform, positions."""
