"""How do the weights of a loaded model lie, and what computes with them faster than before?

- `lean_modules`: norms, attention and MLPs with fewer operations.
- `packing`: stores weights in oneDNN's layout, for products with few rows.
- `rotary_frequencies`: fixes rotary frequencies that depend on the length (longrope).
"""
