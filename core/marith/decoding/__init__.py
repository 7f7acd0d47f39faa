"""Which token follows from these log-probabilities? Tensors, no models.

- `cuts`: masks of the tokens that a distribution keeps: by rank, by mass and by plausibility.
- `divergences`: divergences and entropies of distributions, and the balance of two.
- `evaluate`: log-probabilities of terms to the distribution of a formula.
- `matcher`: computes which tokens a grammar allows after a text.
- `random_numbers`: random numbers as a function of seed, place and use alone.
- `row_constraints`: penalties, biases, the least length, and constraints of the application.
- `sampling`: warps distributions, and draws tokens from them.
"""
