"""How are the weights of a loaded model laid out, so that passes over them are faster?

- `lean_modules`: norms, attention and MLPs with fewer operations.
- `packing`: stores weights in oneDNN's layout, for products with few rows.
- `rotary_frequencies`: gives texts of all lengths the same rotary frequencies (longrope).
"""
