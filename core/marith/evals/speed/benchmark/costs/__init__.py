"""What a token's time is made of: products, the rest of a step, memory, other requests."""
