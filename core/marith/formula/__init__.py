"""What is sampled from?

- `patterns`: regular expressions in RE2's syntax, searched in linear time while other threads run.
- `meaning/`: what a formula means, without computing it: names, weights, and what is refused.
- `text/`: formulas as text: parsed, explained, read from files, and what a stranger may write.
- `tree/`: formulas as trees: nodes, terms, factors, and how they are printed.
"""
