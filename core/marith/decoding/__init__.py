"""Compose log-probabilities, and draw tokens from them. Tensors, no models.

- `blocks`: the positions of a text that are composed, and their rows until a token is final.
- `cuts`: masks of the tokens that a distribution keeps: by rank, by mass and by plausibility.
- `divergences`: divergences and entropies of distributions, and the balance of two.
- `evaluate`: computes the distribution of a formula from log-probabilities of its terms.
- `lift_cuts`: composes without the cuts of a formula where they leave no allowed token.
- `matcher`: computes which tokens a grammar allows after a text.
- `random_numbers`: random numbers as a pure function of seed, place and use.
- `row_constraints`: penalties, biases, the least length, and constraints of the application.
- `sampling`: warps distributions, and draws tokens from them.
- `value`: the value of a node: score, weight, and the tokens that it allows or lacks.
- `weighted_sums`: sums of log-probabilities whose factors are numbers.
"""
