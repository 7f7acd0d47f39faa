"""Formulas as text: parsing, explaining, and the limits of untrusted text.

- `advice`: tells users what to write instead of an invalid formula.
- `calls`: registers the functions that formula text may call: marith's own, and other people's.
- `explaining`: explains a formula as text: its tree, total weight, normalised form and warnings.
- `parsing`: parses formula text, which is Python's arithmetic; the text is never run.
- `term_data`: converts between terms and plain data: prompts, formulas and tables.
- `trust`: checks the names and nodes of untrusted text, and its size.
"""
