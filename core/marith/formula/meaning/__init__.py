"""The meaning of a formula, found without computing it: names, weights and errors.

- `aligning`: changes a formula whose terms lack tokens of the base model.
- `amplification`: finds how much a formula enlarges rounding errors of its terms.
- `binding`: replaces names with terms.
- `formula_queries`: tells an application which terms a formula has, and how it reads raw text.
- `checking`: raises errors for invalid formulas before any model loads, and warns.
- `large_factors`: finds distributions whose factor is large after division by the weight.
- `leaves`: finds the terms that a formula is computed from, and those that only draft.
- `missing_weight`: says what to write instead of a formula without weight.
- `partial`: finds the distribution that a formula defines while only some terms are computed.
- `polynomials`: represents weights as polynomials of factors, with their ranges.
- `removal`: removes cuts or classifiers from a formula.
- `shares`: computes the shares of terms in a sum whose factors are numbers.
- `weights`: computes the weights of formulas by kind of node, and the ranges of factors.
"""
