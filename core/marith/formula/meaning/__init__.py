"""The meaning of a formula, found without computing it: names, weights and errors.

- `amplification`: finds how much a formula enlarges rounding errors of its terms.
- `analysis`: finds the terms that a formula is computed from.
- `binding`: replaces names with terms.
- `bound_terms`: tells an application the terms of a formula, and its form for raw text.
- `checking`: raises errors for invalid formulas before any model loads, and warns.
- `effective`: finds how much each distribution counts after division by the weight.
- `polynomials`: represents weights as polynomials of factors, with their ranges.
- `weights`: computes the weights of formulas by kind of node, and the ranges of factors.
"""
