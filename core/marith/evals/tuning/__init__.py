"""Search for the numbers of a formula that reach a target.

- `outcome`: the result of a search: the best formula, and the Pareto frontier.
- `tune`: the search: change an attribute as far as a limit on perplexity allows.
- `unknowns`: the unknown numbers of a formula: names in the place of numbers.
"""
