"""Formulas as trees: nodes, terms, factors, and how they are printed.

- `factors`: factors, by which formulas are multiplied: numbers, or functions of the context.
- `node`: the base class of all parts of a formula: size, hash, and equality by structure.
- `nodes`: the tree of a formula, and the operators that build it.
- `operators`: the operators on formulas besides + and *: unions, drafts, conditions and mixtures.
- `printing`: prints a formula as text that parses back to it.
- `signals`: factors that depend on distributions, on the text so far, or on its length.
- `terms`: the leaves of a formula: terms that name a distribution.
"""

import marith.formula.tree.printing  # noqa: F401 (without which no node can be printed)
