"""Formulas as text: parsed, explained, read from files, and what a stranger may write.

- `advice`: what to write instead of text that is not a formula.
- `calls`: what formula text may call, by name: marith's own functions, and those of others.
- `explaining`: explains a formula as text: its tree, total weight, normalised form and warnings.
- `files`: named terms and formulas in a TOML file, and the options to generate with them.
- `parsing`: parses formula text: Python's arithmetic, read as a syntax tree and never run.
- `term_data`: terms as callers and data give them: prompts, formulas and tables.
- `trust`: which names, options and nodes untrusted text may use.
"""
