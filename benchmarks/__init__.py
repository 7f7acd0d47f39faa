"""How fast? Formulas against transformers' own decoding, in one process and on the same weights."""
