"""What a formula means, without computing it: names, weights, and what is refused.

- `amplification`: how much a formula enlarges rounding errors of its terms.
- `analysis`: which terms a formula is computed from.
- `binding`: names of a formula to terms.
- `bound_terms`: what applications ask of a formula without names: its terms.
- `checking`: refuses formulas without a meaning, before any model loads; warns of surprising ones.
- `effective`: how much each distribution counts after division by the weight.
- `polynomials`: weights as polynomials of factors, and their ranges.
- `weights`: the weights of formulas, by kind of node, and the ranges of factors.
"""
