"""Formulas as trees: nodes, terms, factors, and their printed text.

- `aligned`: defines a term over another vocabulary, which lacks some tokens.
- `factors`: defines factors, which multiply formulas: numbers, or functions of the context.
- `node`: defines the base class of all parts of a formula: size, hash, and structural equality.
- `nodes`: defines the tree of a formula, and the Python operators that build it.
- `operators`: defines the other operators on formulas: unions, drafts, conditions and mixtures.
- `printing`: prints a formula as text that parses back to the formula.
- `signals`: defines factors that depend on distributions, on the text so far, or on its length.
- `terms`: defines the leaves of a formula: terms that name a distribution.
"""

import marith.formula.tree.printing  # noqa: F401 (registers the printing of nodes)
