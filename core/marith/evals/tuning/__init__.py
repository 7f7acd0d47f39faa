"""Search for the numbers of a formula that reach a target.

- `outcome`: the result of a search: the best formula, and the frontier.
- `tune`: the search: move an attribute as far as fluency allows.
- `unknowns`: the unknown numbers of a formula, which are names in place of factors.
"""
