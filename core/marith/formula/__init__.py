"""Formulas, which define the distribution to sample from. Plain data, without torch.

- `patterns`: matches regular expressions in RE2's syntax, in linear time.
- `meaning/`: finds out what a formula means, without computing it: names, weights and errors.
- `text/`: parses and explains formulas, and limits untrusted text.
- `tree/`: defines formulas as trees: nodes, terms and factors, and their printed text.
"""
