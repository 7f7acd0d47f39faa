"""Which strengths reach a target? A search over the unknown numbers of a formula.

- `outcome`: what a search found: the best formula, and the frontier of attribute and perplexity.
- `tune`: which numbers of a formula move an attribute farthest while its texts stay fluent.
- `unknowns`: the unknown numbers of a formula: names that stand where a factor is sought.
"""
